"""Tracks the versions of a collection, and detects that its API server went back: a backup was restored.

Versions grow with every write to etcd, and a restored etcd continues from those of its backup. An API server accepts a
watch from a version that it has not reached. Until it reaches that version, it sends nothing, no bookmark either; then
it continues as if nothing had happened. So the informer compares versions before it resumes a watch. A collection that
changes seldom may already have passed its version, so a rollback found by one informer counts for its whole cluster. A
backup may also be restored with its versions raised (`etcdutl snapshot restore --bump-revision`): then lists move
forward while their objects go back. So a list that is not older than the cache counts, whatever the versions of its
objects.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.api.kinds import Kind
from agent.base.listeners import tell
from agent.kube.errors import Outdated
from agent.kube.undecodable import is_version

if TYPE_CHECKING:
    from agent.kube.client import Client

log = logging.getLogger(__name__)

LOST_SECONDS = 60.0
"""Seconds after which an interrupted watch is replaced by a list: a restored API server may have caught up by then."""
_FRESH_SECONDS = 1.0
"""Seconds for which the version of a list counts as the API server's current one."""
_ALL = 10**20
"""More than any version."""
_ONE_OBJECT = "metadata.name="


class History:
    """History shared by the informers of a cluster: if one finds a part of it lost, all list again."""

    def __init__(self) -> None:
        self._listeners: list[Callable[[], None]] = []

    @contextlib.contextmanager
    def joined(self, listener: Callable[[], None]) -> Iterator[None]:
        """Call when a part of it is lost."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def lost(self) -> None:
        """A part of it is lost."""
        tell(self._listeners)


class Progress:
    """Progress of reading one collection. `version` is the one to resume a watch from."""

    def __init__(self) -> None:
        self.version = ""
        self.lists_next = True
        """Whether a list is next or in progress; events of a still open watch do not change that."""
        self.rolled_back = False
        """Whether the API server has lost cached versions; until a list has replaced them."""
        self.rollbacks = 0
        self._reached = 0
        self._listed_at = 0.0
        self._left: float | None = None

    def told(self, version: str) -> None:
        """Record the version that a watch has reached."""
        if is_version(version):
            self.version, self._reached = version, number(version)

    def starts_over(self) -> None:
        """Make a list the next step."""
        self.lists_next = True

    def roll_back(self) -> None:
        """Record that the cache belongs to a lost history: the next list replaces it."""
        self.starts_over()
        if not self.rolled_back:
            self.rolled_back = True
            self.rollbacks += 1

    def lists(self, version: str) -> int:
        """Return the version up to which a list of this version replaces cached objects."""
        if number(version) < self._reached:
            self.roll_back()
        return _ALL if self.rolled_back else number(version)

    def listed(self, version: str) -> None:
        """Record a complete list."""
        self.version, self.lists_next, self.rolled_back, self._left = version, False, False, None
        self._reached, self._listed_at = number(version), time.monotonic()

    def opened(self) -> None:
        """Record an opened watch."""
        self._left = None

    def ended(self) -> None:
        """Record that the watch has ended, or could not be opened."""
        self._left = self._left or time.monotonic()

    async def check(self, client: "Client", kind: Kind, namespace: str | None, fields: str) -> None:
        """Raise Outdated if a watch must not be resumed, another KubeError if that cannot be found out.

        The request has no label selector, which would search all objects. It selects a single object if the informer
        does, because a role may allow no more.
        """
        now = time.monotonic()
        if self._left is None and now - self._listed_at < _FRESH_SECONDS:
            return
        if self._left is not None and now - self._left > LOST_SECONDS:
            raise Outdated("lost", f"there was no watch for more than {LOST_SECONDS:g} s")
        version = await client.version(kind, namespace, fields if fields.startswith(_ONE_OBJECT) else "")
        if number(version) < self._reached:
            message = f"the API server is at version {version}, and was at {self._reached}: a backup was restored"
            log.warning("%s in cluster %s: %s", kind, client.name or "local", message)
            client.history.lost()
            raise Outdated("rolled back", message)


def number(version: str) -> int:
    """Return a resource version as a number, comparable within its cluster (KEP-5504); 0 if it is invalid."""
    return int(version) if is_version(version) else 0
