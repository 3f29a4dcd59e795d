"""Claims that pods of this cluster use, which do not run elsewhere."""

import asyncio
import time

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from agent.kube.client import Client
from agent.kube.store import Key
from agent.model.podstate import OTHER_PODS
from agent.model.references import references

_FIELDS = f"{OTHER_PODS},status.phase!=Succeeded,status.phase!=Failed"
_FRESH_SECONDS = 1.0
"""Claims come in crowds, and each list has all pods of a namespace."""


class UsedHere:
    """Asks the API server: a watch of all pods of the cluster would cost more."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = asyncio.Lock()
        self._read: dict[str, tuple[float, frozenset[str]]] = {}

    async def has(self, claim: Key) -> bool:
        """Whether a pod that runs in this cluster, or is about to, has or waits for a volume of its own for a claim."""
        async with self._lock:
            now = time.monotonic()
            self._read = {name: found for name, found in self._read.items() if now - found[0] < _FRESH_SECONDS}
            if claim[0] not in self._read:
                self._read[claim[0]] = (now, await self._named(claim[0]))
            return claim[1] in self._read[claim[0]][1]

    async def _named(self, namespace: str) -> frozenset[str]:
        _, pods = await self._client.list_raw(PODS, namespace, fields=_FIELDS)
        return frozenset(name for pod in pods for name in references(bytes(pod)).get(PERSISTENT_VOLUME_CLAIMS, ()))
