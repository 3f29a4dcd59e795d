"""Holds: bind requests of the scheduler that wait for permission of the source, until they are obsolete or time out."""

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from prometheus_client import Counter, Gauge, Histogram

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.base.clock import Clock
from agent.base.metrics import REGISTRY
from agent.clusters.cluster import Cluster
from agent.clusters.copies.field_owners import untracked
from agent.extender.decide import Bind, BindAttempt, Chaperon, Refuse, Reserve, Wait, decide
from agent.extender.gather import Candidates
from agent.extender.wire import BindingArgs
from agent.kube.errors import Conflict, KubeError, NotFound
from agent.kube.store import Key
from agent.model.podstate import HoldMark, hold_mark, is_allowed
from agent.runtime.supervisor import Supervisor

log = logging.getLogger(__name__)

HOLDS = Gauge(
    "flotilla_extender_holds",
    "Candidates that have reserved a node and wait for the source's permission.",
    registry=REGISTRY,
)
BINDS = Counter(
    "flotilla_extender_binds_total",
    "Binds that the candidate scheduler asked for, by outcome.",
    ("outcome",),
    registry=REGISTRY,
)
HOLD_SECONDS = Histogram(
    "flotilla_extender_hold_seconds",
    "How long candidates were held, in seconds.",
    buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0),
    registry=REGISTRY,
)


class _Hold:
    """One unanswered request of the scheduler."""

    def __init__(self, asked: BindingArgs) -> None:
        self.id = uuid4().hex[:12]
        self.asked = asked
        self.key: Key = (asked.namespace, asked.name)
        self.changed = asyncio.Event()
        self.until = 0.0
        self.round = 0
        self.reserved = False
        self.newest = True
        self.expired = False
        self.vanished = False
        """True if the pod was seen to be deleted or bound."""

    async def wait(self) -> None:
        """Wait until something changes or the hold expires."""
        try:
            async with asyncio.timeout_at(self.until):
                await self.changed.wait()
        except TimeoutError:
            self.expired = True
        self.changed.clear()


