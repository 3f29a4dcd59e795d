"""The place for signs of life of other clusters: a Lease beside that of this cluster's agents.

Watches  nothing.
Writes   the Lease `multicluster-sources`, once; from then on it is the sources'.
"""

import contextlib

from agent.api.kinds import LEASES
from agent.api.names import LEASE_SOURCES
from agent.clusters.deps import Deps
from agent.kube.errors import AlreadyExists
from agent.runtime.controller import Controller

_AGAIN_SECONDS = 600.0
"""Somebody may have deleted it."""


class SignsPlaceRoom(Controller[str]):
    """The only key is the Lease's name."""

    name = "signsplace"
    workers = 1

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self.queue.add(LEASE_SOURCES)

    async def reconcile(self, key: str) -> float | None:
        """Make it, if it is not there."""
        if self._deps.lease is None:
            return None
        head = {"apiVersion": LEASES.api_version, "kind": LEASES.name}
        made = {**head, "metadata": {"name": key, "namespace": self._deps.lease.namespace}}
        with contextlib.suppress(AlreadyExists):
            await self._deps.local.client.create_raw(LEASES, made)
        return _AGAIN_SECONDS
