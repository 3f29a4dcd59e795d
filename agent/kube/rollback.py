"""How far the versions of a collection have come, and whether its API server has gone back: a backup was restored.

Versions grow with every write to etcd, and a restored etcd goes on from those of its backup. A watch from a version
that an API server has not reached is no error for it: it says nothing, no bookmark either, until it gets there, and
goes on as if nothing had been. So it is asked before a watch is resumed. A collection that changes seldom may have been
passed by then, so what one finds counts for all of a cluster. A backup may also be restored with its versions raised
(`etcdutl snapshot restore --bump-revision`): then lists go forward while their objects go back. So a list that is no
older than what is known counts, whatever the versions of its objects.
"""

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent.api.kinds import Kind
from agent.base.listeners import tell
from agent.kube.errors import Outdated
from agent.kube.sketch import is_version

if TYPE_CHECKING:
    from agent.kube.client import Client

log = logging.getLogger(__name__)

LOST_SECONDS = 60.0
"""A watch that could not be resumed for so long is begun anew: a restored API server may have caught up by then."""
_FRESH_SECONDS = 1.0
"""How long the version of a list counts as the one that its API server is at."""
_ALL = 10**20
"""More than any version."""
_ONE_OBJECT = "metadata.name="


class History:
    """What the informers of a cluster share: whoever finds that a part of it is lost has all of them list again."""

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
    """How far one collection has been read. `version` is what a watch is resumed from."""

    def __init__(self) -> None:
        self.version = ""
        self.lists_next = True
        """Whether a list comes next, or is being read, whatever a watch that is still open tells."""
        self.rolled_back = False
        """Whether the API server has lost what is known here; until that has been replaced by a list."""
        self.rollbacks = 0
        self._reached = 0
        self._listed_at = 0.0
        self._left: float | None = None

    def told(self, version: str) -> None:
        """A watch has come to a version."""
        if is_version(version):
            self.version, self._reached = version, number(version)

    def starts_over(self) -> None:
        """A list comes next."""
        self.lists_next = True

    def roll_back(self) -> None:
        """What is known is of a history that was lost: a list comes next, and replaces it."""
        self.starts_over()
        if not self.rolled_back:
            self.rolled_back = True
            self.rollbacks += 1

    def lists(self, version: str) -> int:
        """Up to which version an object that is known is replaced by what a list of this version says of it."""
        if number(version) < self._reached:
            self.roll_back()
        return _ALL if self.rolled_back else number(version)

    def listed(self, version: str) -> None:
        """All of a list has been taken."""
        self.version, self.lists_next, self.rolled_back, self._left = version, False, False, None
        self._reached, self._listed_at = number(version), time.monotonic()

    def opened(self) -> None:
        """A watch has been opened."""
        self._left = None

    def ended(self) -> None:
        """It has ended, or could not be opened."""
        self._left = self._left or time.monotonic()

    async def check(self, client: "Client", kind: Kind, namespace: str | None, fields: str) -> None:
        """Raises Outdated if a watch must not be resumed, another KubeError if that cannot be found out.

        By labels the question is not narrowed, or all objects would be searched; to one object it is, since a role may
        allow no more.
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
    """A resource version as a number, by which it is earlier or later than another of its cluster (KEP-5504)."""
    return int(version) if is_version(version) else 0
