"""Which GatewayPeers may have to change since those of a namespace in a cluster were reconciled: all, or some."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

At = tuple[str, str]
"""Virtual node (none: this cluster) and namespace."""


@dataclass
class Reconciliation:
    """Of the GatewayPeers of one namespace in one cluster."""

    only: Collection[str] | None
    """Names of the GatewayPeers that may have to change, None for all."""
    again: float | None = None
    """When to reconcile again: until then these count as not done."""


class PendingChanges:
    """With 100 clusters that share a Service each has 99 GatewayPeers: a change of endpoints concerns one of these."""

    def __init__(self) -> None:
        self._since: dict[At, set[str] | None] = {}
        """By name of a GatewayPeer, None for all; what is not there has never been reconciled."""

    def add(self, at: At, peer: str = "") -> None:
        """Something has changed that concerns one GatewayPeer, or (empty) any."""
        since = self._since.get(at)
        if not peer:
            self._since[at] = None
        elif since is not None:
            since.add(peer)

    @contextlib.contextmanager
    def reconciling(self, at: At) -> Iterator[Reconciliation]:
        """Those of now: all, where nobody has said which. What changes meanwhile, or fails, is left for later."""
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
        """A cluster is no more."""
        self._since = {at: found for at, found in self._since.items() if at[0] != node}
