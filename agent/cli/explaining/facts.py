"""Reads all objects that decide which target a pod gets, once and with the user's rights. Writes nothing.

The command asks a target itself if the user may read its kubeconfig Secret and can reach it. If not, it uses the
Target and the virtual node, and adds a note. The agent's condition Ready of the Target decides whether a target is
ready, because the user's network may differ from the agent's.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SUMMARIES,
    NAMESPACES,
    PODS,
    RESOURCE_QUOTAS,
)
from agent.cli.explaining import volumes
from agent.cli.explaining.choosing import choosing
from agent.cli.explaining.following import Following, following
from agent.cli.fleet.source_queries import agent_notes, connection_of, read_nodes, read_proxies, read_targets
from agent.cli.options import Failed, opened
from agent.clusters.health.agent_health import flaw_of
from agent.clusters.stores.claim_filters import asked_by, filter_of
from agent.clusters.target_info import target_info_of
from agent.clusters.unconnected_target import UnconnectedTarget, unconnected_target
from agent.kube.client import Client
from agent.kube.errors import Forbidden, KubeError, NotFound
from agent.kube.store import Object
from agent.model.claimfilter import ClaimFilter
from agent.model.electedlater import elected_later
from agent.model.namespaces import is_enabled, not_enabled
from agent.model.targetchoice import TargetChoice
from agent.ranking.extrascore import ExtraScore
from agent.ranking.snapshot import Extra, TargetInfo, amounts
from agent.scheduler.cache.extra_scores import kind_of, read_score
from agent.scheduler.cache.quotas import quotas_of
from agent.settings import Settings
from agent.targets.target import gather
from agent.targets.target.decide import refusal_told

REQUEST_SECONDS = 5.0


class Unexplained(Failed):
    """Error for a pod that cannot be explained; the message has the reason and the remedy."""


@dataclass(frozen=True)
class Seen:
    """One target, and the objects that were read in it."""

    info: TargetInfo
    chaperons: tuple[Object, ...] | None = None
    """All PodChaperons of the pod's namespace; None if the target was not read."""
    delegate: Object | None = None
    """Delegate of the pod; None if it does not exist or was not read."""
    unread: str = ""
    """Reason why the target itself was not asked; empty if it was."""
    volumes: frozenset[str] = frozenset()
    """Names of the pod's claims whose volume is in the target."""
    refusal: str = ""
    """Reason why the target refuses pods of the namespace, from its Target; empty if it refuses none."""

    @property
    def for_new_pods(self) -> TargetInfo:
        """Target as the agent treats it for pods without a PodChaperon in it: not ready while it refuses pods."""
        return replace(self.info, ready=False, state=self.refusal) if self.refusal and self.info.ready else self.info


@dataclass(frozen=True)
class Facts:
    """A pod, its targets, and all input of the choice between them."""

    pod: Object
    namespace: Object | None
    proxies: tuple[Object, ...] = ()
    """Proxy pods of all namespaces in the source if the user may list them, else of the pod's namespace."""
    targets: tuple[Seen, ...] = ()
    namespaces: tuple[Object, ...] = ()
    """Enabled namespaces; empty if no affinity selects namespaces by label, or they may not be listed."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Virtual node that has the volume, by the name of the pod's claim."""
    following: Following | None = None
    """The Placement that the pod follows, with its decision; None if it follows none."""
    choice: TargetChoice | None = None
    """Targets that annotations choose for the pod; None without such annotations."""
    claims: ClaimFilter | None = None
    """Cluster claims that the pod's target must have; None for any."""
    notes: list[str] = field(default_factory=list)
    """Messages about objects that could not be read, with the consequence."""

    @property
    def closed(self) -> str:
        """Reason why the pod gets no target; empty if its namespace is enabled or could not be read."""
        enabled = self.namespace is None or is_enabled(self.namespace.labels)
        return "" if enabled else not_enabled(self.pod.namespace)


async def read_pod(source: Client, namespace: str, name: str) -> Object:
    """Read a pod. Raises Unexplained if it does not exist."""
    try:
        return Object(PODS, await source.get_raw(PODS, name, namespace))
    except NotFound:
        raise Unexplained(f"there is no pod {namespace}/{name} in this cluster") from None


async def was_elected_later(source: Client, pod: Object) -> bool:
    """Return True if a pod was annotated after its creation. The managedFields show that, and no Object has them."""
    with contextlib.suppress(NotFound):
        return elected_later(await source.get_raw(PODS, pod.name, pod.namespace))
    return False


async def read_namespace(source: Client, name: str) -> Object | None:
    """Read a namespace; None if it does not exist or may not be read."""
    with contextlib.suppress(Forbidden, NotFound):
        return Object(NAMESPACES, await source.get_raw(NAMESPACES, name))
    return None


