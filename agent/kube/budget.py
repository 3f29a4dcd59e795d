"""Memory budget of one cluster in this process: a target is not trusted and may send data without end."""

import math

from agent.base.yielding import Share


class Budget:
    """Limits for all watches of a cluster together: `bytes` of objects, before packing, and a portion of the time."""

    def __init__(self, bytes: float = math.inf, portion: float = 1.0) -> None:
        self._bytes = bytes
        self.share = Share(portion)
        self.used = 0
        """Bytes of the objects that are kept."""

    @property
    def full(self) -> bool:
        """Return whether no more objects are stored."""
        return self.used > self._bytes
