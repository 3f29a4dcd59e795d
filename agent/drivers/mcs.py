"""Driver `mcs`: an implementation of the Multi-Cluster Services API (KEP-1645) shares the exported Services."""

import asyncio
from collections.abc import Collection
from typing import Any, ClassVar

from agent.api.conditions import condition_of, find_condition
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES
from agent.api.names import mcs
from agent.clusters.port import Port
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers import exports
from agent.drivers.driver import LOCAL, Pair, Place
from agent.drivers.exports import OURS, Exports, unserved
from agent.drivers.sharing import Sharing
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Key
from agent.model.servicelinks import CONNECTED, PROGRAMMED, UNVERIFIED, Finding

Raw = dict[str, Any]

VERBS = ("get", "list", "create", "delete")
BELIEVED_SECONDS = 1.0
"""Seconds for which a ServiceImport is cached, for all clusters that its endpoints may be in."""


class McsExports:
    """Creates a ServiceExport for every shared Service. The implementation of the API makes the ServiceImports."""

    name: ClassVar[str] = "mcs"
    reason: ClassVar[str] = "MCS"
    tells_sources: ClassVar[bool] = True
    asks: ClassVar[bool] = True

    def __init__(self, sharing: Sharing) -> None:
        self._sharing = sharing
        self._deps = sharing.deps
        self._exports = Exports(sharing.deps)
        self._read: dict[tuple[str, Key], Finding | Raw | None] = {}
        self._read_at = 0.0

    def detect(self, pair: Pair) -> bool:
        """Return whether both clusters serve the API. False with `--mcs`, which needs another driver."""
        return not self._deps.settings.mcs and pair.both_serve(SERVICE_EXPORTS.group)

    async def status(self, target: Target) -> str:
        """Return the remedy if a cluster does not serve exports or the target denies writing them; else empty."""
        for port, where in ((self._deps.local.port, "this cluster"), (target.port, "the target")):
            if await port.newest(SERVICE_EXPORTS) is None:
                return unserved(SERVICE_EXPORTS, where)
        return words(target, SERVICE_EXPORTS, await missing(target, SERVICE_EXPORTS, VERBS))

    async def export(self, place: Place) -> None:
        """Create an export, unless another program has one of that name."""
        found = await self._exports.fresh(place)
        if found is not None:
            if not found.ours or found.deleting or place.uid in found.services:
                return
            # It belongs to a deleted Service.
            await self._exports.delete(place, found)
        owner = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name, "name": place.service[1], "uid": place.uid}
        manifest = {
            "kind": SERVICE_EXPORTS.name,
            "metadata": {
                "name": place.service[1],
                "namespace": place.service[0],
                "labels": {OURS: self._deps.cluster_uid},
                "ownerReferences": [owner],
            },
        }
        await self._exports.create(place, manifest)

    async def import_(self, place: Place) -> float | None:
        """Return the interval of checks: the implementation imports each export, and a deleted export is recreated."""
        return exports.AGAIN_SECONDS

    async def offered(self, place: Place) -> Finding:
        """Return the state of the export that the implementation reports."""
        try:
            return exported(await self._exports.read(place, SERVICE_EXPORTS))
        except NotFound as error:
            return Finding("False", "Pending", str(error))

    async def connected(self, place: Place, source: str) -> Finding:
        """Return whether a cluster has imported the endpoints of another one without conflict.

        Only as far as the implementation uses the names of Targets for clusters. The API does not report whether
        packets arrive.
        """
        now = asyncio.get_running_loop().time()
        if now >= self._read_at + BELIEVED_SECONDS:
            self._read, self._read_at = {}, now
        key = (place.node, place.service)
        if key not in self._read:
            self._read[key] = await self._imported(place)
        found = self._read[key]
        if isinstance(found, Finding):
            return found
        others = (LOCAL, *self._sharing.serving(place.service[0]))
        return imported(found, self._called(source), {name for node in others for name in self._called(node)})

    async def _imported(self, place: Place) -> Finding | Raw | None:
        """The ServiceImport in a cluster, or what holds for all that it may name. Raises KubeError."""
        try:
            conflict = conflicting(await self._exports.read(place, SERVICE_EXPORTS))
        except NotFound as error:
            return Finding("False", "Pending", str(error))
        try:
            return conflict or await self._exports.read(place, SERVICE_IMPORTS)
        except NotFound as error:
            return Finding("False", "Pending", str(error))
        except Forbidden as error:
            return Finding("Unknown", UNVERIFIED, f"what became of exports may not be looked at: {error}")

    def _called(self, node: str) -> list[str]:
        return [mcs.cluster(name) for name in self._sharing.called(node)]

    async def teardown(self, place: Place) -> None:
        """Delete the export if it is ours, even if an earlier agent has created it."""
        found = await self._exports.known(place)
        if found is not None and found.ours:
            await self._exports.delete(place, found)

    def forget_service(self, node: str, service: Key) -> None:
        """Do nothing: exports are deleted later with their Service, and the next list shows which remain."""

    def forget_cluster(self, node: str) -> None:
        """Do nothing: the cached exports of a cluster are dropped with its port."""


