"""Checks of many pods after one event, in turns of the event loop: nothing else stands still meanwhile."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator

from agent.api.names.lifecycle import AUTO
from agent.base.turns import in_turns
from agent.clusters.deps import Deps
from agent.kube.store import Key, Object, Store

_PREFERS = "fail-back"

log = logging.getLogger(__name__)


class Looks:
    """Pods that are to be checked. A pod that is named twice before its turn is checked once.

    :param look: checks one pod; its second argument is True if the pod is to be checked whatever its state is
    """

    def __init__(self, look: Callable[[Object, bool], None], pods: Store) -> None:
        self._look = look
        self._pods = pods
        self._waiting: dict[Key, bool] = {}
        self._later: dict[Callable[[], Iterable[Object]], None] = {}
        self._wake = asyncio.Event()

    def at(self, pods: Iterable[Object], *, surely: bool = False) -> None:
        """Check these pods soon."""
        waiting = self._waiting
        for pod in pods:
            waiting[pod.key] = surely or waiting.get(pod.key, False)
        if waiting:
            self._wake.set()

    def at_those(self, find: Callable[[], Iterable[Object]]) -> None:
        """Check the pods that `find` returns; if the same function is given again before its turn, it runs once."""
        self._later[find] = None
        self._wake.set()

    async def run(self) -> None:
        """Check pods until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            later, self._later = self._later, {}
            for find in later:
                self.at(find())
            waiting, self._waiting = self._waiting, {}
            async for key, surely in in_turns(waiting.items()):
                pod = self._pods.get(key)
                if pod is None:
                    continue
                try:
                    self._look(pod, surely)
                except Exception:
                    log.exception("pod %s could not be checked", "/".join(key))


class FailBackPods:
    """Proxy pods that ask for fail-back, by themselves, by an owner or by their namespace: found by indexes."""

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
        """Return the pods. Some of them may not ask: what is said closest to a pod counts."""
        yield from self._pods.by_index(_PREFERS, AUTO)
        for namespace in self._namespaces.by_index(_PREFERS, AUTO):
            yield from self._deps.proxies.in_namespace(namespace.name)
        for store in self._owners:
            for owner in store.by_index(_PREFERS, AUTO):
                yield from self._deps.choices.pods_of(owner)


def _prefers(obj: Object) -> tuple[str, ...]:
    known = obj.hot_annotations
    return (AUTO,) if AUTO in (known.fail_back, known.fail_back_short) else ()
