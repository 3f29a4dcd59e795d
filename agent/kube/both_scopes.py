"""Objects of a kind in namespaces and of its twin for the whole cluster, such as Target and ClusterTarget."""

from collections.abc import Callable, Iterator
from typing import Any

from agent.api.kinds import Kind, Kinds
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import IndexFunction, Key, Object

_NAMESPACE = "namespace"


class EitherScope:
    """An informer for each of two kinds; a key without a namespace is that of a cluster-scoped object."""

    def __init__(self, client: Client, informer: Callable[[Kind], Informer], kinds: Kinds) -> None:
        self._client = client
        self._kinds = kinds
        self.informers = tuple(informer(kind) for kind in kinds)
        for each in self.informers:
            each.store.index(_NAMESPACE, lambda obj: (obj.namespace,))

    @property
    def synced(self) -> bool:
        """Return whether both kinds were listed completely."""
        return all(informer.synced.is_set() for informer in self.informers)

    def __iter__(self) -> Iterator[Object]:
        """The objects of both kinds."""
        return (obj for informer in self.informers for obj in informer.store)

    def get(self, key: Key) -> Object | None:
        """Return the object of a key."""
        return self._of(key).store.get(key)

    def index(self, name: str, function: IndexFunction) -> None:
        """Keep an index of both kinds, as `Store.index` does."""
        for informer in self.informers:
            informer.store.index(name, function)

    def by_index(self, name: str, value: str) -> list[Object]:
        """Return the objects of both kinds under a value of an index."""
        return [obj for informer in self.informers for obj in informer.store.by_index(name, value)]

    def in_namespace(self, namespace: str) -> list[Object]:
        """Return those of a namespace, without those of the cluster."""
        return self.informers[0].store.by_index(_NAMESPACE, namespace)

    def serving(self, namespace: str) -> list[Object]:
        """Return the objects of a namespace, and those of the cluster."""
        return [*self.in_namespace(namespace), *self.informers[1].store.by_index(_NAMESPACE, "")]

    async def patch(self, key: Key, body: dict[str, Any], *, sub: str | None = None) -> Object:
        """Patch an object, and update the store from the answer. Raises KubeError."""
        raw = await self._client.patch_raw(self._kinds.of(key[0]), key[1], body, key[0], sub=sub)
        return self._of(key).absorb(raw)

    def _of(self, key: Key) -> Informer:
        return self.informers[0 if key[0] else 1]
