"""The Lease of leader election as an API object: renewal, take-over, release.

The Lease records intervals without a leader: see `agent.base.leaderless_intervals`.
"""

import logging
import math
import time
from collections.abc import Awaitable
from typing import Any

from agent.api import names
from agent.api.kinds import LEASES
from agent.base import leaderless_intervals
from agent.base.clock import Clock, micro_stamp
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from agent.runtime.renewals import Moment, Renewals, mark, mark_of, renewal

log = logging.getLogger(__name__)


class LeaseRecord:
    """Reads and writes of one Lease by one candidate.

    :param duration: seconds that other candidates wait after a renewal
    :param renew: seconds after a renewal in which the lease is certainly ours
    """

    def __init__(
        self, client: Client, clock: Clock, namespace: str, name: str, identity: str, *, duration: float, renew: float
    ) -> None:
        self.absences: tuple[leaderless_intervals.Absence, ...] = ()
        """Intervals without a leader, from the last read of the lease."""
        self.expires = 0.0
        """When another's lease expires unless it is renewed, by the monotonic clock."""
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._duration = duration
        self._renew_seconds = renew
        self._seen: tuple[str, float] = ("", 0.0)
        """Version of another candidate's lease, and the time when it was first seen."""
        self.renewals = self._none()

    def is_fresh(self, moment: Moment) -> bool:
        """Return whether a lease that was not renewed before a moment is ours, by either clock.

        The monotonic clock stands still while a machine is paused, and the time of day may be set back.
        """
        past = time.monotonic() - moment.monotonic, (self._clock.now() - moment.day).total_seconds()
        return max(past) < self._renew_seconds

    async def take(self) -> bool | None:
        """Renew or take the lease. Return whether it is ours now, None if that is not known yet."""
        return await self._renew() or await self._read_and_take()

    def forget(self) -> None:
        """Forget all renewals: the lease is given up."""
        self.renewals = self._none()

    async def release(self) -> None:
        """Let the next leader start at once."""
        lease = await self._client.get(LEASES, self._name, self._namespace)
        if lease["spec"].get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            await self._client.update_raw(LEASES, lease)

    def _none(self) -> Renewals:
        return Renewals(Moment(-math.inf, self._clock.now()))

    async def _renew(self) -> bool:
        """Renew by one request, if no other client has changed the lease: an API server may take seconds for each.

        If the last renewal is too old, as after a machine was suspended, return False: the absence has to be recorded.
        """
        base = self.renewals.tip
        if not base.startswith(mark(self._identity, "")) or not self.is_fresh(self.renewals.latest):
            return False
        spec = self._held_now()
        body = renewal(self._identity, base, spec["renewTime"], spec["leaseDurationSeconds"])
        try:
            await self._sending(spec, self._client.patch_raw(LEASES, self._name, body, self._namespace, style="json"))
        except (Conflict, NotFound, Invalid, Forbidden):
            # Forbidden: the role of an older chart lets leaders update the lease, and not patch it.
            return False
        return True

    async def _read_and_take(self) -> bool | None:
        asked, waiting = self._now(), self.renewals.pending
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            if waiting and self.renewals.seen("", asked):
                return None
            return await self._make()
        current = lease.get("spec") or {}
        if waiting and self.renewals.seen(mark_of(current), asked):
            return None
        holder, change = current.get("holderIdentity") or "", dict[str, Any]()
        if holder != self._identity:
            if holder and not self._expired(lease["metadata"]["resourceVersion"], current):
                return False
            change = {
                "acquireTime": micro_stamp(self._clock.now()),
                "leaseTransitions": int(current.get("leaseTransitions") or 0) + 1,
            }
        self._note_absence(lease, current)
        self.renewals.rebase(mark_of(current))
        held = self._held_now()
        lease["spec"] = current | held | change
        try:
            await self._sending(held, self._client.update_raw(LEASES, lease))
        except Conflict:
            return None
        return True

    async def _make(self) -> bool:
        held = self._held_now()
        change = {"acquireTime": held["renewTime"], "leaseTransitions": 0}
        lease = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": held | change,
        }
        self.renewals.rebase("")
        try:
            await self._sending(held, self._client.create_raw(LEASES, lease))
        except AlreadyExists:
            return False
        return True

    async def _sending(self, held: dict[str, Any], request: Awaitable[object]) -> None:
        """Send a write of the lease and record its outcome. `held` is the spec after it, from `_held_now`."""
        new = mark_of(held)
        self.renewals.sent(new, self._now())
        try:
            await request
        except BaseException:
            self.renewals.failed(new)
            raise
        self.renewals.written(new)

    def _now(self) -> Moment:
        return Moment(time.monotonic(), self._clock.now())

    def _held_now(self) -> dict[str, Any]:
        """Return the spec of a lease that is ours from now on, the time of sending."""
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._duration)),
            "renewTime": micro_stamp(self._clock.now()),
        }

    def _note_absence(self, lease: dict[str, Any], found: dict[str, Any]) -> None:
        """Also one's own: a leader whose lease is older than it left it is forgotten by a restored etcd."""
        metadata = lease["metadata"]
        known = leaderless_intervals.read((metadata.get("annotations") or {}).get(names.ANNOTATION_ABSENCES, ""))
        renewed, now = str(found.get("renewTime") or ""), self._clock.now()
        self.absences = leaderless_intervals.noted(known, renewed, self._duration, now)
        if self.absences != known:
            log.info("nobody has led from %s to now, as lease %s/%s says", renewed, self._namespace, self._name)
            metadata["annotations"] = (metadata.get("annotations") or {}) | {
                names.ANNOTATION_ABSENCES: leaderless_intervals.write(self.absences)
            }

    def _expired(self, version: str, spec: dict[str, Any]) -> bool:
        if self._seen[0] != version:
            self._seen = (version, time.monotonic())
        self.expires = self._seen[1] + float(spec.get("leaseDurationSeconds") or self._duration)
        return time.monotonic() >= self.expires
