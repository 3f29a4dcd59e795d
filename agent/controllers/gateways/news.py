"""What has changed since a cluster was last told of others: anything, or what concerns some of them alone."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

At = tuple[str, str]
"""Virtual node (none: this cluster) and namespace."""


@dataclass
class Telling:
    """One reconciliation."""

    only: Collection[str] | None
    """Names of the GatewayPeers that may have to change, None for all."""
    again: float | None = None
    """When to look again: until then it counts as not told."""


class News:
    """With 100 clusters that share a Service each is told of all others: one change of endpoints is news of one."""

    def __init__(self) -> None:
        self._since: dict[At, set[str] | None] = {}
        """By name of a GatewayPeer, None for all; what is not there has never been told."""

    def add(self, at: At, peer: str = "") -> None:
        """Something has changed that concerns one GatewayPeer, or (empty) any."""
        since = self._since.get(at)
        if not peer:
            self._since[at] = None
        elif since is not None:
            since.add(peer)

    @contextlib.contextmanager
    def told(self, at: At) -> Iterator[Telling]:
        """What is to be told now: all, where nobody has said what; what changes meanwhile is told the next time."""
        found = Telling(self._since.get(at) or None)
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