async def read(
    source: Client, pod: Object, settings: Settings, now: datetime, known: tuple[Object, ...] | None = None
) -> Facts:
    """Read the facts about a proxy pod. Raises Unexplained, KubeError.

    :param known: the proxy pods of the source, None if they have not been read yet
    """
    notes: list[str] = []
    objects = await read_targets(source, pod.namespace, notes)
    nodes = await _nodes(source)
    claims = await volumes.promised(source, pod, notes)
    found = await asyncio.gather(
        *(_seen(source, obj, nodes.get(unconnected_target(obj).node_name), pod, claims) for obj in objects)
    )
    scores = [ExtraScore.parse(text) for text in settings.extra_score]
    infos = await asyncio.gather(*(scored(source, seen.info, scores, now) for seen in found))
    notes += [
        f"no target has the score {score.name}: see that there are {kind_of(score)} that have not expired"
        for score in scores
        if infos and not any(score.name in info.extra for info in infos)
    ]
    found = [replace(seen, info=info) for seen, info in zip(found, infos, strict=True)]
    notes += [f"target {seen.info.title} was not asked itself: {seen.unread}" for seen in found if seen.unread]
    proxies = known if known is not None else await read_proxies(source, pod.namespace, notes)
    if not pod.node_name:
        notes += await agent_notes(source, now)
    namespace = await read_namespace(source, pod.namespace)
    asked = {seen.info.node_name: seen.volumes for seen in found if seen.chaperons is not None}
    return Facts(
        pod=pod,
        namespace=namespace,
        proxies=proxies,
        targets=tuple(found),
        namespaces=await _namespaces(source, (pod, *proxies), notes),
        volumes=volumes.settled(claims, pod, asked, proxies),
        following=await following(source, pod, namespace, notes, now),
        choice=await choosing(source, pod, namespace, objects, settings, notes),
        claims=filter_of(asked_by(pod), asked_by(namespace)),
        notes=notes,
    )


async def _namespaces(source: Client, pods: Iterable[Object], notes: list[str]) -> tuple[Object, ...]:
    if not any(b'"namespaceSelector"' in pod.raw for pod in pods):
        return ()
    try:
        _, items = await source.list_raw(NAMESPACES, labels=f"{names.LABEL_ENABLED}={names.ENABLED_VALUE}")
    except Forbidden as error:
        notes.append(f"affinity to pods of namespaces with certain labels does not count: {error}")
        return ()
    return tuple(Object(NAMESPACES, bytes(item)) for item in items)


async def _nodes(source: Client) -> dict[str, Object]:
    try:
        return await read_nodes(source)
    except Forbidden as error:
        raise Unexplained(f"without virtual nodes nothing can be said: {error}") from None


async def _seen(source: Client, obj: Object, node: Object | None, pod: Object, claims: Mapping[str, str]) -> Seen:
    """Read one target: the target itself if possible, else its Target and virtual node."""
    told = unconnected_target(obj)
    info = target_info_of(told, node, None, obj)
    if node is not None:
        # Without a summary only these sums are known, without the number of pods: see `virtualnode.amounts`.
        sums = (node.decode().get("status") or {}).get("allocatable") or {}
        info = replace(info, allocatable=amounts({key: each for key, each in sums.items() if key != "pods"}))
    refusal = refusal_told(obj.decode(), pod.namespace)
    try:
        connection = await connection_of(source, obj)
    except (gather.Problem, KubeError) as error:
        return Seen(info, unread=str(error), refusal=refusal)
    try:
        async with contextlib.AsyncExitStack() as stack:
            client = source
            if connection is not None:
                client = await stack.enter_async_context(opened(connection, told.title, REQUEST_SECONDS))
            seen = await _asked(client, Seen(info, refusal=refusal), told, node, obj, pod)
            here = [claim for claim, where in claims.items() if where == told.node_name]
            return replace(seen, volumes=await volumes.there(client, here, pod.namespace))
    except KubeError as error:
        return Seen(info, unread=str(error), refusal=refusal)


async def _asked(
    client: Client, seen: Seen, told: UnconnectedTarget, node: Object | None, obj: Object, pod: Object
) -> Seen:
    _, items = await client.list_raw(CHAPERONS, pod.namespace, labels=names.LABEL_PARENT_UID)
    chaperons = tuple(Object(CHAPERONS, bytes(item)) for item in items)
    info = seen.info
    with contextlib.suppress(Forbidden, NotFound):
        summary = Object(CLUSTER_SUMMARIES, await client.get_raw(CLUSTER_SUMMARIES, names.SUMMARY_NAME))
        quotas = await _quotas(client, pod.namespace)
        # The condition Ready of the Target already rejects a target with an invalid summary.
        if flaw_of(summary) is None:
            info = target_info_of(told, node, summary, obj, quotas=quotas_of(quotas))
    delegate = None
    if any(is_of(chaperon, pod) for chaperon in chaperons):
        with contextlib.suppress(Forbidden):
            selector = f"{names.LABEL_PARENT_UID}={pod.uid}"
            _, items = await client.list_raw(PODS, pod.namespace, labels=selector)
            delegate = next((Object(PODS, bytes(item)) for item in items), None)
    return replace(seen, info=info, chaperons=chaperons, delegate=delegate)


async def _quotas(client: Client, namespace: str) -> list[Object]:
    """Read the quotas of a namespace. Like the agent, ignore them if they may not be read."""
    with contextlib.suppress(Forbidden):
        _, items = await client.list_raw(RESOURCE_QUOTAS, namespace)
        return [Object(RESOURCE_QUOTAS, bytes(item)) for item in items]
    return []


async def scored(source: Client, info: TargetInfo, scores: list[ExtraScore], now: datetime) -> TargetInfo:
    """Return a target with its scores from other controllers that have not expired."""
    found: dict[str, Extra] = {}
    for score in scores:
        kind = kind_of(score)
        with contextlib.suppress(Forbidden, NotFound):
            raw = await source.get_raw(kind, score.object, info.managed_cluster or info.title)
            extra = read_score(Object(kind, raw), score.score)
            if extra is not None and extra.counts(now):
                found[score.name] = extra
    return replace(info, extra=found)


def is_of(chaperon: Object, pod: Object) -> bool:
    """Return True if a chaperon was created for a pod."""
    return chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid


def status_of(obj: Object | None) -> dict[str, Any]:
    """Return the status of an object; {} if there is no object or no status."""
    return (obj.decode().get("status") or {}) if obj is not None else {}
