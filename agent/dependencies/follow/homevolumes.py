"""PersistentVolumes of the source that could be bound to a claim: a claim that could use one is not copied to a
target.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUMES
from agent.api.names import LABEL_STAND_IN
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.store import Object
from agent.model.claims import storage_class
from agent.model.copies import Raw
from agent.model.placeholder_volume import name_of
from agent.model.quantity import InvalidQuantity, Quantity
from agent.ranking.pod_terms import selector

log = logging.getLogger(__name__)

_FREE = ("", "Pending", "Available")
"""Phases of volumes that are not bound yet."""
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


class HomeVolumes:
    """Reads PersistentVolumes from the API server, as a store may lack one that was created before its claim.

    Concurrent callers share one running list; later callers share the next.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._asked = 0
        self._read = 0
        self._free: list[Raw] = []

    async def keep(self, claim: Mapping[str, Any]) -> str:
        """Return why a claim has to stay in the source; empty if it may follow its pods. Raises KubeError."""
        chosen = claim["spec"].get("volumeName", "")
        if chosen:
            return "is bound to a volume of this cluster" if chosen != name_of(claim) else ""
        volume = await self._for_claim(claim)
        return f"could have volume {volume} of this cluster" if volume else ""

    async def _for_claim(self, claim: Mapping[str, Any]) -> str:
        """Return the name of a volume that could be bound to a claim, empty if there is none."""
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._read < mine:
                before = self._asked
                self._free = await self._listed()
                self._read = before
            return next((volume["metadata"]["name"] for volume in self._free if could_have(claim, volume)), "")

    async def _listed(self) -> list[Raw]:
        try:
            _, items = await self._client.list_raw(PERSISTENT_VOLUMES, labels=f"!{LABEL_STAND_IN}")
        except Forbidden as error:
            log.warning("whether this cluster has volumes for claims is not known: %s", error)
            return []
        found = (Object(PERSISTENT_VOLUMES, bytes(item)) for item in items)
        return [volume.decode() for volume in found if volume.phase in _FREE]


def could_have(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Return whether a claim could be bound to an existing volume.

    A volume with a claimRef is reserved for that claim, whatever its class and labels. Volumes of a pool, such as those
    of the static provisioner of local disks, wait for pods of the source.
    """
    metadata, spec = volume["metadata"], volume["spec"]
    if "deletionTimestamp" in metadata or (volume.get("status") or {}).get("phase", "") not in _FREE:
        return False
    # Compare quantities last: a cluster may have thousands of free volumes, most of another class.
    if kept_for := spec.get("claimRef"):
        return _is(claim["metadata"], kept_for) and _holds(claim["spec"], spec)
    if _PROVISIONED_BY in (metadata.get("annotations") or {}):
        return False
    if storage_class(claim) != storage_class(volume) or not _holds(claim["spec"], spec):
        return False
    wanted = claim["spec"].get("selector")
    return wanted is None or selector(wanted).matches(metadata.get("labels") or {})


def _holds(claim: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Return whether a volume has the right modes and is large enough."""
    asked = (claim.get("resources") or {}).get("requests") or {}
    try:
        large = Quantity.of(asked["storage"]).nano <= Quantity.of(volume["capacity"]["storage"]).nano
    except (InvalidQuantity, KeyError):
        return False
    return (
        large
        and set(claim.get("accessModes") or ()) <= set(volume.get("accessModes") or ())
        and (claim.get("volumeMode") or "Filesystem") == (volume.get("volumeMode") or "Filesystem")
        and (claim.get("volumeAttributesClassName") or "") == (volume.get("volumeAttributesClassName") or "")
    )


def _is(claim: Mapping[str, Any], reference: Mapping[str, Any]) -> bool:
    same = (claim["namespace"], claim["name"]) == (reference.get("namespace"), reference.get("name"))
    return same and reference.get("uid", "") in ("", claim["uid"])
