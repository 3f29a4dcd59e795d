"""Input of a Placement's decision, read once, with the user's own rights. Writes nothing."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
)
from agent.api.names.ocm import LABEL_PLACEMENT, decision_label
from agent.cli.options import Failed
from agent.cli.placements.queries import as_far, listed, name_of, read
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.placement.placements.cel import CelEvaluator
from agent.ranking.placing import read as reading
from agent.ranking.placing.evaluate import ANY_SCORE, candidates, cel_expressions, scores_used
from agent.ranking.placing.inputs import CelVerdicts, PlacementInputs

Raw = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """Input for the explanation of one Placement."""

    placement: Raw
    fleet: PlacementInputs
    decisions: Sequence[Raw] = ()
    """PlacementDecisions of the Placement."""
    elsewhere: Mapping[str, int] = field(default_factory=dict)
    """Number of decisions for each cluster by all other Placements."""
    cel: CelVerdicts = field(default_factory=CelVerdicts)
    file: str = ""
    """File that contains the Placement; empty for an applied one."""
    notes: Sequence[str] = ()
    """Objects that could not be read, and the consequence."""

    @property
    def decided(self) -> tuple[str, ...]:
        """Clusters that the Placement's decisions name."""
        return tuple(name for each in self.decisions for name in reading.decided(each))


async def read_placement(client: Client, namespace: str, name: str) -> Raw:
    """Read a Placement. Raises Failed, KubeError."""
    try:
        return await client.get(PLACEMENTS, name, namespace)
    except NotFound:
        there = listed(map(name_of, await read(client, PLACEMENTS, namespace)))
        raise Failed(f"there is no Placement {namespace}/{name} (there is: {there})") from None


async def read_facts(client: Client, placement: Raw, now: datetime, file: str = "") -> Facts:
    """Read all input for the explanation of a Placement. Raises Failed, KubeError."""
    notes: list[str] = []
    namespace, name = placement["metadata"]["namespace"], placement["metadata"]["name"]
    clusters = await read(client, MANAGED_CLUSTERS)
    sets = await read(client, MANAGED_CLUSTER_SETS)
    bindings = await read(client, MANAGED_CLUSTER_SET_BINDINGS, namespace)
    used = scores_used(placement)
    scored = await as_far(client, ADDON_PLACEMENT_SCORES, notes, "scores count as missing") if used else []
    looked_at = [each for each in scored if name_of(each) in used or ANY_SCORE in used]
    fleet = reading.fleet(clusters, sets, bindings, looked_at)
    try:
        decisions = await read(client, PLACEMENT_DECISIONS)
    except Forbidden as error:
        notes.append(f"Balance counts no decisions of other namespaces: {error}")
        decisions = await read(client, PLACEMENT_DECISIONS, namespace)
    own = [
        each
        for each in decisions
        if each["metadata"]["namespace"] == namespace
        and (each["metadata"].get("labels") or {}).get(LABEL_PLACEMENT) == decision_label(name)
    ]
    others = Counter(cluster for each in decisions if each not in own for cluster in reading.decided(each))
    return Facts(
        placement=placement,
        fleet=fleet,
        decisions=sorted(own, key=_index),
        elsewhere=others,
        cel=await _verdicts(placement, fleet, {name_of(each): each for each in clusters}, now),
        file=file,
        notes=notes,
    )


def _index(decision: Raw) -> tuple[int, str]:
    """Return the number of a PlacementDecision, by which they are sorted."""
    name = name_of(decision)
    number = name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0, name


async def _verdicts(placement: Raw, fleet: PlacementInputs, raw: Mapping[str, Raw], now: datetime) -> CelVerdicts:
    """Evaluate CEL expressions in a separate process, like the agent does."""
    expressions = cel_expressions(placement)
    if not expressions:
        return CelVerdicts()
    clusters = {name: Object(MANAGED_CLUSTERS, msgspec.json.encode(raw[name])) for name in candidates(placement, fleet)}
    evaluator = CelEvaluator()
    try:
        return await evaluator.verdicts(expressions, clusters, fleet.scores, now)
    finally:
        await evaluator.close()
