"""What the room remembers of delegates: those that ended and are gone unseen, and those that cannot be created.

A kubelet removes a pod right after the last it says of it, and so before that was told.

Watches  delegate pods.
Writes   nothing.
"""

import time
from collections.abc import Callable

from agent.api.kinds import CHAPERONS
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED


class Ended:
    """Delegates that have ended, as they were seen last, until their chaperons tell that they have."""

    def __init__(self, pods: Informer) -> None:
        self._pods = pods
        self._gone: dict[Key, Object] = {}
        pods.subscribe(self._changed)

    def __contains__(self, key: Key) -> bool:
        return key in self._gone

    def of(self, key: Key, chaperon: Object | None) -> Object | None:
        """The pod of a chaperon that is to be told of, None if there is none; forgets what is of no use any more."""
        last = self._gone.get(key)
        if last is None:
            return None
        owner = last.controller
        if (
            chaperon is None
            or chaperon.phase in ENDED
            or owner is None
            or owner.uid != chaperon.uid
            or self._pods.store.get(key) is not None
        ):
            del self._gone[key]
            return None
        return last

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if new is None and old is not None and old.phase in ENDED and is_controlled(old):
            self._gone[old.key] = old


def is_controlled(pod: Object) -> bool:
    """Whether a chaperon made the pod."""
    return pod.controller is not None and pod.controller.kind == CHAPERONS.name


LASTING_SECONDS = 5.0
"""What has failed for so long is told as a refusal, so that the source goes on to other targets."""
LEAST_SECONDS, MOST_SECONDS = 5.0, 30.0
"""Pauses between attempts from then on: half of the time that it has lasted."""


class Failures:
    """Memory of one process: another leader waits anew."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[Key, float] = {}

    def pause(self, chaperon: Key) -> float | None:
        """Take note of a failure; in how many seconds to try again where it has lasted, None where it has not."""
        now = self._now()
        lasted = now - self._since.setdefault(chaperon, now)
        return min(MOST_SECONDS, max(LEAST_SECONDS, lasted / 2)) if lasted >= LASTING_SECONDS else None

    def forget(self, chaperon: Key) -> None:
        """Its delegate is there, or is not wanted any more."""
        self._since.pop(chaperon, None)
