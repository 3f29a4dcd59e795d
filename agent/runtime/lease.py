"""Leader election on a Lease (coordination.k8s.io/v1), in the manner of client-go, released on shutdown.

The Lease remembers when nobody led: see `agent.base.absences`.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from prometheus_client import Gauge

from agent.api import names
from agent.api.kinds import LEASES
from agent.base import absences
from agent.base.cancelling import cancel_until_done
from agent.base.clock import Clock, micro_stamp
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, NotFound
from agent.kube.fence import fence

log = logging.getLogger(__name__)

_YIELDED = 2
"""Pauses after which one that gave the lease back asks for it again: the others ask within half a pause."""

LEADER = Gauge("flotilla_leader", "Whether this replica leads (1) or waits for its turn (0).", registry=REGISTRY)


class LeaseTimes(msgspec.Struct, frozen=True):
    """Times of leader election in seconds: client-go's scheme, but a leader that dies is followed within 15 s."""

    duration: float = 12.0
    """How long others wait after the last renewal they saw."""
    renew: float = 9.0
    """How long the leader tries to renew before it gives up leading; what is left of `duration` is for it to stop."""
    retry: float = 2.0
    """Pause between renewals; who waits looks twice as often."""


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
        """Whether the API server has answered about the lease."""
        self.absences: tuple[absences.Absence, ...] = ()
        """When nobody led, as the lease said it last."""
        self._client = client
        self._clock = clock
        self._name = name
        self._times = times
        self._complaint = ""
        self._seen: tuple[str, float] = ("", 0.0)
        """Version of another's lease, and since when we know it."""
        self._expires = 0.0
        self._renewed = (0.0, clock.now())
        """When our last renewal was sent: by the monotonic clock, and by the time of day."""
        self._sent = self._renewed
        """The same of the last that was tried."""
        self._own: dict[str, Any] | None = None
        """The lease as our last renewal has left it, None where we do not know."""
        self.turned = time.monotonic()
        """When it was last looked whether the lease is ours, by the monotonic clock."""
        self.heard = -math.inf
        """When the API server last answered about it."""

    def holds(self) -> bool:
        """Whether the lease is ours for sure: no longer ago than `renew` seconds by either clock it was renewed.

        The monotonic clock stands still while a machine is paused, and the time of day may be set back.
        """
        moment, day = self._renewed
        return max(time.monotonic() - moment, (self._clock.now() - day).total_seconds()) < self._times.renew

    def renewed_since(self, moment: float) -> bool:
        """Whether a request that was sent after a moment of the monotonic clock has renewed it: `absences` is newer."""
        return self._renewed[0] > moment

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead` while it is held, cancel it when it is lost, and so on until cancelled.

        Where `lead` ends by itself the lease is given back, and left alone for long enough that another may take it.
        """
        while True:
            await self._acquire()
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
        """Returns whether the lease was lost, rather than `lead` having ended."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(lead), name="leader")
            hold = group.create_task(self._hold(), name="lease")
            try:
                await asyncio.wait((work, hold), return_when=asyncio.FIRST_COMPLETED)
                lost = hold.done()
                if lost:
                    log.warning("lease %s/%s lost", self.namespace, self._name)
            finally:
                # A cancelled task may lose that; who waits for it here would never lead again.
                cancel_until_done(work)
                hold.cancel()
        return lost

    def _leads(self, leading: bool) -> None:
        self.leading = leading
        LEADER.set(leading)

    async def _work(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Nothing that is begun here writes once the lease may be another's, also after the process stood still."""
        fence(self.holds)
        await lead()

    async def _acquire(self) -> None:
        """Wait for the lease, which is ours from the moment at which it was taken."""
        while True:
            self.turned = time.monotonic()
            if await self._try(self._times.renew):
                self._renewed = self._sent
                return
            # Others' renewals count from when they are seen; and not a moment is lost when a holder's time is up.
            pause, left = self._times.retry / 2, self._expires - time.monotonic()
            await asyncio.sleep(min(pause, left) if left > 0 else pause)

    async def _hold(self) -> None:
        """Renew until somebody else holds the lease, or no renewal succeeds for as long as `renew`.

        Others count from when a renewal reached the API server, which may be as early as when it was sent.
        """
        while (left := self._left()) > 0:
            await asyncio.sleep(min(self._times.retry, left))
            self.turned = time.monotonic()
            held = await self._try(self._left())
            if held is False:
                return
            if held:
                self._renewed = self._sent

    def _left(self) -> float:
        return self._renewed[0] + self._times.renew - time.monotonic()

    async def _try(self, seconds: float) -> bool | None:
        """Whether the lease is ours now; None when that could not be found out in time."""
        try:
            async with asyncio.timeout(seconds):
                taken = await self._take()
            self.contact, self.heard = True, time.monotonic()
            self._complaint = ""
            return taken
        except Exception as error:
            # Whatever it is: in the end it costs the lease, never the process.
            self._complain(str(error) or "no answer")
            return None

    def _complain(self, text: str) -> None:
        """Once per reason: tries come every few seconds."""
        if text != self._complaint:
            log.warning("lease %s/%s cannot be read or written: %s", self.namespace, self._name, text)
        self._complaint = text

    async def _take(self) -> bool | None:
        return await self._renew() or await self._read_and_take()

    async def _renew(self) -> bool:
        """One request where nobody else has changed the lease since; an API server may take seconds for each.

        Not once time has gone by that we know nothing of, as when a machine is resumed: that is noted as an absence.
        """
        own, self._own = self._own, None
        if own is None or not self.holds():
            return False
        try:
            await self._write(own, {})
        except (Conflict, NotFound):
            return False
        return True

    async def _read_and_take(self) -> bool | None:
        try:
            lease = await self._client.get(LEASES, self._name, self.namespace)
        except NotFound:
            return await self._make()
        current = lease.get("spec") or {}
        holder, change = current.get("holderIdentity") or "", dict[str, Any]()
        if holder != self.identity:
            if holder and not self._expired(lease["metadata"]["resourceVersion"], current):
                return False
            change = {
                "acquireTime": micro_stamp(self._clock.now()),
                "leaseTransitions": int(current.get("leaseTransitions") or 0) + 1,
            }
        self._note_absence(lease, current)
        try:
            await self._write(lease, change)
        except Conflict:
            return None
        return True

    async def _make(self) -> bool:
        change = {"acquireTime": micro_stamp(self._clock.now()), "leaseTransitions": 0}
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": {"name": self._name, "namespace": self.namespace},
            "spec": self._held_now() | change,
        }
        try:
            await self._client.create_raw(LEASES, lease)
        except AlreadyExists:
            return False
        return True

    async def _write(self, lease: dict[str, Any], change: dict[str, Any]) -> None:
        lease["spec"] = (lease.get("spec") or {}) | self._held_now() | change
        self._own = await self._client.update(LEASES, lease)

    def _held_now(self) -> dict[str, Any]:
        """What the lease says when it is ours from this moment on, at which it is sent."""
        self._sent = (time.monotonic(), self._clock.now())
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "renewTime": micro_stamp(self._sent[1]),
        }

    def _note_absence(self, lease: dict[str, Any], found: dict[str, Any]) -> None:
        """Also one's own: a leader whose lease is older than it left it is forgotten by a restored etcd."""
        metadata = lease["metadata"]
        known = absences.read((metadata.get("annotations") or {}).get(names.ANNOTATION_ABSENCES, ""))
        renewed, now = str(found.get("renewTime") or ""), self._clock.now()
        self.absences = absences.noted(known, renewed, self._times.duration, now)
        if self.absences != known:
            log.info("nobody has led from %s to now, as lease %s/%s says", renewed, self.namespace, self._name)
            metadata["annotations"] = (metadata.get("annotations") or {}) | {
                names.ANNOTATION_ABSENCES: absences.write(self.absences)
            }

    def _expired(self, version: str, spec: dict[str, Any]) -> bool:
        if self._seen[0] != version:
            self._seen = (version, time.monotonic())
        self._expires = self._seen[1] + float(spec.get("leaseDurationSeconds") or self._times.duration)
        return time.monotonic() >= self._expires

    async def _release(self) -> None:
        """Let the next leader start at once, if that can be done before it may anyway."""
        self._own = None
        try:
            async with asyncio.timeout(self._times.duration):
                lease = await self._client.get(LEASES, self._name, self.namespace)
                if lease["spec"].get("holderIdentity") == self.identity:
                    lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.update(LEASES, lease)
        except Exception as error:
            log.info("lease %s/%s not released: %s", self.namespace, self._name, str(error) or "no answer")
