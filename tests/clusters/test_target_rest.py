"""Watches of a target that does not answer: they rest, and resume when a probe is answered again."""

import asyncio

import pytest

from agent.api.kinds import SECRETS
from agent.clusters.target import Probing, State
from agent.kube.config import Connection
from tests.clusters.test_target import connection, registry
from tests.kube.relay import Relay
from tests.waiting import until

__all__ = ["connection"]

pytestmark = pytest.mark.cluster

PATIENCE = 0.5
"""Seconds of failed watching after which a target counts as unread."""


async def test_they_resume_at_once_also_after_an_outage_that_made_the_target_unread(
    connection: Connection, namespace: str
) -> None:
    probing = Probing(interval=0.2, timeout=1.0, unread=PATIENCE)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets:
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        secrets = target.informer(SECRETS)
        await until(lambda: target.ready and secrets.synced.is_set())
        relay.cut()
        await until(lambda: target.record.state is State.UNREACHABLE and secrets.error is not None, 30)
        await asyncio.sleep(2 * PATIENCE)
        contacts = secrets.contacts
        relay.mend()
        await until(lambda: target.ready and secrets.contacts > contacts, 15)
