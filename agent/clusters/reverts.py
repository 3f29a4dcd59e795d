"""When a copy that somebody has changed may be put right again: what changed it may not give in."""

from collections.abc import Hashable
from typing import Generic, TypeVar

from agent.base.backoff import Backoff

REVERT_SECONDS = (1.0, 300.0)
"""First and longest pause between two reverts of a copy whose original stays."""

Item = TypeVar("Item", bound=Hashable)


class Reverts(Generic[Item]):
    """By item, as long as its original stays as it is. A moment is one of the event loop's clock, in seconds."""

    def __init__(self) -> None:
        self._due: dict[Item, tuple[float, Backoff]] = {}

    def wait(self, item: Item, agreed: tuple[str, str] | None, original: str, now: float) -> float:
        """In how many seconds a copy may be put right: 0 for now, as where its original has changed.

        :param agreed: versions of original and copy that were the same
        :param original: version that the original has
        """
        if agreed is None or agreed[0] != original:
            self.forget(item)
            return 0.0
        due, backoff = self._due.get(item, (0.0, Backoff(*REVERT_SECONDS)))
        if now < due:
            return due - now
        if now > due + REVERT_SECONDS[1]:
            backoff.reset()
        self._due[item] = (now + backoff.next(), backoff)
        return 0.0

    def forget(self, item: Item) -> None:
        """There is no copy any more, or a new one."""
        self._due.pop(item, None)
