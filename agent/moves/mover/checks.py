"""Checks many pods after one event, and yields to the event loop in between."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from agent.api.names.lifecycle import AUTO
from agent.base.yielding import in_turns
from agent.clusters.deps import Deps
from agent.kube.store import Key, Object, Store

_PREFERS = "fail-back"

log = logging.getLogger(__name__)


class PodChecks:
    """Queue of pods to check. A pod that is added twice before its turn is checked once.

    :param check: checks one pod; its second argument is True if the pod's owner must be reconciled in any case
    """

    def __init__(self, check: Callable[[Object, bool], None], pods: Store) -> None:
        self._check = check
        self._pods = pods
        self._waiting: dict[Key, bool] = {}
        self._later: dict[Callable[[], Iterable[Object]], None] = {}
        self._wake = asyncio.Event()

    def add(self, pods: Iterable[Object], *, surely: bool = False) -> None:
        """Check these pods soon.

        :param surely: reconcile their owners in any case
        """
        waiting = self._waiting
        for pod in pods:
            waiting[pod.key] = surely or waiting.get(pod.key, False)
        if waiting:
            self._wake.set()

    def add_later(self, find: Callable[[], Iterable[Object]]) -> None:
        """Check the pods that `find` returns then. A function that is added twice before its turn runs once."""
        self._later[find] = None
        self._wake.set()

    async def run(self) -> None:
        """Check pods until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            later, self._later = self._later, {}
            for find in later:
                self.add(find())
            waiting, self._waiting = self._waiting, {}
            async for key, surely in in_turns(waiting.items()):
                pod = self._pods.get(key)
                if pod is None:
                    continue
                try:
                    self._check(pod, surely)
                except Exception:
                    log.exception("pod %s could not be checked", "/".join(key))


class FailBackPods:
    """Indexes of proxy pods with the annotation `fail-back: auto` on the pod, an owner or the namespace."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._pods = deps.proxies.informer.store
        self._pods.index(_PREFERS, _prefers)
        self._namespaces = deps.namespaces.informer.store
        self._namespaces.index(_PREFERS, _prefers)
        self._owners = [each.store for each in deps.owners.informers.values()] if deps.owners is not None else []
        for store in self._owners:
            store.index(_PREFERS, _prefers)

    def __call__(self) -> Iterator[Object]:
        """Return the pods. An annotation closer to the pod may override the one that was found."""
        yield from self._pods.by_index(_PREFERS, AUTO)
        for namespace in self._namespaces.by_index(_PREFERS, AUTO):
            yield from self._deps.proxies.in_namespace(namespace.name)
        for store in self._owners:
            for owner in store.by_index(_PREFERS, AUTO):
                yield from self._deps.choices.pods_of(owner)


def _prefers(obj: Object) -> tuple[str, ...]:
    known = obj.hot_annotations
    return (AUTO,) if AUTO in (known.fail_back, known.fail_back_short) else ()
