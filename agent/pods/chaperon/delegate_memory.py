"""Memory about delegates: ended ones that were deleted before their end was reported, and failing creations.

A kubelet removes a pod right after its final status, possibly before that status was reported.

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
    """Last observed state of ended and deleted delegates, kept until their chaperons report the end."""

    def __init__(self, pods: Informer) -> None:
        self._pods = pods
        self._gone: dict[Key, Object] = {}
        pods.subscribe(self._changed)

    def __contains__(self, key: Key) -> bool:
        return key in self._gone

    def of(self, key: Key, chaperon: Object | None) -> Object | None:
        """Return the ended pod that the chaperon still has to report, or None. Drops entries that are no longer
        needed."""
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
    """Return whether a chaperon made the pod."""
    return pod.controller is not None and pod.controller.kind == CHAPERONS.name


LASTING_SECONDS = 5.0
"""Seconds after which a continuing failure is reported as a refusal, so that the source tries other targets."""
LEAST_SECONDS, MOST_SECONDS = 5.0, 30.0
"""Bounds in seconds of the pauses between further attempts; a pause is half of the time since the first failure."""


class Failures:
    """Start times of continuing failures. Kept in memory: another leader starts to count again."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[Key, float] = {}

    def pause(self, chaperon: Key) -> float | None:
        """Record a failure. Return the seconds until the next attempt, None if the failure is shorter than
        LASTING_SECONDS."""
        now = self._now()
        lasted = now - self._since.setdefault(chaperon, now)
        return min(MOST_SECONDS, max(LEAST_SECONDS, lasted / 2)) if lasted >= LASTING_SECONDS else None

    def forget(self, chaperon: Key) -> None:
        """Forget failures of a chaperon whose delegate exists or is no longer wanted."""
        self._since.pop(chaperon, None)
