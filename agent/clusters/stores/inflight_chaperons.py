"""Chaperons that no store shows yet: POSTs of this process that are in progress or had no answer.

A pod or target is released only after the outcome of these requests is known.
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
"""Most requests without an answer that are remembered."""

Listener = Callable[[Key, Key], None]
"""Listener that receives the keys of a target and a proxy pod."""

_Way = tuple[Key, str]
"""Key of a target and UID of a proxy pod."""


class InflightChaperons:
    """Chaperons that are being created, by the key of their Target: new credentials do not change the target."""

    def __init__(self) -> None:
        self._under_way: Counter[_Way] = Counter()
        self._unknown: dict[_Way, int] = {}
        """Requests whose outcome is not known, numbered in the order in which they ended."""
        self._last = 0
        self._closed: set[Key] = set()
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Register a listener: called whenever a request for a chaperon has ended, whatever the outcome."""
        self._listeners.append(listener)

    @contextlib.contextmanager
    def holding(self, target: Target, pod: Key, uid: str) -> Iterator[None]:
        """Context manager around sending a chaperon of a proxy pod, from the decision to the end of the request."""
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
        """Context manager around the request that creates a chaperon. Without an answer its outcome is unknown."""
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
        """Return whether a chaperon of a proxy pod is being sent to a target now."""
        return (target.key, uid) in self._under_way

    def is_unknown(self, target: Target, uid: str) -> bool:
        """Return whether a target may have or get a chaperon from a request that had no answer."""
        return (target.key, uid) in self._unknown

    def any_to(self, target: Key) -> bool:
        """Return whether any chaperon may be on its way to a target."""
        return any(way[0] == target for way in itertools.chain(self._under_way, self._unknown))

    @property
    def moment(self) -> int:
        """Number to pass to `read` after a reading that starts now."""
        return self._last

    def read(self, target: Target, moment: int, uid: str = "") -> None:
        """Resolve the requests to a target that ended before `moment`: a reading since then has shown their chaperons.

        :param uid: of the proxy pod if only its chaperons were read; empty if all were
        """
        ways = [(target.key, uid)] if uid else [way for way in self._unknown if way[0] == target.key]
        for way in ways:
            if self._unknown.get(way, moment + 1) <= moment:
                del self._unknown[way]

    def close(self, target: Key, *, closed: bool = True) -> None:
        """Stop sending to a target because it is being removed, or (`closed` False) resume."""
        if closed:
            self._closed.add(target)
        else:
            self._closed.discard(target)

    def is_closed(self, target: Target) -> bool:
        """Return whether a target is being removed."""
        return target.key in self._closed

    def forget(self, target: Key) -> None:
        """Forget a target that was deleted."""
        self._closed.discard(target)
        self._unknown = {way: number for way, number in self._unknown.items() if way[0] != target}


def _had_no_effect(error: BaseException) -> bool:
    """Return whether a failed request has certainly created nothing. An API server that answers 5xx may have
    written.
    """
    if isinstance(error, StatusError):
        return error.status < 500
    return isinstance(error, Unsent | Deposed | InvalidConfig)
