"""Input of move previews, read once with the user's own rights: targets, namespaces and claims of pods."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from agent.api import names
from agent.api.conditions import find_condition, is_true
from agent.api.kinds import NAMESPACES, PERSISTENT_VOLUME_CLAIMS
from agent.api.names import fencing
from agent.base.clock import parse
from agent.cli.explaining import facts as explaining
from agent.clusters.health.silent_clusters import Member, SilentClusters, counted_as
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.store import Key, Object
from agent.model import fence
from agent.model.target_health import Standing, standing
from agent.moves.mover.facts import is_replacement


@dataclass(frozen=True)
class Home:
    """Target behind a virtual node, as its Target describes it."""

    target: Object
    standing: Standing
    answers: bool
    ready: bool = False
    """Whether its condition Ready is True, even if the condition is stale."""
    since: datetime | None = None
    """Time since which the target has not answered, None if it answers."""

    @property
    def title(self) -> str:
        """Name of the target."""
        return self.target.name

    @property
    def namespace(self) -> str:
        """The only namespace that the target serves, empty for all."""
        return self.target.namespace

    @property
    def certified(self) -> bool:
        """Whether a user has certified that the target runs no more pods, and nothing contradicts that."""
        return self.standing.is_dead(answers=self.answers, ready=self.ready)

    def fence(self, pod: Object, margin: float, now: datetime) -> float | None:
        """Return the seconds until the fence has stopped a pod; None if the pod is not fenced or the target answers.

        The source has renewed the fence for as long as the target answered.
        """
        kept = fence.kept(pod.annotations.get(fencing.ANNOTATION_KEPT))
        if kept is None or self.since is None:
            return None
        return fence.left(kept, self.since.timestamp(), margin, now.timestamp())


@dataclass(frozen=True)
class World:
    """State that is read once for all pods."""

    proxies: tuple[Object, ...]
    homes: Mapping[str, Home]
    """Targets by virtual node."""
    namespaces: Mapping[str, Object]
    claims: Mapping[Key, Object] = field(default_factory=dict)
    """Volume claims."""

    @property
    def replaced(self) -> frozenset[str]:
        """UIDs of pods that have a replacement."""
        return frozenset(pod.hot_annotations.replaces for pod in self.proxies if is_replacement(pod))

    @property
    def is_failover_held(self) -> bool:
        """Whether the agent would hold failover, because too many of these targets do not answer."""
        clusters = SilentClusters()
        for home in self.homes.values():
            clusters.put(home.target.key, Member(counted_as(home.target.decode()), silent=not home.answers))
        return clusters.held


class Meant(msgspec.Struct, frozen=True):
    """Requested choice of targets, treated as if it had been written."""

    where: Object | None = None
    """Object that is to have another choice of targets; None for no change."""
    targets: str = ""
    retiring: str = ""
    """Virtual node of a target that is to be drained; empty for none."""
    lost: str = ""
    """Virtual node of a target that is assumed lost; empty for none."""

    def may_concern(self, pod: Object) -> bool:
        """Return True if the move may concern a pod, judging without the pod's controllers."""
        if self.where is None:
            return pod.node_name == (self.retiring or self.lost)
        return pod.namespace == (self.where.name if self.where.kind is NAMESPACES else self.where.namespace)

    def concerns(self, pod: Object, chain: Iterable[Object]) -> bool:
        """Return True if the move concerns a pod."""
        if self.where is None or self.where.kind is NAMESPACES:
            return self.may_concern(pod)
        return self.where.uid in (pod.uid, *(owner.uid for owner in chain))


def lost_home(home: Home) -> Home:
    """Return a target as if it were lost, and all its fences had stopped their pods."""
    found = replace(home.standing, lost=True, held=False)
    return replace(home, standing=found, answers=False, ready=False, since=datetime.fromtimestamp(0, UTC))


def homes_of(targets: Iterable[Object]) -> dict[str, Home]:
    """Return targets by their virtual nodes."""
    found = {}
    for target in targets:
        manifest = target.decode()
        conditions = (manifest.get("status") or {}).get("conditions")
        reachable = find_condition(conditions, "Reachable") or {}
        answers, ready = is_true(conditions, "Reachable"), is_true(conditions, "Ready")
        since = None if answers or "lastTransitionTime" not in reachable else parse(reachable["lastTransitionTime"])
        found[names.virtual_node(*target.key)] = Home(target, standing(manifest), answers, ready, since)
    return found


async def read_world(
    client: Client, targets: Iterable[Object], proxies: tuple[Object, ...], meant: Meant, notes: list[str]
) -> World:
    """Read namespaces and claims of the pods that the move concerns. Raises KubeError.

    :param proxies: all proxy pods, because claims that other pods hold count, too
    """
    pods = [pod for pod in proxies if meant.may_concern(pod)]
    spaces: dict[str, Object] = {}
    claims: dict[Key, Object] = {}
    for name in sorted({pod.namespace for pod in pods}):
        found = await explaining.read_namespace(client, name)
        spaces |= {name: found} if found is not None else {}
        if any(b'"persistentVolumeClaim"' in pod.raw for pod in pods if pod.namespace == name):
            try:
                _, items = await client.list_raw(PERSISTENT_VOLUME_CLAIMS, name)
            except Forbidden as error:
                notes.append(f"which volumes are in a target is not known: {error}")
                continue
            read = [Object(PERSISTENT_VOLUME_CLAIMS, bytes(item)) for item in items]
            claims |= {claim.key: claim for claim in read}
    homes = homes_of(targets)
    if meant.lost in homes:
        homes[meant.lost] = lost_home(homes[meant.lost])
    return World(proxies, homes, spaces, claims)
