"""Services that pods in targets mention, and whether their target has them."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.api import names
from agent.api.kinds import SERVICES
from agent.cli.checks.finding import Finding, ok, warn
from agent.cli.checks.mentioned_services import mentioned
from agent.cli.checks.view import TargetView, View
from agent.kube.client import METADATA_LIST, Client
from agent.kube.store import Key, Object
from agent.model.abridged import abridged
from agent.model.service import API_SERVER

_SHOWN = 3


class Unfound(NamedTuple):
    """A Service that pods in a target mention and that the target does not have."""

    service: Key
    target: str
    pods: tuple[str, ...]


async def services_of(client: Client, namespace: str) -> dict[Key, Mapping[str, str]]:
    """Return the labels of the Services of a cluster, or of one namespace of it, by Service. Raises KubeError."""
    _, items = await client.list_raw(SERVICES, namespace or None, accept=METADATA_LIST)
    return {each.key: each.labels for each in (Object(SERVICES, bytes(item)) for item in items)}


def services(view: View) -> Iterator[Finding]:
    """Check that the Services that pods mention exist in their target as in the source."""
    if view.proxies is None or view.services is None:
        return
    unfound = list(_unfound(view, {names.virtual_node(each.namespace, each.name): each for each in view.targets}))
    for each in _together(unfound):
        which = abridged(each.pods, _SHOWN)
        namespace, name = each.service
        yield warn(
            f"Service {namespace}/{name}",
            f"{each.target} does not have it, and pods that run there mention it: {which}",
            f"kubectl annotate namespace {namespace} {names.SHORT_PREFIX}{names.SHARE_SERVICES}=true shares all of its"
            f" Services, {names.SHORT_PREFIX}{names.GLOBAL}=true on the Service this one",
        )
    if not unfound and view.proxies and any(each.services is not None for each in view.targets):
        yield ok("services", "targets have those that pods mention")


def _unfound(view: View, targets: dict[str, TargetView]) -> Iterator[Unfound]:
    known = (view.services or frozenset()) - {API_SERVER}
    for pod in view.proxies or ():
        target = targets.get(pod["spec"].get("nodeName") or "")
        if target is None or target.services is None or (target.manifest.get("spec") or {}).get("self"):
            continue
        for service in sorted(mentioned(pod, known) - target.services):
            # The credentials of a namespaced target do not allow listing Services of other namespaces.
            if target.namespace in ("", service[0]):
                yield Unfound(service, target.title, (pod["metadata"]["name"],))


def _together(found: Iterable[Unfound]) -> Iterator[Unfound]:
    pods: dict[tuple[Key, str], list[str]] = {}
    for each in found:
        pods.setdefault((each.service, each.target), []).extend(each.pods)
    for (service, target), which in sorted(pods.items()):
        yield Unfound(service, target, tuple(sorted(which)))