class Holds:
    """All holds. `limit` is the longest duration of a hold, in seconds."""

    def __init__(self, local: Cluster, clock: Clock, limit: float) -> None:
        self._client = local.client
        self._clock = clock
        self._supervisor = Supervisor("extender")
        self._releasing = 0
        self._released = asyncio.Event()
        self._limit = limit
        self._candidates = Candidates(local, self._wake)
        self._by_key: dict[Key, list[_Hold]] = {}
        self._stopping = False

    def stop(self) -> None:
        """Answer every hold now, and later ones at once."""
        self._stopping = True
        for key in self._by_key:
            self._wake(key, "")

    async def settle(self, seconds: float) -> None:
        """Wait at most this many seconds for reservations that are still being released."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._releasing:
                    self._released.clear()
                    await self._released.wait()
        await self._supervisor.stop()

    async def bind(self, asked: BindingArgs) -> str:
        """Answer one request: return why the pod is not bound, empty if it is.

        Cancel it when the scheduler no longer waits for the answer: a reservation is then released.
        """
        hold = _Hold(asked)
        with self._registered(hold):
            try:
                return await self._run(hold)
            except KubeError as error:
                BINDS.labels("error").inc()
                self._release_later(hold)
                return f"{error}"
            except asyncio.CancelledError:
                BINDS.labels("disconnected").inc()
                self._release_later(hold)
                raise

    async def _run(self, hold: _Hold) -> str:
        pod, chaperon = await self._candidates.find(hold.asked)
        while True:
            step = decide(
                BindAttempt(
                    hold.asked,
                    pod,
                    chaperon,
                    hold.id,
                    reserved=hold.reserved,
                    newest=hold.newest,
                    expired=hold.expired,
                    stopping=self._stopping,
                )
            )
            match step:
                case Bind():
                    return await self._bind(hold)
                case Reserve():
                    await self._reserve(hold, step)
                case Refuse():
                    if not step.clear or chaperon is None or await self._clear(hold, chaperon, end=step.end):
                        BINDS.labels(step.outcome).inc()
                        return step.reason
                case Wait():
                    await hold.wait()
            pod, chaperon = self._candidates.look(hold.asked, pod, hold.vanished)

    async def _reserve(self, hold: _Hold, step: Reserve) -> None:
        hold.reserved = True
        hold.round = step.round
        hold.until = asyncio.get_running_loop().time() + self._limit
        mark = HoldMark(hold.id, self._clock.now() + timedelta(seconds=self._limit))
        annotations = {names.ANNOTATION_IS_RESERVED: "true", names.ANNOTATION_HOLD: str(mark)}
        await self._patch(hold.key, {"uid": step.uid, "annotations": annotations, **untracked(applied=step.applied)})

    async def _bind(self, hold: _Hold) -> str:
        asked = hold.asked
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": asked.name, "namespace": asked.namespace, "uid": asked.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": asked.node},
        }
        await self._client.create_raw(PODS, binding, asked.namespace, sub="binding")
        BINDS.labels("bound").inc()
        return ""

    async def _clear(self, hold: _Hold, chaperon: Chaperon, *, end: bool) -> bool:
        """Release the reservation. Return False if the chaperon has changed meanwhile and has to be checked again.

        The resourceVersion guards against a concurrent permission, and against the mark of a newer hold.
        """
        annotations: dict[str, str | None] = {names.ANNOTATION_IS_RESERVED: None, names.ANNOTATION_HOLD: None}
        if end:
            annotations[names.ANNOTATION_RESERVE_ENDED] = str(hold.round)
        metadata = {"uid": chaperon.uid, "resourceVersion": chaperon.version, "annotations": annotations}
        try:
            await self._patch(hold.key, metadata)
        except NotFound:
            return True
        except Conflict:
            return not await self._candidates.refresh(hold.key)
        return True

    async def _patch(self, key: Key, metadata: dict[str, Any]) -> None:
        namespace, name = key
        self._candidates.absorb(await self._client.patch_raw(CHAPERONS, name, {"metadata": metadata}, namespace))

    def _release_later(self, hold: _Hold) -> None:
        if hold.reserved:
            self._releasing += 1
            self._supervisor.spawn(f"release {hold.id}", partial(self._release, hold))

    async def _release(self, hold: _Hold) -> None:
        """Release the reservation of a hold without an answer. If this fails, the mark expires."""
        try:
            await self._candidates.refresh(hold.key)
            while True:
                chaperon = self._candidates.chaperon(hold.key)
                mark = hold_mark(chaperon.annotations) if chaperon else None
                if chaperon is None or chaperon.deleting or mark is None or mark.id != hold.id:
                    return
                if is_allowed(chaperon.annotations):
                    return
                if await self._clear(hold, chaperon, end=False):
                    return
        except KubeError as error:
            log.warning("reservation of %s/%s not taken back: %s", *hold.key, error)
        finally:
            self._releasing -= 1
            self._released.set()

    @contextmanager
    def _registered(self, hold: _Hold) -> Iterator[None]:
        holds = self._by_key.setdefault(hold.key, [])
        for older in holds:
            if older.asked.uid == hold.asked.uid:
                older.newest = False
                older.changed.set()
        holds.append(hold)
        started = time.monotonic()
        HOLDS.inc()
        try:
            yield
        finally:
            HOLDS.dec()
            holds.remove(hold)
            if not holds:
                del self._by_key[hold.key]
            if hold.reserved:
                HOLD_SECONDS.observe(time.monotonic() - started)

    def _wake(self, key: Key, vanished: str) -> None:
        for hold in self._by_key.get(key, ()):
            hold.vanished = hold.vanished or hold.asked.uid == vanished
            hold.changed.set()
