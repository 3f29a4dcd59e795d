"""Driver `skupper`: Skupper v2 carries connections between its Sites, by Connectors and Listeners for each port."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import ClassVar

from agent.api import names
from agent.api.kinds import (
    CONNECTORS,
    ENDPOINT_SLICES,
    LISTENERS,
    SERVICES,
    SITES,
    Kind,
)
from agent.api.names.links import LABEL_SKUPPER
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers.driver import LOCAL, Pair, Place
from agent.drivers.sharing import Sharing
from agent.drivers.skuppersites import SkupperSites
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key
from agent.model import skupper
from agent.model.diff import equivalent
from agent.model.endpoints import is_mirror
from agent.model.service import is_headless
from agent.model.servicelinks import Finding
from agent.model.skupper import Raw

VERBS = ("list", "create", "patch", "delete")
AGAIN_SECONDS = 10.0
"""Seconds between checks of Skupper's objects, which are not watched."""
_KEPT = (CONNECTORS, LISTENERS, ENDPOINT_SLICES)


class Skupper:
    """Offers the pods of a cluster with Connectors. Callers reach other pods through routers that Listeners open."""

    name: ClassVar[str] = names.SKUPPER_DRIVER
    reason: ClassVar[str] = "Skupper"
    tells_sources: ClassVar[bool] = False
    asks: ClassVar[bool] = True

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._deps = sharing.deps
        self._sites = SkupperSites(sharing.deps)
        self._kept: dict[tuple[str, Key, Kind], tuple[float, list[Raw]]] = {}
        """Objects of a Service in a cluster that were last found up to date, and until when they are cached."""
        self._used: set[tuple[str, Key]] = set()
        self._left: dict[tuple[str, str], set[str]] = {}
        """Services of a namespace that have something of ours in a cluster from before a restart."""

    def detect(self, pair: Pair) -> bool:
        """Return False: Skupper is used only if the user names it."""
        return False

    async def status(self, target: Target) -> str:
        """Return the remedy if the driver is off, Skupper is missing or the target denies writing; else empty."""
        if not self._deps.settings.skupper:
            return "set --skupper of the agent"
        for port, where in ((self._deps.local.port, "this cluster"), (target.port, "the target")):
            if SITES.group not in await port.groups():
                return f"{where} serves no kinds of {SITES.group}: install Skupper 2 there"
        lacking = [words(target, kind, await missing(target, kind, VERBS)) for kind in (LISTENERS, CONNECTORS)]
        return next(filter(None, lacking), "")

    async def export(self, place: Place) -> None:
        """Create Connectors for the pods of the Service in a cluster."""
        if not self._deps.settings.skupper:
            return
        self._used.add((place.node, place.service))
        service = await self._service(place)
        if service is None:
            return
        await self._sites.join(place)
        wanted = []
        numbers = self._numbers(place)
        if service["spec"].get("selector") and self._others(place, offers=True):
            ports = skupper.tcp_ports(service, None)
            wanted = [skupper.connector(service, port, numbers[name]) for name, port in ports if name in numbers]
        await self._keep(place, CONNECTORS, wanted)

    async def import_(self, place: Place) -> float | None:
        """Create Listeners in the callers' cluster, and slices of the routers that serve them."""
        if not self._deps.settings.skupper:
            return None
        service = await self._service(place)
        if service is None:
            return AGAIN_SECONDS
        others = self._others(place, offers=False)
        named = [self._sharing.ports(place, other) for other in others]
        some = None if None in named else {name for each in named for name in each or ()}
        ports = skupper.tcp_ports(service, some) if others else []
        await self._keep(place, LISTENERS, [skupper.listener(service, port) for _, port in ports])
        slice = await self._slice(place, service) if ports else None
        await self._keep(place, ENDPOINT_SLICES, [slice] if slice is not None else [])
        return AGAIN_SECONDS

    async def offered(self, place: Place) -> Finding:
        """Return the state that Skupper reports of the Connectors."""
        if not self._deps.settings.skupper:
            return Finding("False", "Pending", "the driver skupper is off: set --skupper of the agent")
        if self._is_headless(place.service):
            return skupper.HEADLESS
        return skupper.configured(await self._find(place, CONNECTORS), "Connector")

    async def connected(self, place: Place, source: str) -> Finding:
        """Return the state that Skupper reports of the Site, of our link if any, and of the Listeners."""
        if not self._deps.settings.skupper:
            return Finding("False", "NoPath", "the driver skupper is off: set --skupper of the agent")
        if self._is_headless(place.service):
            return skupper.HEADLESS
        if (out := await self._sites.joined(place)) is not None:
            return out
        found = skupper.matched(await self._find(place, LISTENERS))
        return await self._sites.unmatched(place, found) if found.reason == skupper.NO_CONNECTOR else found

    async def joined(self, place: Place) -> Finding | None:
        """Return the problem that keeps a cluster out of Skupper's single network; None for no problem."""
        found = await self._sites.joined(place) if self._deps.settings.skupper else None
        if found is None:
            return None
        return Finding(found.status, found.reason, f"{place.where}: {found.message}")

    async def teardown(self, place: Place) -> None:
        """Delete our objects for a Service. Sites and links stay, because other Services may use them."""
        if not self._deps.settings.skupper:
            return
        used = (place.node, place.service) in self._used
        if not used and place.service[1] not in await self._from_before(place):
            return
        for kind in _KEPT:
            self._kept.pop((place.node, place.service, kind), None)
            await self._keep(place, kind, [])
            self._kept.pop((place.node, place.service, kind), None)
        self._used.discard((place.node, place.service))
        self._left.get((place.node, place.service[0]), set()).discard(place.service[1])

    def forget_service(self, node: str, service: Key) -> None:
        """Drop cached writes for a Service that may no longer exist."""
        for kind in _KEPT:
            self._kept.pop((node, service, kind), None)
        self._used.discard((node, service))

    def forget_cluster(self, node: str) -> None:
        """Drop cached writes of a cluster: they may no longer exist."""
        self._kept = {key: known for key, known in self._kept.items() if key[0] != node}
        self._used = {key for key in self._used if key[0] != node}
        self._left = {key: left for key, left in self._left.items() if key[0] != node}
        self._sites.forget_cluster(node)

    async def _from_before(self, place: Place) -> set[str]:
        key = (place.node, place.service[0])
        if key not in self._left:
            found = [
                each for kind in (CONNECTORS, LISTENERS) for each in await self._listed(place, kind, LABEL_SKUPPER)
            ]
            self._left[key] = {each["metadata"]["labels"][LABEL_SKUPPER] for each in found}
        return self._left[key]

    async def _listed(self, place: Place, kind: Kind, labels: str) -> Sequence[Raw]:
        try:
            return await place.port.list(kind, place.service[0], labels=labels)
        except (NotFound, Forbidden):
            return []

    async def _find(self, place: Place, kind: Kind) -> list[Raw]:
        found = await place.port.list(kind, place.service[0], labels=f"{LABEL_SKUPPER}={place.service[1]}")
        return [{**each, "kind": kind.name} for each in found]

    def _is_headless(self, service: Key) -> bool:
        original = self._sharing.services.store.get(service)
        return original is not None and is_headless(original.decode()["spec"])

    async def _service(self, place: Place) -> Raw | None:
        """Return the Service of that cluster; None if it does not exist."""
        try:
            return await place.port.get(SERVICES, place.service[1], place.service[0])
        except NotFound:
            return None

    def _others(self, place: Place, *, offers: bool) -> list[str]:
        """Return the clusters that this driver offers a Service to, or whose endpoints it imports."""
        sharing, rule = self._sharing, self._sharing.rule(place.service)
        found, own = [], sharing.called(place.node)
        for node in (LOCAL, *sharing.serving(place.service[0])):
            theirs = sharing.called(node)
            allowed = rule.allows(own, theirs) if offers else rule.allows(theirs, own)
            if allowed and sharing.driver(place.node, node, place.service) == self.reason:
                found.append(node)
        return found

    def _numbers(self, place: Place) -> dict[str, int]:
        """Return the port numbers that pods of the Service have in a cluster, by port name; empty if it has no pods."""
        away = self._sharing.away
        found: dict[str, int] = {}
        for obj in self._sharing.slices(place.node, place.service):
            slice = obj.decode()
            if is_mirror(obj.labels) or all(each.get("nodeName") in away for each in slice.get("endpoints") or ()):
                continue
            found |= {
                str(each.get("name") or ""): each["port"] for each in slice.get("ports") or () if each.get("port")
            }
        return found

    async def _slice(self, place: Place, service: Raw) -> Raw | None:
        namespace, name = place.service[0], skupper.host(*place.service)
        try:
            made = await place.port.get(SERVICES, name, namespace)
        except NotFound:
            return None
        slices = await place.port.list(ENDPOINT_SLICES, namespace, labels=f"{names.LABEL_SERVICE_NAME}={name}")
        return skupper.mirror(service, made, slices)

    async def _keep(self, place: Place, kind: Kind, wanted: list[Raw]) -> None:
        """Create, update and delete objects of a kind for a Service until exactly the wanted ones exist."""
        now, key = asyncio.get_running_loop().time(), (place.node, place.service, kind)
        until, known = self._kept.get(key, (0.0, None))
        if known == wanted and now < until:
            return
        namespace = place.service[0]
        labels = f"{LABEL_SKUPPER}={place.service[1]}"
        found = {each["metadata"]["name"]: each for each in await place.port.list(kind, namespace, labels=labels)}
        for each in wanted:
            live = found.pop(each["metadata"]["name"], None)
            if live is None:
                await place.port.create_raw(kind, each)
            elif body := {field: each[field] for field in _FIELDS if not equivalent(live.get(field), each.get(field))}:
                await place.port.patch_raw(kind, each["metadata"]["name"], body, namespace)
        for name in found:
            with contextlib.suppress(NotFound):
                await place.port.delete(kind, name, namespace)
        self._kept[key] = (now + AGAIN_SECONDS, wanted)


_FIELDS = ("spec", "addressType", "ports", "endpoints")
