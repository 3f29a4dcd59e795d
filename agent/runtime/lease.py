"""Leader election on a Lease (coordination.k8s.io/v1), in the manner of client-go, released on shutdown.

The Lease records intervals without a leader: see `agent.base.leaderless_intervals`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable

import msgspec
from prometheus_client import Gauge

from agent.base.cancelling import cancel_until_done
from agent.base.clock import Clock
from agent.base.leaderless_intervals import Absence
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.write_guard import fence
from agent.runtime.lease_record import LeaseRecord

log = logging.getLogger(__name__)

_YIELDED = 2
"""Pauses after which a candidate that released the lease requests it again: others request it within half a pause."""

LEADER = Gauge("flotilla_leader", "Whether this replica leads (1) or waits for its turn (0).", registry=REGISTRY)


class LeaseTimes(msgspec.Struct, frozen=True):
    """Times of leader election in seconds: client-go's scheme, but a leader that dies is followed within 15 s."""

    duration: float = 12.0
    """Seconds that other candidates wait after the last observed renewal."""
    renew: float = 11.0
    """Seconds in which the leader tries to renew. The rest of `duration` is for it to stop."""
    retry: float = 1.4
    """Time between renewals, answered or not; a candidate that waits looks twice as often.

    Together with an answer that takes 80 % of `duration` it is shorter than `renew`.
    """


class LeaderLease:
    """Holds or waits for one Lease.

    Other holders' clocks are not trusted: a lease counts as expired when it has not changed for its duration by our
    own monotonic clock.
    """

    def __init__(
        self, client: Client, clock: Clock, namespace: str, name: str, identity: str, times: LeaseTimes
    ) -> None:
        self.identity = identity
        self.namespace = namespace
        self.leading = False
        self.contact = False
        """Whether the API server has answered a request about the lease."""
        self._name = name
        self._times = times
        self._complaint = ""
        self._record = LeaseRecord(client, clock, namespace, name, identity, duration=times.duration, renew=times.renew)
        self._tries = set[asyncio.Task[bool | None]]()
        """Requests that are under way."""
        self._due = 0.0
        """When the next renewal is to be sent, by the monotonic clock."""
        self.turned = time.monotonic()
        """When it was last looked whether the lease is ours, by the monotonic clock."""
        self.heard = -math.inf
        """When the API server last answered about it."""

    def holds(self) -> bool:
        """Return whether the lease is certainly ours: it was renewed at most `renew` seconds ago by both clocks.

        The monotonic clock stops while a machine is paused, and the time of day may be set back.
        """
        return self._record.is_fresh(self._record.renewals.moment)

    @property
    def absences(self) -> tuple[Absence, ...]:
        """Return intervals without a leader, from the last read of the lease."""
        return self._record.absences

    def renewed_since(self, moment: float) -> bool:
        """Return whether a request sent after a monotonic time has renewed the lease: `absences` is newer."""
        return self._record.renewals.moment.monotonic > moment

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while it is held, cancel it when it is lost; repeat until cancelled.

        If `lead` returns, release the lease and pause, so that another candidate may take it.
        """
        while True:
            try:
                await self._acquire()
            except BaseException:
                self._abandon()
                raise
            log.info("leading: %s holds lease %s/%s", self.identity, self.namespace, self._name)
            self._leads(True)
            try:
                lost = await self._lead(lead)
            finally:
                self._leads(False)
                await asyncio.shield(self._release())
            if not lost:
                await asyncio.sleep(self._times.retry * _YIELDED)

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> bool:
        """Return True if the lease was lost, False if `lead` has ended."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(lead), name="leader")
            hold = group.create_task(self._hold(), name="lease")
            try:
                await asyncio.wait((work, hold), return_when=asyncio.FIRST_COMPLETED)
                lost = hold.done()
                if lost:
                    log.warning("lease %s/%s lost", self.namespace, self._name)
            finally:
                # A cancelled task may ignore the cancellation; waiting for it would end leader election.
                cancel_until_done(work)
                hold.cancel()
        return lost

    def _leads(self, leading: bool) -> None:
        self.leading = leading
        LEADER.set(leading)

    async def _work(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` with guarded writes: none is sent once the lease may be another's, even after a pause."""
        fence(self.holds)
        await lead()

    async def _acquire(self) -> None:
        """Wait for the lease, which is ours from the moment at which it was taken."""
        while True:
            self._start()
            while self._tries and not self.holds():
                await self._turn(self._times.retry)
                # A write that takes nearly as long as the lease lasts is renewed before it is answered.
                if self._record.renewals.pending and time.monotonic() >= self._due:
                    self._start()
            if self.holds():
                return
            # Others' renewals count from when they are seen; and not a moment is lost when a holder's time is up.
            pause, left = self._times.retry / 2, self._record.expires - time.monotonic()
            await asyncio.sleep(min(pause, left) if left > 0 else pause)

    async def _hold(self) -> None:
        """Renew until another candidate holds the lease, or no renewal succeeds for as long as `renew`.

        A renewal is sent every `retry` seconds, also while others wait for their answers.
        """
        while (left := self._left()) > 0:
            if not await self._turn(min(left, max(0.0, self._due - time.monotonic()))):
                return
            if time.monotonic() >= self._due:
                self._start()

    def _start(self) -> None:
        self._due = time.monotonic() + self._times.retry
        self._tries.add(asyncio.create_task(self._try(), name="renewal"))

    async def _turn(self, seconds: float) -> bool:
        """Wait for the next answer, at most so long. Return False if another candidate holds the lease."""
        done = set[asyncio.Task[bool | None]]()
        if self._tries:
            done, self._tries = await asyncio.wait(self._tries, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(seconds)
        self.turned = time.monotonic()
        return not any(each.result() is False for each in done)

    def _abandon(self) -> None:
        """Cancel all requests, and discard their results."""
        for each in self._tries:
            each.cancel()
        self._tries = set()
        self._record.forget()

    def _left(self) -> float:
        return self._record.renewals.moment.monotonic + self._times.renew - time.monotonic()

    async def _try(self) -> bool | None:
        """Return whether the lease is ours now; None when that could not be found out in time."""
        try:
            # Time for a read and a write.
            async with asyncio.timeout(2 * self._times.renew):
                taken = await self._record.take()
            self.contact, self.heard = True, time.monotonic()
            self._complaint = ""
            return taken
        except Exception as error:
            # Any error may cost the lease, but never the process.
            self._complain(str(error) or "no answer")
            return None

    def _complain(self, text: str) -> None:
        """Once per reason: tries come every few seconds."""
        if text != self._complaint:
            log.warning("lease %s/%s cannot be read or written: %s", self.namespace, self._name, text)
        self._complaint = text

    async def _release(self) -> None:
        """Let the next leader start at once, if that can be done before it may anyway."""
        self._abandon()
        try:
            async with asyncio.timeout(self._times.duration):
                await self._record.release()
        except Exception as error:
            log.info("lease %s/%s not released: %s", self.namespace, self._name, str(error) or "no answer")
