"""Say on pods, and on the object concerned, what keeps a copy from where it is needed: once each."""

from collections.abc import Iterable
from typing import Any

from agent.clusters.deps import Deps
from agent.controllers.follow.needs import Item
from agent.kube.informer import Informer
from agent.kube.store import Key, Object

REASON = "FollowBlocked"


class Reports:
    """Remembers what was told to whom as long as it is true."""

    def __init__(self, deps: Deps, proxies: Informer) -> None:
        self._recorder = deps.recorder
        self._proxies = proxies
        self._told: dict[Item, set[tuple[str, str]]] = {}

    def tell(self, item: Item, message: str, pods: Iterable[Key], original: Object | None) -> None:
        """Warn on every pod that needs the item and has not been told, and on the original."""
        concerned = [self._proxies.store.get(key) for key in pods]
        for obj in (original, *concerned):
            if obj is None or (obj.uid, message) in self._told.setdefault(item, set()):
                continue
            self._told[item].add((obj.uid, message))
            self._recorder.event(_regarding(obj), "Warning", REASON, message)

    def settled(self, item: Item) -> None:
        """Nothing is in the way any more: should it be again, it is told again."""
        self._told.pop(item, None)


def _regarding(obj: Object) -> dict[str, Any]:
    metadata = {"name": obj.name, "namespace": obj.namespace, "uid": obj.uid}
    return {"apiVersion": obj.kind.api_version, "kind": obj.kind.name, "metadata": metadata}
