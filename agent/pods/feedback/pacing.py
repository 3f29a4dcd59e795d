"""Backoff where another writer reverts what feedback writes to a proxy pod."""

from typing import NamedTuple

from agent.base.reverted_writes import RevertedWrites
from agent.kube.store import Key
from agent.model.podranges import PodRanges


class Seen(NamedTuple):
    """State that decides about a proxy pod and its only chaperon: their versions, and the ranges of the target."""

    proxy: str
    chaperon: str
    ranges: PodRanges


class Pacing:
    """Pauses between repeated writes of an unchanged status to a proxy pod.

    Node lifecycle changes the status once, and is corrected at once. A controller that does so after each write gets
    its next answer later each time. New status of the delegate is never delayed.
    """

    def __init__(self) -> None:
        self._written: RevertedWrites[Key] = RevertedWrites()

    def pause(self, key: Key, agreed: Seen | None, now: Seen | None) -> float:
        """Return the seconds until the proxy pod may be written; 0 for now, and then the write counts.

        :param agreed: last versions that matched, None if unknown
        """
        if now is None or not self._is_repeated(key, agreed, now):
            return 0.0
        left = self._written.pause(key, now.chaperon)
        if not left:
            self._written.record(key, now.chaperon)
        return left

    def _is_repeated(self, key: Key, agreed: Seen | None, now: Seen) -> bool:
        return key in self._written or (agreed is not None and agreed[1:] == now[1:])

    def forget(self, key: Key) -> None:
        """Forget a proxy pod that has been deleted."""
        self._written.forget(key)
