"""Driver `mcs`: an implementation of the Multi-Cluster Services API (KEP-1645) shares what is exported."""

import contextlib
import time
from typing import Any, ClassVar

from agent.api import names
from agent.api.conditions import condition_of, find_condition
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, Kind
from agent.clusters.port import Port
from agent.clusters.rights import missing, words
from agent.clusters.target import Target
from agent.drivers.driver import Pair, Place
from agent.drivers.sharing import Sharing
from agent.kube.errors import AlreadyExists, Forbidden, NotFound
from agent.kube.store import Key
from agent.model.servicelinks import CONNECTED, PROGRAMMED, UNVERIFIED, Finding

Raw = dict[str, Any]

AGAIN_SECONDS = 60.0
"""Pause between tries where somebody else has exported a Service."""
VERBS = ("get", "list", "create", "delete")
OURS = names.SHORT_PREFIX + "shared-from"
"""Label of our exports: the UID of the cluster whose Service they share."""


class McsExports:
    """Puts a ServiceExport beside every shared Service. ServiceImports are made by the implementation."""

    name: ClassVar[str] = "mcs"
    reason: ClassVar[str] = "MCS"
    tells_sources: ClassVar[bool] = False
    asks: ClassVar[bool] = True

    def __init__(self, sharing: Sharing) -> None:
        self._deps = sharing.deps
        self._uid = sharing.deps.cluster_uid
        self._exported: dict[tuple[str, str, str], str] = {}
        self._theirs: dict[tuple[str, str, str], tuple[str, float]] = {}
        """Services that somebody else exports, and until when that is believed."""
        self._left: set[Key] | None = None

    def detect(self, pair: Pair) -> bool:
        """Whether the API is served, and not by ourselves: our own implementation takes any other driver."""
        return not self._deps.settings.mcs and pair.both_serve(SERVICE_EXPORTS.group)

    async def status(self, target: Target) -> str:
        """Whether the target lets us export."""
        return words(target, SERVICE_EXPORTS, await missing(target, SERVICE_EXPORTS, VERBS))

    async def export(self, place: Place) -> None:
        """Create the export, unless somebody has."""
        key = (place.node, *place.service)
        uid, until = self._theirs.get(key, ("", 0.0))
        if place.uid in (self._exported.get(key), uid if time.monotonic() < until else ""):
            return
        owner = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name, "name": place.service[1], "uid": place.uid}
        manifest = {
            "apiVersion": SERVICE_EXPORTS.api_version,
            "kind": SERVICE_EXPORTS.name,
            "metadata": {
                "name": place.service[1],
                "namespace": place.service[0],
                "labels": {OURS: self._uid},
                "ownerReferences": [owner],
            },
        }
        port = place.port
        try:
            await port.create_raw(SERVICE_EXPORTS, manifest)
        except AlreadyExists:
            found = await port.get(SERVICE_EXPORTS, place.service[1], place.service[0])
            if (found["metadata"].get("labels") or {}).get(OURS) != self._uid:
                self._theirs[key] = (place.uid, time.monotonic() + AGAIN_SECONDS)
                return
        self._exported[key] = place.uid
        self._theirs.pop(key, None)

    async def import_(self, place: Place) -> float | None:
        """What is exported is imported by itself; one who exports it instead of us may do so no more."""
        return AGAIN_SECONDS if (place.node, *place.service) in self._theirs else None

    async def offered(self, place: Place) -> Finding:
        """What the implementation says of the export in a cluster."""
        return exported(await _find(place, SERVICE_EXPORTS))

    async def connected(self, place: Place, source: str) -> Finding:
        """Whether what is exported has come to a cluster, and without conflict; whether packets do nobody tells."""
        conflict = conflicting(await _find(place, SERVICE_EXPORTS))
        if conflict is not None:
            return conflict
        try:
            return imported(await _find(place, SERVICE_IMPORTS))
        except Forbidden as error:
            return Finding("Unknown", UNVERIFIED, f"what became of exports may not be looked at: {error}")

    async def teardown(self, place: Place) -> None:
        """Delete the export, if it is ours. Those that are left here from before a restart are listed once."""
        port = place.port
        if not place.node and self._left is None:
            self._left = await self._list(port)
        ours = self._exported.pop((place.node, *place.service), None) is not None
        self._theirs.pop((place.node, *place.service), None)
        if ours or (not place.node and place.service in (self._left or ())):
            with contextlib.suppress(NotFound):
                await port.delete(SERVICE_EXPORTS, place.service[1], place.service[0])
        if not place.node and self._left:
            self._left.discard(place.service)

    async def _list(self, port: Port) -> set[Key]:
        try:
            found = await port.list(SERVICE_EXPORTS, labels=f"{OURS}={self._uid}")
        except (NotFound, Forbidden):
            return set()
        return {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found}

    def forget_service(self, node: str, service: Key) -> None:
        """What was exported there may not be any more."""
        self._exported.pop((node, *service), None)
        self._theirs.pop((node, *service), None)

    def forget_cluster(self, node: str) -> None:
        """What was exported there may not be any more."""
        self._exported = {key: uid for key, uid in self._exported.items() if key[0] != node}
        self._theirs = {key: known for key, known in self._theirs.items() if key[0] != node}


async def _find(place: Place, kind: Kind) -> Raw | None:
    """Raises KubeError, Forbidden among them."""
    try:
        return await place.port.get(kind, place.service[1], place.service[0])
    except NotFound:
        return None


def exported(export: Raw | None) -> Finding:
    """What the conditions Valid and Ready of a ServiceExport come to; implementations of old tell nothing but Valid."""
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
    """In what clusters that export a Service differ; None where they do not."""
    said = condition_of(export or {}, "Conflict") or {}
    if said.get("status") != "True":
        return None
    return Finding("False", str(said.get("reason") or "Conflict"), f"exports differ: {said.get('message', '')}")


def imported(found: Raw | None) -> Finding:
    """What a ServiceImport comes to."""
    if found is None:
        return Finding("False", "Pending", "its implementation has made no ServiceImport there")
    status = found.get("status") or {}
    ready = find_condition(status.get("conditions"), "Ready") or {}
    if ready.get("status") == "False":
        return Finding("False", str(ready.get("reason") or "Pending"), f"ServiceImport: {ready.get('message', '')}")
    clusters = sorted(str(each.get("cluster")) for each in status.get("clusters") or ())
    if not clusters:
        return Finding("False", "Pending", "its ServiceImport names no cluster that exports")
    return Finding("True", CONNECTED, f"imported from {', '.join(clusters)}")
