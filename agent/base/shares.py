"""Shares of a limited resource that peers hold, so that the peer with the most loses some first.

A peer is an IP address: a peer with little is served however much another peer takes.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class Shares(Generic[H]):
    """Amounts of a resource in use, by peer and by its holders (connections or requests)."""

    def __init__(self) -> None:
        self.total = 0
        """Sum of the amounts of all peers."""
        self._sums: Counter[str] = Counter()
        self._holders: dict[str, dict[H, int]] = {}

    def take(self, peer: str, holder: H, amount: int = 1) -> None:
        """Add to the amount of a holder."""
        held = self._holders.setdefault(peer, {})
        held[holder] = held.get(holder, 0) + amount
        self._sums[peer] += amount
        self.total += amount

    def release(self, peer: str, holder: H) -> None:
        """Release the whole amount of a holder; no effect if it has none."""
        held = self._holders.get(peer, {})
        amount = held.pop(holder, 0)
        self.total -= amount
        self._sums[peer] -= amount
        if not held:
            self._holders.pop(peer, None)
            del self._sums[peer]

    def of(self, peer: str) -> int:
        """Return the amount of one peer."""
        return self._sums.get(peer, 0)

    def heaviest(self) -> tuple[str, Mapping[H, int]]:
        """Return the peer with the largest amount and its holders, oldest first. Raises ValueError if there is none."""
        peer = max(self._sums, key=self._sums.__getitem__)
        return peer, self._holders[peer]
