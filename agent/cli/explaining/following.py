"""The Placement that a pod follows: its decisions, and why it has not chosen the other clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from agent.api.kinds import CRDS, PLACEMENT_DECISIONS, PLACEMENTS
from agent.api.names.ocm import LABEL_PLACEMENT, MOVE, OURS, STAY, WHEN_UNPLACED, decision_label
from agent.cli.options import Failed
from agent.cli.placements.facts import read_facts
from agent.clusters.stores.placement_decisions import part_of, placed_by, reference_of
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.ranking.placed import Placed, Reference, misplaced
from agent.ranking.placing.evaluate import evaluate
from agent.ranking.snapshot import TargetInfo
from agent.scheduler.cache.decisions import NOT_USED


@dataclass(frozen=True)
class Following:
    """Effect of a Placement on one pod."""

    placed: Placed
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons why other clusters are not decided, by cluster; empty if another controller decides."""
    when_unplaced: str = ""
    """Value of the annotation `when-unplaced`."""

    def told(self, here: TargetInfo | None) -> str:
        """Describe it in one line. `here` is the target that the pod is bound to."""
        clusters = ", ".join(sorted(self.placed.scores)) or "no cluster"
        line = f"{self.placed.title}, which has decided for {clusters}" if self.placed.known else self.placed.title
        if here is None or not misplaced(self.placed, here):
            return line
        if self.when_unplaced in ("", STAY):
            return f"{line}; the pod stays, as {WHEN_UNPLACED} says"
        if self.when_unplaced == MOVE:
            return f"{line}; the pod moves, as {WHEN_UNPLACED} says, unless the agent has --no-moves"
        return f"{line}; the pod stays, for {WHEN_UNPLACED} is {self.when_unplaced!r}: write {STAY}"


async def following(
    source: Client, pod: Object, namespace: Object | None, notes: list[str], now: datetime
) -> Following | None:
    """Return the Placement that a pod follows; None if it follows none or the user may not read it.

    Raises KubeError.
    """
    reference = reference_of(pod, namespace)
    if reference is None:
        return None
    selector = f"{LABEL_PLACEMENT}={decision_label(reference.name)}"
    try:
        _, items = await source.list_raw(PLACEMENT_DECISIONS, pod.namespace, labels=selector)
        placement = await _placement(source, pod.namespace, reference)
    except Forbidden as error:
        notes.append(f"Placement {reference.name}, which the pod follows, does not count: {error}")
        return None
    except NotFound:
        return Following(Placed(reference, {}, NOT_USED, known=False))
    parts = [part for item in items if (part := part_of(Object(PLACEMENT_DECISIONS, bytes(item)))) is not None]
    placed = placed_by(reference, pod.namespace, parts, placement, is_missing=placement is None)
    if placement is None:
        return Following(placed)
    reasons = await _reasons(source, placement, now) if await _is_ours(source) else {}
    return Following(placed, reasons, placement.annotations.get(WHEN_UNPLACED, ""))


async def _placement(source: Client, namespace: str, reference: Reference) -> Object | None:
    try:
        return Object(PLACEMENTS, await source.get_raw(PLACEMENTS, reference.name, namespace))
    except NotFound:
        return None


async def _is_ours(source: Client) -> bool:
    """Return True if the local agent evaluates Placements; False if the user may not read the CRD."""
    try:
        return OURS in Object(CRDS, await source.get_raw(CRDS, str(PLACEMENTS))).labels
    except (Forbidden, NotFound):
        return False


async def _reasons(source: Client, placement: Object, now: datetime) -> Mapping[str, str]:
    try:
        facts = await read_facts(source, placement.decode(), now)
    except (Failed, Forbidden):
        return {}
    found = evaluate(
        facts.placement, facts.fleet, decided=facts.decided, elsewhere=facts.elsewhere, cel=facts.cel, now=now
    )
    return found.refused
