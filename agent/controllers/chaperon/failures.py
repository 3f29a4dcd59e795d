"""Delegates that cannot be created for what may pass: since when, and when to try again."""

import time
from collections.abc import Callable

from agent.kube.store import Key

LASTING_SECONDS = 5.0
"""What has failed for so long is told as a refusal, so that the source goes on to other targets."""
LEAST_SECONDS, MOST_SECONDS = 5.0, 30.0
"""Pauses between attempts from then on: half of the time that it has lasted."""


class Failures:
    """Memory of one process: another leader waits anew."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[Key, float] = {}

    def pause(self, chaperon: Key) -> float | None:
        """Take note of a failure; in how many seconds to try again where it has lasted, None where it has not."""
        now = self._now()
        lasted = now - self._since.setdefault(chaperon, now)
        return min(MOST_SECONDS, max(LEAST_SECONDS, lasted / 2)) if lasted >= LASTING_SECONDS else None

    def forget(self, chaperon: Key) -> None:
        """Its delegate is there, or is not wanted any more."""
        self._since.pop(chaperon, None)
