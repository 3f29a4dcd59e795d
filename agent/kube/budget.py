"""What one cluster may take of this process: somebody else's may send anything, without end."""

import math

from agent.base.turns import Share


class Budget:
    """Limits for all watches of a cluster together: `bytes` of objects, before packing, and a portion of the time."""

    def __init__(self, bytes: float = math.inf, portion: float = 1.0) -> None:
        self._bytes = bytes
        self.share = Share(portion)
        self.used = 0
        """Bytes of the objects that are kept."""

    @property
    def full(self) -> bool:
        """Whether no further objects are kept."""
        return self.used > self._bytes
