"""Driver `linkerd`: Linkerd makes one federated Service of those of a name that are members, over its Links.

Linkerd finds the endpoints itself, by their addresses, and only for pods that are in its mesh.
"""

import asyncio
from typing import Any, ClassVar

from agent.api.conditions import find_condition
from agent.api.kinds import LINKERD_LINKS, SERVICES
from agent.api.names.links import LABEL_FEDERATED, LABEL_LINKERD
from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.drivers.driver import Pair, Place
from agent.drivers.none_and_external import Nothing
from agent.drivers.sharing import Sharing
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key
from agent.model.servicelinks import CONNECTED, PROGRAMMED, UNVERIFIED, Finding, federated

Raw = dict[str, Any]

BELIEVED_SECONDS = 2.0
"""Seconds for which the Links of a cluster are cached, for all Services."""
_MEMBER, _OURS = "member", "federated"


class Linkerd(Nothing):
    """Labels the Services of this cluster: copies in targets have the labels of their originals."""

    name: ClassVar[str] = "linkerd"
    reason: ClassVar[str] = "Linkerd"
    tells_sources: ClassVar[bool] = True
    asks: ClassVar[bool] = True

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._deps = sharing.deps
        self._links: dict[str, tuple[float, list[Raw] | Finding]] = {}

    def detect(self, pair: Pair) -> bool:
        """Return whether each cluster has a Link to the other; federated Services need a flat network."""
        return pair.flat and self.name in pair.meshes

    async def status(self, target: Target) -> str:
        """Return the remedy if the driver is off or Linkerd's CRDs are missing; else empty."""
        if not self._deps.settings.linkerd:
            return "set --linkerd of the agent"
        for port, where in ((self._deps.local.port, "this cluster"), (target.port, "the target")):
            if LINKERD_LINKS.group not in await port.groups():
                return (
                    f"{where} serves no kinds of {LINKERD_LINKS.group}: install Linkerd's extension multicluster there"
                )
        return ""

    async def export(self, place: Place) -> None:
        """Label the Service as a member, unless its user has set the label."""
        original = self._sharing.services.store.get(place.service)
        if place.node or original is None or LABEL_FEDERATED in original.labels or not self._deps.settings.linkerd:
            return
        await self._label(place, _MEMBER, _OURS)

    async def teardown(self, place: Place) -> None:
        """Remove the label, if it is ours."""
        original = self._sharing.services.store.get(place.service)
        if not place.node and original is not None and LABEL_LINKERD in original.labels:
            await self._label(place, None, None)

    async def _label(self, place: Place, member: str | None, ours: str | None) -> None:
        namespace, name = place.service
        body = {"metadata": {"labels": {LABEL_FEDERATED: member, LABEL_LINKERD: ours}}}
        raw = await place.port.patch_raw(SERVICES, name, body, namespace)
        self._sharing.services.absorb(raw)

    async def offered(self, place: Place) -> Finding:
        """Return whether the Service is a member of a federated Service."""
        original = self._sharing.services.store.get(place.service)
        said = original.labels.get(LABEL_FEDERATED) if original is not None else None
        if said == _MEMBER:
            return Finding("True", PROGRAMMED)
        if not self._deps.settings.linkerd:
            return Finding("False", "Pending", "the driver linkerd is off: set --linkerd of the agent")
        if said is not None:
            return Finding(
                "False", "Conflict", f"it is labelled {LABEL_FEDERATED}: {said}: remove that, or say {_MEMBER}"
            )
        return Finding("False", "Pending", f"it is not labelled {LABEL_FEDERATED}: {_MEMBER} yet")

    async def connected(self, place: Place, source: str) -> Finding:
        """Return the state of the Service in the callers' Links to the source. Raises KubeError."""
        links = await self._of(place)
        if isinstance(links, Finding):
            return links
        called = self._sharing.called(source)
        wanted = called[0] if source else called[-1]
        return mirrored([each for each in links if target_of(each) in called], wanted, place.service)

    async def _of(self, place: Place) -> list[Raw] | Finding:
        """Return the Links of a cluster, or the reason why they cannot be read."""
        now = asyncio.get_running_loop().time()
        until, links = self._links.get(place.node, (0.0, []))
        if now >= until:
            try:
                links = await place.port.list(LINKERD_LINKS)
            except Forbidden as error:
                links = Finding("Unknown", UNVERIFIED, f"what became of it may not be looked at: {error}")
            except NotFound:
                message = f"no Links of {LINKERD_LINKS.api_version} are served there, which tell"
                links = Finding("Unknown", UNVERIFIED, message)
            self._links[place.node] = (now + BELIEVED_SECONDS, links)
        return links

    def forget_cluster(self, node: str) -> None:
        """Drop cached Links: the node may represent another cluster."""
        self._links.pop(node, None)


def target_of(link: Raw) -> str:
    """Return the name of the cluster that a Link points to."""
    return str((link.get("spec") or {}).get("targetClusterName", ""))


async def clusters_linked(port: Port) -> frozenset[str]:
    """Return names of the clusters that Links point to; empty if reading is forbidden. Raises KubeError."""
    try:
        return frozenset(filter(None, map(target_of, await port.list(LINKERD_LINKS))))
    except (Forbidden, NotFound):
        return frozenset()


def mirrored(links: list[Raw], source: str, service: Key) -> Finding:
    """Return the finding for a Service from the Links to one cluster."""
    if not links:
        remedy = f"linkerd multicluster link-gen --cluster-name {source}"
        return Finding("False", "NoPath", f"it has no Link to {source} ({remedy} makes one)")
    told = [each for link in links for each in (link.get("status") or {}).get("federatedServices") or ()]
    for each in told:
        about = each.get("remoteRef") or {}
        if (about.get("namespace"), about.get("name")) != service:
            continue
        said = find_condition(each.get("conditions"), "Mirrored") or {}
        if said.get("status") == "True":
            return Finding("True", CONNECTED, f"meshed callers reach it as {federated(service[1])}")
        unknown = said.get("status") != "False"
        message = f"its Link to {source}: {said.get('message') or 'it has not said yet whether it is mirrored'}"
        return Finding("Unknown" if unknown else "False", str(said.get("reason") or "Pending"), message)
    message = f"its Link to {source} tells nothing of the Service: see that Linkerd's controller for it runs"
    return Finding("False", "Pending", message)
