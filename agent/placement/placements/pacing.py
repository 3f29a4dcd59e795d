"""Pacing: when a Placement is evaluated after something that concerns it has happened."""

import asyncio

from agent.placement.placements.interests import Key

QUIET_SECONDS = 0.05
_PATIENCE_SECONDS = 0.25
"""What never is quiet is evaluated after this time."""
_LONGEST_PAUSE_SECONDS = 60.0
_CALM_SECONDS = 2 * _LONGEST_PAUSE_SECONDS


class Pacing:
    """How long it has been quiet about each key, and how often its clusters have changed of late."""

    def __init__(self) -> None:
        self._touched: dict[Key, tuple[float, float]] = {}
        self._moved: dict[Key, tuple[float, float]] = {}

    def touch(self, key: Key) -> None:
        """Something has happened."""
        now = asyncio.get_running_loop().time()
        self._touched[key] = (self._touched.get(key, (now, now))[0], now)

    def forget(self, key: Key) -> None:
        """It is gone."""
        self._touched.pop(key, None)
        self._moved.pop(key, None)

    def wait(self, key: Key) -> float:
        """For how many seconds yet; 0 begins anew."""
        now = asyncio.get_running_loop().time()
        first, last = self._touched.get(key, (now - _PATIENCE_SECONDS, now))
        wait = min(last + QUIET_SECONDS, first + _PATIENCE_SECONDS) - now
        if wait > 0:
            return wait
        self._touched.pop(key, None)
        return 0.0

    def moved(self, key: Key) -> None:
        """Other clusters have been decided for it."""
        now = asyncio.get_running_loop().time()
        last, pause = self._moved.get(key, (-_CALM_SECONDS, 0.0))
        again = now - last < _CALM_SECONDS
        self._moved[key] = (now, min(2 * pause, _LONGEST_PAUSE_SECONDS) if again else QUIET_SECONDS)

    def pause(self, key: Key) -> float:
        """After how many seconds it looks at what others have decided: two may follow each other for ever."""
        return self._moved.get(key, (0.0, QUIET_SECONDS))[1]
