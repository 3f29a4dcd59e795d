"""Growing pauses after refused writes, for each owner and subject. Pure, except for the clock."""

import time

from agent.base.backoff import Backoff

FIRST_SECONDS, LONGEST_SECONDS = 5.0, 60.0
"""The first pause equals that of `kubectl drain` between evictions. The mover watches no budgets and policies."""


class Pauses:
    """Pauses by owner and subject. The next try of a refused write waits until its pause is over."""

    def __init__(self, first: float = FIRST_SECONDS, longest: float = LONGEST_SECONDS) -> None:
        self._first, self._longest = first, longest
        self._known: dict[str, dict[str, tuple[Backoff, float]]] = {}
        """Backoff and end of the pause, by UID of the owner and by subject."""

    def begin(self, owner: str, about: str) -> float:
        """Begin a pause, longer than the one before; return its seconds."""
        known = self._known.setdefault(owner, {})
        backoff = known[about][0] if about in known else Backoff(self._first, self._longest)
        seconds = backoff.next()
        known[about] = backoff, time.monotonic() + seconds
        return seconds

    def hold(self, owner: str, about: str, seconds: float) -> None:
        """Begin a pause of this length."""
        backoff = Backoff(seconds, seconds)
        self._known.setdefault(owner, {})[about] = backoff, time.monotonic() + seconds

    def left(self, owner: str, about: str) -> float:
        """Return the seconds until the pause is over; 0 if there is none."""
        _, until = self._known.get(owner, {}).get(about, (None, 0.0))
        return max(0.0, until - time.monotonic())

    def end(self, owner: str, about: str) -> None:
        """Forget a refusal after a success."""
        known = self._known.get(owner)
        if known is not None and known.pop(about, None) is not None and not known:
            del self._known[owner]

    def forget(self, owner: str) -> None:
        """Forget an owner without moves."""
        self._known.pop(owner, None)
