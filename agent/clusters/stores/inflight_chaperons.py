"""Chaperons that no store shows yet: POSTs of this process that are under way or had no answer.

A pod is not let go of, nor a target, before it is known what has become of them.
"""

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Iterator

from agent.base.listeners import tell
from agent.clusters.target import Target
from agent.kube.errors import Deposed, InvalidConfig, StatusError, Unsent
from agent.kube.store import Key

_KEPT = 10_000
"""Requests without an answer that are remembered at most."""

Listener = Callable[[Key, Key], None]
"""Called with the keys of a target and a proxy pod."""

_Way = tuple[Key, str]
"""Key of a target and UID of a proxy pod."""


class InflightChaperons:
    """Chaperons that are being created, by the key of their Target: with other credentials it is the same target."""

    def __init__(self) -> None:
        self._under_way: Counter[_Way] = Counter()
        self._unknown: dict[_Way, int] = {}
        """Requests whose outcome is not known, numbered in the order in which they ended."""
        self._last = 0
        self._closed: set[Key] = set()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Call whenever a chaperon is on its way no more, whatever has become of it."""
        self._listeners.append(listener)

    @contextlib.contextmanager
    def holding(self, target: Target, pod: Key, uid: str) -> Iterator[None]:
        """A chaperon of a proxy pod is about to be sent, and has been sent or not when this context ends."""
        way = (target.key, uid)
        self._under_way[way] += 1
        try:
            yield
        finally:
            self._under_way[way] -= 1
            if not self._under_way[way]:
                del self._under_way[way]
            tell(self._listeners, target.key, pod)

    @contextlib.contextmanager
    def request(self, target: Target, pod: Key, uid: str) -> Iterator[None]:
        """The request that creates the chaperon. Only an answer tells whether it did."""
        way = (target.key, uid)
        with self.holding(target, pod, uid):
            try:
                yield
            except BaseException as error:
                if not _had_no_effect(error):
                    self._note(way)
                raise
            self._unknown.pop(way, None)

    def _note(self, way: _Way) -> None:
        self._last += 1
        self._unknown.pop(way, None)
        self._unknown[way] = self._last
        if len(self._unknown) > _KEPT:
            del self._unknown[next(iter(self._unknown))]

    def is_under_way(self, target: Target, uid: str) -> bool:
        """Whether a chaperon of a proxy pod is being sent to a target right now."""
        return (target.key, uid) in self._under_way

    def is_unknown(self, target: Target, uid: str) -> bool:
        """Whether one may have arrived, or may yet, without our having had an answer."""
        return (target.key, uid) in self._unknown

    def any_to(self, target: Key) -> bool:
        """Whether any chaperon is on its way to a target."""
        return any(way[0] == target for way in itertools.chain(self._under_way, self._unknown))

    @property
    def moment(self) -> int:
        """What to give to `read` after a reading that begins now."""
        return self._last

    def read(self, target: Target, moment: int, uid: str = "") -> None:
        """The target has been read since a moment, all of it or what it has of one pod: what had arrived is known."""
        ways = [(target.key, uid)] if uid else [way for way in self._unknown if way[0] == target.key]
        for way in ways:
            if self._unknown.get(way, moment + 1) <= moment:
                del self._unknown[way]

    def close(self, target: Key, *, closed: bool = True) -> None:
        """Whether nothing is sent to a target any more, because it is being removed."""
        if closed:
            self._closed.add(target)
        else:
            self._closed.discard(target)

    def is_closed(self, target: Target) -> bool:
        """Whether a target is being removed."""
        return target.key in self._closed

    def forget(self, target: Key) -> None:
        """There is no such target any more."""
        self._closed.discard(target)
        self._unknown = {way: number for way, number in self._unknown.items() if way[0] != target}


def _had_no_effect(error: BaseException) -> bool:
    """Whether a request that failed has created nothing for sure: an API server that errs may have written."""
    if isinstance(error, StatusError):
        return error.status < 500
    return isinstance(error, Unsent | Deposed | InvalidConfig)
