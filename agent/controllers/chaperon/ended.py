"""Delegates that ended and are gone before that was told: a kubelet removes a pod right after the last it says of it.

Watches  delegate pods.
Writes   nothing.
"""

from agent.api.kinds import CHAPERONS
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED


class Ended:
    """Each as it was seen last, for as long as its chaperon does not tell that it has ended."""

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
