"""A leader lease for the controllers of a test."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from agent.base.clock import SystemClock
from agent.runtime.lease import LeaderLease, LeaseTimes
from tests.controllers.pair import Pair
from tests.waiting import until

TIMES = LeaseTimes(duration=3.0, renew=2.2, retry=0.2)


@contextlib.asynccontextmanager
async def leading(pair: Pair, identity: str) -> AsyncIterator[LeaderLease]:
    """Hold and renew the lease `leader` in the source."""
    lease = LeaderLease(pair.here, SystemClock(), pair.namespace, "leader", identity, TIMES)
    task = asyncio.create_task(lease.run(asyncio.Event().wait))
    try:
        await until(lambda: lease.leading)
        yield lease
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
