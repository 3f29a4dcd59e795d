"""How many moves may begin: so many at the same time, and so many in a second."""

import time
from collections.abc import Callable

AGAIN_SECONDS = 1.0
"""Pause of an owner whose move may not begin yet."""


class Limits:
    """`under_way` says how many replacements there are, of all owners, as stores show them."""

    def __init__(self, parallel: int, rate: float, under_way: Callable[[], int]) -> None:
        self._parallel = parallel
        self._rate = rate
        self._under_way = under_way
        self._left = max(1.0, rate)
        self._at = time.monotonic()

    def may_begin(self) -> bool:
        """Whether one more may begin now; it counts as begun then."""
        now = time.monotonic()
        self._left = min(max(1.0, self._rate), self._left + (now - self._at) * self._rate)
        self._at = now
        if self._under_way() >= self._parallel or self._left < 1.0:
            return False
        self._left -= 1.0
        return True
