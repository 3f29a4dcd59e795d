"""Pacing: delay between a change of a Placement's inputs and its evaluation."""

import asyncio

from agent.placement.placements.interests import Key

QUIET_SECONDS = 0.05
_PATIENCE_SECONDS = 0.25
"""Maximum delay of an evaluation while inputs keep changing."""
_LONGEST_PAUSE_SECONDS = 60.0
_CALM_SECONDS = 2 * _LONGEST_PAUSE_SECONDS


class Pacing:
    """Times of recent changes of inputs and of decided clusters by key."""

    def __init__(self) -> None:
        self._touched: dict[Key, tuple[float, float]] = {}
        self._moved: dict[Key, tuple[float, float]] = {}

    def touch(self, key: Key) -> None:
        """Record a change of inputs."""
        now = asyncio.get_running_loop().time()
        self._touched[key] = (self._touched.get(key, (now, now))[0], now)

    def forget(self, key: Key) -> None:
        """Remove a deleted Placement."""
        self._touched.pop(key, None)
        self._moved.pop(key, None)

    def wait(self, key: Key) -> float:
        """Return the seconds until evaluation; at 0, reset the recorded changes."""
        now = asyncio.get_running_loop().time()
        first, last = self._touched.get(key, (now - _PATIENCE_SECONDS, now))
        wait = min(last + QUIET_SECONDS, first + _PATIENCE_SECONDS) - now
        if wait > 0:
            return wait
        self._touched.pop(key, None)
        return 0.0

    def moved(self, key: Key) -> None:
        """Record that a Placement got other clusters."""
        now = asyncio.get_running_loop().time()
        last, pause = self._moved.get(key, (-_CALM_SECONDS, 0.0))
        again = now - last < _CALM_SECONDS
        self._moved[key] = (now, min(2 * pause, _LONGEST_PAUSE_SECONDS) if again else QUIET_SECONDS)

    def pause(self, key: Key) -> float:
        """Return the delay in seconds before a Placement reacts to decisions of others.

        Doubles with each change of its own, as two Placements may react to each other forever.
        """
        return self._moved.get(key, (0.0, QUIET_SECONDS))[1]
