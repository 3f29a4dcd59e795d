"""The targets that are chosen for a pod by annotation, read as the agent knows them, with the user's own rights."""

from collections.abc import Sequence

from agent.api.kinds import DEPLOYMENTS
from agent.clusters.owners import KINDS, owner_of
from agent.clusters.targetchoices import POD, said_by, said_by_settings
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
    """What is said of a pod, None where nobody says anything. Raises KubeError.

    :param targets: Targets of its namespace and ClusterTargets
    :param notes: is told what does not count
    """
    by_owners = [said_by(f"{owner.kind.name} {owner.name}", owner) for owner in await _owners(source, pod, notes)]
    told = [level for level in by_owners if level is not None]
    if told and not settings.moves:
        notes.append(
            f"what {told[0].where} says of targets does not count: it takes the agent's setting --moves. If the agent"
            " has it, give --agent-flag=--moves"
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


async def _owners(source: Client, pod: Object, notes: list[str]) -> list[Object]:
    """What controls a pod, the closest first: a Deployment and not its ReplicaSet."""
    found: list[Object] = []
    owner = owner_of(pod)
    while owner is not None and (kind := _KINDS.get((owner.group, owner.kind))) is not None:
        try:
            known = Object(kind, await source.get_raw(kind, owner.name, pod.namespace))
        except NotFound:
            break
        except Forbidden as error:
            notes.append(f"what {kind.name} {owner.name} says of targets does not count: {error}")
            break
        if known.uid != owner.uid:
            break
        if kind is DEPLOYMENTS:
            found.clear()
        found.append(known)
        owner = known.controller
    return found
