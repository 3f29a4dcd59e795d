"""Lease renewals with a single request, and the cases in which the lease is read first."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from agent.api.kinds import Kind
from agent.base.clock import SystemClock
from agent.kube.errors import NotFound
from agent.runtime.lease import LeaderLease, LeaseTimes
from tests.waiting import until

TIMES = LeaseTimes(duration=2.0, renew=1.4, retry=0.02)


class Jumping:
    """Wall clock that advances while the machine is suspended."""

    ahead = timedelta()

    def now(self) -> datetime:
        return SystemClock().now() + self.ahead


class OneLease:
    """API client with a single lease that records its requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self._lease: dict[str, Any] | None = None

    async def get(self, kind: Kind, name: str, namespace: str) -> dict[str, Any]:
        self.asked.append("get")
        if self._lease is None:
            raise NotFound(404, "NotFound", name)
        return {**self._lease, "spec": dict(self._lease["spec"])}

    async def create_raw(self, kind: Kind, lease: dict[str, Any]) -> None:
        self._lease = lease

    async def update_raw(self, kind: Kind, lease: dict[str, Any]) -> None:
        self.asked.append("update")
        self._lease = lease

    async def patch_raw(self, kind: Kind, name: str, body: list[dict[str, Any]], namespace: str, *, style: str) -> None:
        self.asked.append("patch")
        assert self._lease is not None
        for each in body:
            field = each["path"].removeprefix("/spec/")
            if each["op"] == "test":
                assert self._lease["spec"][field] == each["value"]
            else:
                self._lease["spec"][field] = each["value"]


async def test_a_leader_that_is_resumed_together_with_its_cluster_learns_that_nobody_led() -> None:
    """A machine may return to a snapshot together with its cluster: the lease is unchanged."""
    clock, server = Jumping(), OneLease()
    client: Any = server
    lease = LeaderLease(client, clock, "team", "lease", "one", TIMES)

    async def work() -> None:
        await asyncio.Event().wait()

    task = asyncio.create_task(lease.run(work))
    try:
        await until(lambda: server.asked[-3:] == ["patch"] * 3)
        assert lease.absences == ()
        clock.ahead = timedelta(hours=1)
        await until(lambda: bool(lease.absences))
        assert lease.leading
        assert lease.absences[0].ended - lease.absences[0].began > timedelta(minutes=59)
        await until(lambda: server.asked[-3:] == ["patch"] * 3)
        assert len(lease.absences) == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
