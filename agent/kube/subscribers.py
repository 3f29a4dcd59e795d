"""Subscribers to the changes of a store: notified at once, or after a list when all of it is in the store."""

from collections.abc import Callable, Iterator
from types import TracebackType

from agent.kube.store import Key, Object, Store

Subscriber = Callable[[Object | None, Object | None], None]
"""Called with the object before and after a change; None if it does not exist."""

Failed = Callable[[Object, Exception, str], None]
"""Called with an object, the exception and the name of the failed subscriber; others are still notified."""


class Subscribers:
    """Subscribers of a store. In a block `with subscribers:` changes are queued until `told` delivers them.

    Every subscriber sees each object go from state to state without a gap, however late: several queued changes arrive
    as one.
    """

    def __init__(self, store: Store, failed: Failed) -> None:
        self._store = store
        self._failed = failed
        self._subscribers: list[Subscriber] = []
        self._holding = False
        self._held: dict[Key, Object | None] = {}
        """Changed objects whose changes have not been delivered, in the last delivered state."""

    def __enter__(self) -> None:
        self._holding = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holding = False

    def __bool__(self) -> bool:
        """Return whether there is a subscriber."""
        return bool(self._subscribers)

    def add(self, subscriber: Subscriber) -> Callable[[], None]:
        """Add a subscriber; returns a function that unsubscribes.

        The subscriber first receives every object that others have received.
        """
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
        """Deliver or queue a change of an object in the store."""
        about = new or old
        assert about is not None
        if self._holding:
            self._held.setdefault(about.key, old)
        else:
            self._tell(self._held.pop(about.key, old), new)

    def told(self) -> Iterator[None]:
        """Deliver the queued changes, one object per step; changes made meanwhile are merged."""
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
