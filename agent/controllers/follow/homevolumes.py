"""Volumes of this cluster that claims could have: whoever made one meant it to be used."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUMES
from agent.api.names import LABEL_STAND_IN
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.store import Object
from agent.model.copies import Raw
from agent.model.standin import name_of
from agent.scheduling.volumes import could_have

log = logging.getLogger(__name__)

_TAKEN = ("Bound", "Released", "Failed")


class HomeVolumes:
    """Asks the API server, for a store may not have a volume yet that was made before its claim.

    However many ask at a time, there is one list under way, and one more for all who came after it began.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._asked = 0
        self._read = 0
        self._free: list[Raw] = []

    async def keep(self, claim: Mapping[str, Any]) -> str:
        """Why a claim is one for this cluster, in words; empty if it may follow its pods. Raises KubeError."""
        chosen = claim["spec"].get("volumeName", "")
        if chosen:
            return "is bound to a volume of this cluster" if chosen != name_of(claim) else ""
        volume = await self._for_claim(claim)
        return f"could have volume {volume} of this cluster" if volume else ""

    async def _for_claim(self, claim: Mapping[str, Any]) -> str:
        """The name of a volume that a claim could have, empty where there is none."""
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
        return [volume.decode() for volume in found if volume.phase not in _TAKEN]
