"""The loop of every controller: keys are queued, `reconcile` brings the state in line, failures are retried."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from agent.base.cancelling import cancel_until_done
from agent.base.log import context
from agent.base.metrics import OLDEST_RECONCILE, QUEUE_DEPTH, RECONCILE_SECONDS, RECONCILES, shown
from agent.base.yielding import take_turn
from agent.kube.errors import Conflict, Invalid, KubeError, Unreachable
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.kube.subscribers import Subscriber
from agent.runtime.watchdog import Overdue, Watchdog
from agent.runtime.workqueue import WorkQueue

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

_INVALID_SECONDS = 300.0
_OUTCOMES = ("done", "error", "conflict", "overdue")


class Controller(ABC, Generic[K]):
    """A controller: subscribes to informers when built, reconciles by key while it runs.

    Reconciliation is level-based: it depends on the current state, never on the event that enqueued the key.
    """

    name: ClassVar[str]
    workers: ClassVar[int] = 8
    """Keys that are reconciled at the same time, unless the constructor is given another number."""
    lane_width: ClassVar[int] = 8
    """Maximum number of concurrent keys in one lane."""

    def __init__(self, workers: int | None = None, *, longest_retry: float = 60.0) -> None:
        """:param longest_retry: seconds; the longest pause of the backoff"""
        self._concurrency = workers or self.workers
        self.queue: WorkQueue[K] = WorkQueue(
            order=self.order, lane=self.lane, lane_width=self.lane_width, longest_delay=longest_retry
        )
        self._sources: list[Informer] = []
        self._watchdog = Watchdog(self.name, lambda: self.queue.statistics().waiting)
        self._reconciles = {outcome: RECONCILES.labels(self.name, outcome) for outcome in _OUTCOMES}
        self._seconds = RECONCILE_SECONDS.labels(self.name)

    @abstractmethod
    async def reconcile(self, key: K) -> float | None:
        """Bring the state in line for one key; returns seconds until the next check, None for no check.

        A KubeError is a failure that is retried: a conflict soon, others with backoff. Work that waits for more than a
        minute for anything but a request declares that (`expect`); otherwise it is ended and retried.
        """

    def order(self, key: K) -> Any:
        """Return the sort key of a key, the smallest first; evaluated when the key is enqueued."""
        return 0

    def lane(self, key: K) -> Hashable:
        """Return the resource that a key waits for, such as a cluster; None for none. Other lanes are not delayed."""
        return None

    def watch(
        self, informer: Informer, keys: Callable[[Object], Iterable[K]], *, required: bool = True
    ) -> Callable[[], None]:
        """Enqueue the result of `keys` for an object before and after each change; returns a function that
        unsubscribes.

        A required informer delays this controller until it has synced.
        """
        if required:
            self._sources.append(informer)
        return informer.subscribe(self.enqueuing(keys))

    def enqueuing(self, keys: Callable[[Object], Iterable[K]]) -> Subscriber:
        """Return a subscriber that enqueues what `keys` gives for an object before and after each change."""

        def changed(old: Object | None, new: Object | None) -> None:
            try:
                enqueue(old)
            finally:
                enqueue(new)

        def enqueue(obj: Object | None) -> None:
            for key in keys(obj) if obj is not None else ():
                self.queue.add(key)

        changed.__qualname__ = f"{type(self).__qualname__} ({keys.__qualname__})"
        return changed

    async def run(self) -> None:
        """Reconcile until cancelled."""
        depth, oldest = QUEUE_DEPTH.labels(self.name), OLDEST_RECONCILE.labels(self.name)
        with shown(depth, lambda: self.queue.statistics().waiting), shown(oldest, lambda: self._watchdog.oldest):
            for informer in self._sources:
                await informer.synced.wait()
            await self._work_in_parallel()

    async def _work_in_parallel(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watchdog.run(), name=f"{self.name} watchdog")
            workers = [group.create_task(self._work(), name=f"{self.name} worker") for _ in range(self._concurrency)]
            try:
                await asyncio.Event().wait()
            finally:
                for worker in workers:
                    cancel_until_done(worker)

    async def _work(self) -> None:
        while True:
            key = await self.queue.get()
            started = time.monotonic()
            try:
                # Keys that never wait for an answer would block everything else.
                await take_turn()
                started = time.monotonic()
                with context(controller=self.name, key="/".join(map(str, key)) if isinstance(key, tuple) else str(key)):
                    await self._attempt(key)
            finally:
                self.queue.done(key)
                self._seconds.observe(time.monotonic() - started)

    async def _attempt(self, key: K) -> None:
        try:
            with self._watchdog.over(key):
                again = await self.reconcile(key)
        except Conflict as error:
            log.debug("conflict: %s", error)
            self._reconciles["conflict"].inc()
            self.queue.retry(key)
        except Invalid as error:
            log.warning("refused as invalid, next try in %.0f s: %s", _INVALID_SECONDS, error)
            self._reconciles["error"].inc()
            self.queue.add_after(key, _INVALID_SECONDS)
        except KubeError as error:
            delay = self.queue.retry(key)
            level = logging.INFO if isinstance(error, Unreachable) else logging.WARNING
            log.log(level, "%s; next try in %.1f s", error, delay)
            self._reconciles["error"].inc()
        except Overdue:
            delay = self.queue.retry(key)
            log.warning("ended; next try in %.1f s", delay)
            self._reconciles["overdue"].inc()
        except Exception:
            delay = self.queue.retry(key)
            log.exception("unexpected failure; next try in %.1f s", delay)
            self._reconciles["error"].inc()
        else:
            self.queue.forget(key)
            self._reconciles["done"].inc()
            if again is not None:
                self.queue.add_after(key, again)
