"""Pending changes: GatewayPeers that may have to change since the last reconciliation of a namespace in a cluster."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

At = tuple[str, str]
"""Virtual node (empty: this cluster) and namespace."""


@dataclass
class Reconciliation:
    """Reconciliation of the GatewayPeers of one namespace in one cluster."""

    only: Collection[str] | None
    """Names of the GatewayPeers that may have to change, None for all."""
    again: float | None = None
    """Seconds until the next reconciliation; until then these count as not done. None if done."""


class PendingChanges:
    """GatewayPeers to reconcile. With 100 clusters that share a Service each has 99; a change of endpoints concerns
    one."""

    def __init__(self) -> None:
        self._since: dict[At, set[str] | None] = {}
        """Names of GatewayPeers, None for all. A missing entry has never been reconciled."""

    def add(self, at: At, peer: str = "") -> None:
        """Record a change that concerns one GatewayPeer, or any if `peer` is empty."""
        since = self._since.get(at)
        if not peer:
            self._since[at] = None
        elif since is not None:
            since.add(peer)

    @contextlib.contextmanager
    def reconciling(self, at: At) -> Iterator[Reconciliation]:
        """Yield the pending GatewayPeers, all of them unless names are known. Later changes and failures stay
        pending."""
        found = Reconciliation(self._since.get(at) or None)
        self._since[at] = set()
        done = False
        try:
            yield found
            done = found.again is None
        finally:
            since = self._since.get(at)
            if not done:
                self._since[at] = None if found.only is None or since is None else since.union(found.only)

    def forget(self, node: str) -> None:
        """Forget a cluster that has been removed."""
        self._since = {at: found for at, found in self._since.items() if at[0] != node}
