"""Pauses between writes of marks that the owner of a Service removes again. Pure."""

from dataclasses import dataclass, field

from agent.kube.store import Key, Object

FREE_WRITES, WINDOW_SECONDS = 3, 60.0
"""So many writes within this time are made without a pause."""
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 10.0, 600.0
"""The pause after them, which doubles with each further write up to the longest."""
FORGET_SECONDS = LONGEST_PAUSE_SECONDS + WINDOW_SECONDS
"""Marks that have lasted so long begin again without a pause."""


@dataclass
class _Writes:
    uid: str
    recent: list[float] = field(default_factory=list)
    """Times of the last writes."""
    pause: float = 0.0
    """Seconds after the last write until the next one; 0 if there is no pause."""


class Contradictions:
    """Writes of marks by Service. Times are those of the event loop."""

    def __init__(self) -> None:
        self._writes: dict[Key, _Writes] = {}

    def left(self, service: Object, now: float) -> float:
        """Return seconds until the marks of a Service may be written, 0 if they may be written at once."""
        writes = self._writes.get(service.key)
        if writes is None or writes.uid != service.uid or not writes.pause:
            return 0.0
        return max(0.0, writes.recent[-1] + writes.pause - now)

    def wrote(self, service: Object, now: float) -> None:
        """Note a write of marks."""
        writes = self._writes.get(service.key)
        if writes is None or writes.uid != service.uid or now - writes.recent[-1] > FORGET_SECONDS:
            writes = self._writes[service.key] = _Writes(service.uid)
        writes.recent = [each for each in writes.recent if each > now - WINDOW_SECONDS] + [now]
        if writes.pause:
            writes.pause = min(LONGEST_PAUSE_SECONDS, 2 * writes.pause)
        elif len(writes.recent) >= FREE_WRITES:
            writes.pause = FIRST_PAUSE_SECONDS

    def forget(self, key: Key) -> None:
        """Forget a Service that has been deleted."""
        self._writes.pop(key, None)
