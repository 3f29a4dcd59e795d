"""Check of pods that are not elected but are affected by virtual nodes."""

from collections.abc import Collection, Iterable, Iterator

from agent.api import names
from agent.api.kinds import DEPLOYMENTS, PODS, STATEFUL_SETS
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.view import Raw, Spread, View
from agent.kube.client import Client
from agent.kube.store import Object
from agent.model.abridged import abridged
from agent.model.misplaced import Remedy, remedy
from agent.model.namespaces import is_enabled
from agent.model.podstate import OTHER_PODS
from agent.model.proxypod import is_elected
from agent.model.spread import affected_keys

TOPOLOGY = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone", "kubernetes.io/hostname")
"""Keys of topology labels that most virtual nodes have."""
REMEDY = (
    "write nodeTaintsPolicy: Honor into these constraints; or enable the namespace (kubectl label namespace NAME"
    f" {names.LABEL_ENABLED}={names.ENABLED_VALUE}): the webhook then does so for new pods, elected or not; or keep the"
    " label off virtual nodes with spec.excludedLabelsRegexp of the Target"
)
_SHOWN = 3


async def spread_hard(client: Client, labels: Collection[str], namespaces: Iterable[Raw]) -> tuple[Spread, ...]:
    """Return workloads with hard spread constraints over these labels of virtual nodes. Raises KubeError.

    Workloads of enabled namespaces are not among them: there the webhook excludes virtual nodes from the constraints.
    """
    enabled = {each["metadata"]["name"] for each in namespaces if is_enabled(each["metadata"].get("labels"))}
    found = []
    for kind in (DEPLOYMENTS, STATEFUL_SETS):
        for obj in await client.list(kind):
            metadata, template = obj["metadata"], obj["spec"]["template"]
            pod = {"metadata": template.get("metadata") or {}, "spec": template["spec"]}
            keys = affected_keys(pod["spec"], labels)
            if keys and metadata["namespace"] not in enabled and not is_elected(pod):
                found.append(Spread(f"{kind.name} {metadata['namespace']}/{metadata['name']}", tuple(keys)))
    return tuple(found)


async def misplaced(client: Client, nodes: Iterable[str]) -> tuple[str, ...]:
    """Return pods on virtual nodes that no cluster runs, as NAMESPACE/NAME. Raises KubeError."""
    found: list[str] = []
    for node in nodes:
        _, items = await client.list_raw(PODS, fields=f"spec.nodeName={node},{OTHER_PODS}")
        pods = (Object(PODS, bytes(item)) for item in items)
        found += [f"{pod.namespace}/{pod.name}" for pod in pods if remedy(pod.decode()) is not Remedy.NONE]
    return tuple(sorted(found))


def staying(view: View) -> Iterator[Finding]:
    """Check that virtual nodes do not affect pods that are not elected."""
    if view.misplaced:
        yield warn(
            "pods",
            f"some are on virtual nodes without being elected, and run nowhere: {abridged(view.misplaced, _SHOWN)}",
            "delete them, and create them again without spec.nodeName and with a scheduler that counts pods of nodes",
        )
    for keys in sorted({each.keys for each in view.spread or ()}):
        which = abridged([each.title for each in view.spread or () if each.keys == keys], _SHOWN)
        yield warn(
            f"spread over {' and '.join(keys)}",
            f"virtual nodes count as domains that stay empty, so that not all pods may be scheduled: {which}",
            REMEDY,
        )
    if view.misplaced == () and view.spread == ():
        yield ok("pods", "those that are not elected have nothing to do with virtual nodes")
