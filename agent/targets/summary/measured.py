"""Total resource usage of this cluster's nodes, polled from metrics.k8s.io if that is served."""

import asyncio
import logging
from collections.abc import Callable

from agent.api.kinds import NODE_METRICS
from agent.clusters.cluster import Cluster
from agent.kube.errors import UNDECODABLE, Forbidden, KubeError, NotFound
from agent.kube.informer import Informer
from agent.model.measured import add_up, moved
from agent.model.quantity import InvalidQuantity
from agent.model.requests import Amounts
from agent.settings import Settings

log = logging.getLogger(__name__)

_FAILURES = 3
"""Number of consecutive failures after which the last measurement is no longer published."""


class Measured:
    """Polls the usage of `nodes`. Calls `changed` if the value to publish has changed."""

    def __init__(self, local: Cluster, settings: Settings, nodes: Informer, changed: Callable[[], None]) -> None:
        self._client = local.client
        self._settings = settings
        self._nodes = nodes
        self._changed = changed
        self._failures = 0
        self._told: Amounts | None = None
        if settings.summary_used and settings.summary_detail == "full":
            local.port.spawn("what nodes use", self._run)

    def read(self) -> Amounts | None:
        """Return the usage to publish; None if it is unknown or disabled."""
        return self._told

    async def _run(self) -> None:
        await self._nodes.synced.wait()
        while True:
            pause = self._settings.summary_used_interval
            try:
                self._measured(await self._ask())
            except (Forbidden, NotFound) as error:
                self._failed(error, _FAILURES)
                pause = max(pause, self._settings.discovery_interval)
            except (KubeError, InvalidQuantity, *UNDECODABLE) as error:
                self._failed(error, 1)
            await asyncio.sleep(pause)

    async def _ask(self) -> tuple[Amounts, Amounts]:
        _, metrics = await self._client.list_raw(NODE_METRICS)
        nodes = [node.decode() for node in self._nodes.store]
        return add_up(nodes, map(bytes, metrics)), add_up(nodes, ())

    def _measured(self, found: tuple[Amounts, Amounts]) -> None:
        used, whole = found
        self._failures = 0
        if moved(self._told, used, whole):
            self._told = used
            self._changed()

    def _failed(self, error: Exception, weight: int) -> None:
        if self._failures < _FAILURES <= self._failures + weight:
            log.warning("other clusters are not told what nodes use here, for that cannot be measured: %s", error)
            if self._told is not None:
                self._told = None
                self._changed()
        self._failures += weight
