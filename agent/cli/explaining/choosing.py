"""Targets that annotations choose for a pod, by the agent's rules, read with the user's own rights."""

from collections.abc import Sequence

from agent.api.kinds import DEPLOYMENTS, Kind
from agent.cli.fleet.source_queries import moves_pods
from agent.clusters.stores.owners import KINDS, owner_of
from agent.clusters.stores.target_choices import POD, said_by, said_by_settings
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.model.targetchoice import Level, TargetChoice, combine
from agent.settings import Settings

_KINDS = {(kind.group, kind.name): kind for kind in KINDS}


async def choosing(
    source: Client,
    pod: Object,
    namespace: Object | None,
    targets: Sequence[Object],
    settings: Settings,
    notes: list[str],
) -> TargetChoice | None:
    """Return the target choice that applies to a pod, None if nothing sets one. Raises KubeError.

    :param targets: Targets of its namespace and ClusterTargets
    :param notes: receives a note for each choice that is ignored
    """
    owners = speaking(await Chains(source, notes).of(pod))
    by_owners = [said_by(f"{owner.kind.name} {owner.name}", owner) for owner in owners]
    told = [level for level in by_owners if level is not None]
    if told and not (settings.p2code or (settings.moves and (not targets or moves_pods(targets)))):
        notes.append(
            f"what {told[0].where} says of targets does not count: the agent of this cluster runs with --no-moves,"
            " and without --p2code"
        )
        told = []
    around = said_by(f"namespace {namespace.name}", namespace) if namespace is not None else None
    said: list[Level | None] = [said_by(POD, pod), *told, around, said_by_settings(settings)]
    own = frozenset(target.name for target in targets if target.namespace)
    choice = combine([level for level in said if level is not None], own)
    if choice is not None and (
        missing := choice.unknown(frozenset(target.name for target in targets if not target.namespace))
    ):
        notes.append(f"no Target in namespace {pod.namespace} and no ClusterTarget is called {', '.join(missing)}")
    return choice


class Chains:
    """Controllers of pods. Reads each object once, with the user's own rights."""

    def __init__(self, source: Client, notes: list[str]) -> None:
        """:param notes: receives a note for each object that the user may not read"""
        self._source = source
        self._notes = notes
        self._known: dict[tuple[Kind, str, str], Object | None] = {}

    async def of(self, pod: Object) -> tuple[Object, ...]:
        """Return a pod's controllers, the closest first, up to the first of a kind that users do not write.

        Raises KubeError.
        """
        found: list[Object] = []
        owner = owner_of(pod)
        while owner is not None and (kind := _KINDS.get((owner.group, owner.kind))) is not None:
            known = await self._read(kind, pod.namespace, owner.name)
            if known is None or known.uid != owner.uid:
                break
            found.append(known)
            owner = known.controller
        return tuple(found)

    async def _read(self, kind: Kind, namespace: str, name: str) -> Object | None:
        key = (kind, namespace, name)
        if key not in self._known:
            self._known[key] = None
            try:
                self._known[key] = Object(kind, await self._source.get_raw(kind, name, namespace))
            except NotFound:
                pass
            except Forbidden as error:
                self._notes.append(f"what {kind.name} {name} says of targets does not count: {error}")
        return self._known[key]


def speaking(chain: tuple[Object, ...]) -> tuple[Object, ...]:
    """Return the controllers whose annotations count: a Deployment, and not its ReplicaSet."""
    above = next((index for index, owner in enumerate(chain) if owner.kind is DEPLOYMENTS), 0)
    return chain[above:]
