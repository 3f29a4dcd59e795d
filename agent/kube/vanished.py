"""Objects that do not exist any more although the watch has not shown it: the API server itself has said so."""

import contextlib
from collections.abc import Callable, Iterator

from agent.base.recent import Recent
from agent.kube.errors import NotFound
from agent.kube.store import Key, Object, Store

_LIMIT = 1000


class Vanished:
    """Of one store; `drop` is called with what has to be taken out of it."""

    def __init__(self, store: Store, drop: Callable[[Object], None]) -> None:
        self._store = store
        self._drop = drop
        self._uids = Recent(_LIMIT)

    def __contains__(self, obj: Object) -> bool:
        """Whether what a watch tells of an object is old news."""
        return obj.uid in self._uids

    @contextlib.contextmanager
    def noticed(self, key: Key, uid: str) -> Iterator[None]:
        """Around a request about an object: if its API server does not find it, it is taken out of the store.

        Until the watch shows that, which may be long, it would be deleted again at every change. An answer that is not
        about this object, as of a kind that is not served, says nothing of it. The NotFound is raised all the same.
        """
        try:
            yield
        except NotFound as error:
            known = self._store.get(key)
            if error.about == key[1] and known is not None and known.uid == uid:
                self._uids.add(uid)
                self._drop(known)
            raise

    def forget(self) -> None:
        """What is listed from now on is there: the cluster may have been restored from a backup."""
        self._uids = Recent(_LIMIT)
