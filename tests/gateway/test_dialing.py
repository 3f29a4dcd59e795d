"""Findings of `flotilla doctor` about real gateways that it calls, and the side that it blames."""

import asyncio
import socket
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from agent.base import certificates
from agent.base.certificates import Pair
from agent.cli.checks.dialing import Dialer
from agent.cli.checks.view import Verdict
from agent.model.gatewaypeer import health_name, identity
from hack.lab.sandbox.gateways import GatewayPod
from tests.gateway.lab import SPACE, address, peer
from tests.waiting import until

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

OTHER = "uid-other"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair() -> AsyncIterator[tuple[GatewayPod, GatewayPod]]:
    async with GatewayPod("uid-a", address()) as a, GatewayPod("uid-b", address()) as b:
        a.tell([peer(b)])
        b.tell([peer(a)])
        await until(lambda: a.is_ready(f"{SPACE}/{b.uid}"), what="a's gateway reaches b's")
        yield a, b


class Caller:
    """Client that calls `b` as the gateways of `a` do, with optional differences."""

    def __init__(self, a: GatewayPod, b: GatewayPod) -> None:
        self.a, self.b = a, b

    async def hears(
        self, *, own: Pair | None, ca: str = "", uid: str = "", space: str = SPACE, later: timedelta = timedelta()
    ) -> tuple[Verdict, str]:
        dialer = Dialer(own, datetime.now(UTC) + later)
        name = health_name(space, self.a.uid, self.b.uid)
        heard = await dialer.call(self.b.at, name, uid or self.b.uid, ca or self.b.ca)
        return heard.verdict, heard.detail


async def test_it_is_said_which_side_refuses(pair: tuple[GatewayPod, GatewayPod]) -> None:
    a, b = pair
    caller, serving = Caller(a, b), a.bundle.serving
    assert await caller.hears(own=serving) == (Verdict.ADMITTED, "")
    assert (await caller.hears(own=None))[0] is Verdict.UNASKED

    # This side refuses.
    assert (await caller.hears(own=serving, ca=a.ca))[0] is Verdict.OTHER_CA
    assert (await caller.hears(own=serving, ca="none"))[0] is Verdict.OTHER_CA
    assert await caller.hears(own=serving, uid=OTHER) == (Verdict.OTHER_CLUSTER, f"it is for {identity(b.uid)}")
    verdict, detail = await caller.hears(own=serving, later=timedelta(days=400))
    assert (verdict, detail[:12]) == (Verdict.EXPIRED, "it ended at ")

    # The other side refuses: a server name of another namespace, a certificate of another CA or cluster, an expired
    # one.
    assert (await caller.hears(own=serving, space="other"))[0] is Verdict.NOT_LINKED
    now, life = datetime.now(UTC), timedelta(days=1)
    strangers = certificates.issue_identity(certificates.authority("x", now, life), (identity(a.uid),), now, life)
    others = certificates.issue_identity(a.bundle.ca, (identity(OTHER),), now, life)
    ended = certificates.issue_identity(a.bundle.ca, (identity(a.uid),), now - 3 * life, life)
    for shown in (strangers, others, ended):
        assert (await caller.hears(own=shown))[0] is Verdict.NOT_ADMITTED


async def test_what_is_no_gateway_or_does_not_answer_is_told_apart(pair: tuple[GatewayPod, GatewayPod]) -> None:
    host, plain = address(), list[str]()

    async def says_hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        plain.append("called")
        writer.write(b"hello, this is no TLS\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(says_hello, host, 0)
    with socket.create_server((host, 0)) as free:
        nobody = f"{host}:{free.getsockname()[1]}"
    dialer = Dialer(None, datetime.now(UTC))
    async with server:
        found = await dialer.call(f"{host}:{server.sockets[0].getsockname()[1]}", "x", "u", pair[0].ca)
        assert found.verdict is Verdict.NO_TLS
    found = await dialer.call(nobody, "x", "u", pair[0].ca)
    assert found.verdict is Verdict.UNREACHABLE
    assert "refused" in found.detail.lower()
