"""Who is told of the changes of a store: at once, or, of what a list brings, when all of it is in the store."""

from collections.abc import Callable, Iterator
from types import TracebackType

from agent.kube.store import Key, Object, Store

Subscriber = Callable[[Object | None, Object | None], None]
"""Called with the object before and after a change; None where it does not exist."""

Failed = Callable[[Object, Exception, str], None]
"""Told of an object that a subscriber, of this name, fails at: the others are told all the same."""


class Subscribers:
    """Who is told of changes of one store. In a block `with subscribers:` changes are held back until they are `told`.

    Every subscriber sees each object go from state to state without a gap, however late it is told: several changes
    that were held back are one to it.
    """

    def __init__(self, store: Store, failed: Failed) -> None:
        self._store = store
        self._failed = failed
        self._subscribers: list[Subscriber] = []
        self._holding = False
        self._held: dict[Key, Object | None] = {}
        """Objects that have changed untold, as subscribers know them."""

    def __enter__(self) -> None:
        self._holding = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holding = False

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._subscribers)

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Tell it of every object that the others know and of every change from now on; returns the way to stop."""
        self._subscribers.append(subscriber)
        for obj in self._store:
            known = self._held.get(obj.key, obj)
            if known is not None:
                self._tell_one(subscriber, None, known)
        for key, known in list(self._held.items()):
            if known is not None and self._store.get(key) is None:
                self._tell_one(subscriber, None, known)
        return lambda: self._subscribers.remove(subscriber)

    def changed(self, old: Object | None, new: Object | None) -> None:
        """An object in the store has changed."""
        about = new or old
        assert about is not None
        if self._holding:
            self._held.setdefault(about.key, old)
        else:
            self._tell(self._held.pop(about.key, old), new)

    def told(self) -> Iterator[None]:
        """Tell what was held back, an object at each step; what changes meanwhile is told with it."""
        for key in list(self._held):
            if key in self._held:
                self._tell(self._held.pop(key), self._store.get(key))
                yield

    def _tell(self, old: Object | None, new: Object | None) -> None:
        if old is new:
            return
        for subscriber in tuple(self._subscribers):
            self._tell_one(subscriber, old, new)

    def _tell_one(self, subscriber: Subscriber, old: Object | None, new: Object | None) -> None:
        try:
            subscriber(old, new)
        except Exception as error:
            about = new or old
            assert about is not None
            self._failed(about, error, subscriber.__qualname__)
