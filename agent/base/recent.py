"""Sets of recent values with a bounded size."""

_LIMIT = 10_000


class Recent:
    """The last names that were added, `limit` of them at most."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit = limit
        self._names: dict[str, None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> None:
        """Note a name, and forget the oldest if that makes one too many."""
        self._names[name] = None
        if len(self._names) > self._limit:
            del self._names[next(iter(self._names))]

    def discard(self, name: str) -> None:
        """Forget a name, if it was noted."""
        self._names.pop(name, None)