async def without_exports(port: Port, groups: frozenset[str]) -> frozenset[str]:
    """Return the API groups that drivers may use, without this API's group if the cluster serves no exports."""
    if SERVICE_EXPORTS.group in groups and await port.newest(SERVICE_EXPORTS) is None:
        return groups - {SERVICE_EXPORTS.group}
    return groups


def exported(export: Raw | None) -> Finding:
    """Return a finding from the conditions Valid and Ready of a ServiceExport; old implementations set only Valid."""
    if export is None:
        return Finding("False", "Pending", "it has no ServiceExport yet")
    conditions = (export.get("status") or {}).get("conditions")
    valid, ready = find_condition(conditions, "Valid"), find_condition(conditions, "Ready")
    if valid is None and ready is None:
        return Finding(
            "False", "Pending", "no implementation has said anything of its ServiceExport: see that one runs"
        )
    for said, good in ((valid, ("True",)), (ready, ("True", "Unknown"))):
        if said is not None and said.get("status") not in good:
            message = str(said.get("message", "")) or f"its ServiceExport is not {said['type']}"
            return Finding("False", str(said.get("reason") or "Pending"), message)
    return Finding("True", PROGRAMMED)


def conflicting(export: Raw | None) -> Finding | None:
    """Return the reported conflict between the exports of a Service; None without a conflict."""
    said = condition_of(export or {}, "Conflict") or {}
    if said.get("status") != "True":
        return None
    return Finding("False", str(said.get("reason") or "Conflict"), f"exports differ: {said.get('message', '')}")


def imported(found: Raw | None, source: Collection[str], known: Collection[str]) -> Finding:
    """Return whether a ServiceImport includes a cluster that exports.

    :param source: names of the exporting cluster, as DNS labels
    :param known: names of all clusters that may export, as DNS labels; the implementation may use other names
    """
    if found is None:
        return Finding("False", "Pending", "its implementation has made no ServiceImport there")
    status = found.get("status") or {}
    ready = find_condition(status.get("conditions"), "Ready") or {}
    if ready.get("status") == "False":
        return Finding("False", str(ready.get("reason") or "Pending"), f"ServiceImport: {ready.get('message', '')}")
    clusters = sorted(str(each.get("cluster")) for each in status.get("clusters") or ())
    if not clusters:
        return Finding("False", "Pending", "its ServiceImport names no cluster that exports")
    told = ", ".join(clusters)
    if not set(source).isdisjoint(clusters):
        return Finding("True", CONNECTED, f"imported from {told}")
    if set(clusters) <= set(known):
        return Finding("False", "Pending", f"its ServiceImport names {told} alone")
    message = f"imported from {told}, as its implementation calls clusters: Targets are called otherwise"
    return Finding("Unknown", UNVERIFIED, message)
