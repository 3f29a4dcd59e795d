"""Requests of pods by node: running totals from a watch of pods, without ended pods and those on virtual nodes."""

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.api.kinds import PODS
from agent.clusters.cluster import Cluster
from agent.kube.errors import Forbidden, KubeError, StatusError
from agent.kube.store import Object
from agent.model.free_capacity import Taken
from agent.model.podstate import OTHER_PODS
from agent.targets.summary.projection import Held, held, reduce

if TYPE_CHECKING:
    from agent.kube.informer import Informer

log = logging.getLogger(__name__)

FIELDS = f"spec.nodeName!=,{OTHER_PODS},status.phase!=Succeeded,status.phase!=Failed"
"""Proxy pods are on virtual nodes, and in a source cluster they may be most pods."""
_NOBODY = "metadata.name=-"


class Totals:
    """Requests by node and number of delegates by source, updated with each change of a pod."""

    def __init__(self) -> None:
        self.taken: dict[str, Taken] = {}
        self.delegates: Counter[str] = Counter()

    def add(self, node: str, one: Held) -> None:
        """Add the requests of a pod to a node."""
        taken = self.taken.setdefault(node, Taken())
        for name, amount in one.requests.items():
            taken.amounts[name] = taken.amounts.get(name, 0) + amount
        taken.ports.update(one.ports)
        if one.source:
            self.delegates[one.source] += 1

    def remove(self, node: str, one: Held) -> None:
        """Subtract the requests of a pod that was added before."""
        taken = self.taken[node]
        for name, amount in one.requests.items():
            taken.amounts[name] -= amount
            if not taken.amounts[name]:
                del taken.amounts[name]
        for port in one.ports:
            taken.ports[port] -= 1
            if not taken.ports[port]:
                del taken.ports[port]
        if not taken.amounts:
            del self.taken[node]
        if one.source:
            self.delegates[one.source] -= 1
            if not self.delegates[one.source]:
                del self.delegates[one.source]


class Usage:
    """Watches pods. Calls `changed` with the name of a node whose requests have changed."""

    def __init__(self, local: Cluster, changed: Callable[[str], None]) -> None:
        self._local = local
        self._changed = changed
        self._totals = Totals()
        self._informer: Informer | None = None
        self._forbidden = False

    def read(self) -> Totals | None:
        """Return the totals; None if pods have not been read, or may not be."""
        if self._informer is not None and isinstance(self._informer.error, Forbidden):
            self._give_up(self._informer, self._informer.error)
        if self._informer is None or not self._informer.synced.is_set():
            return None
        return self._totals

    @property
    def settled(self) -> bool:
        """Whether pods have been read, or may not be. Before that, a new agent would withdraw the free capacity."""
        informer = self._informer
        return informer is None or informer.synced.is_set() or isinstance(informer.error, StatusError)

    async def discover(self) -> None:
        """Watch pods, unless that is known to be forbidden."""
        self.read()
        if self._informer is None and await self._allowed():
            self._totals = Totals()
            self._informer = self._local.informer(PODS, fields=FIELDS, reduce=reduce)
            self._informer.subscribe(self._pod_changed)

    def _give_up(self, informer: "Informer", error: Forbidden) -> None:
        self._local.informers.drop(informer)
        self._informer = None
        if not self._forbidden:
            log.warning("other clusters are not told what is free here, for the agent may not read pods: %s", error)
        self._forbidden = True

    async def _allowed(self) -> bool:
        """Return True if pods may be read. After a refusal this checks silently: a refused informer would be logged."""
        if not self._forbidden:
            return True
        once: tuple[dict[str, str], ...] = ({"limit": "1"}, {"watch": "1", "timeoutSeconds": "1"})
        try:
            for params in once:
                params["fieldSelector"] = _NOBODY
                await self._local.client.session.request("GET", PODS.path(), params=params, resource=PODS.plural)
        except KubeError:
            return False
        self._forbidden = False
        return True

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        before = (old.node_name, held(old)) if old is not None else None
        after = (new.node_name, held(new)) if new is not None else None
        if before == after:
            return
        if before is not None:
            self._totals.remove(*before)
            self._changed(before[0])
        if after is not None:
            self._totals.add(*after)
            self._changed(after[0])
