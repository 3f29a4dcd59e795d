"""UDP through two clusters' gateways with the real Envoy, on loopback: passed, refused and ended sessions."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import msgspec
import pytest
import pytest_asyncio

from agent.model.gatewaypeer import TCP, UDP, Called, Offered, Service, health_name, server_name
from hack.lab.sandbox.gateways import GatewayPod
from tests.gateway import lab
from tests.gateway.datagrams import (
    BY_HAND,
    DNS,
    LOCAL,
    NUMBER,
    QUICK_SECONDS,
    REQUESTS,
    Caller,
    Pod,
    caller,
    dns,
    is_taken,
    peer,
    pod,
)
from tests.gateway.lab import SPACE, address, ask, dial, echo, serving
from tests.processes import frozen
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Runs Envoys of two clusters."),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

DRAIN = 2
DATAGRAMS = 200
TCP_LOCAL = 20054


@dataclass
class Pairs:
    a: GatewayPod
    b: GatewayPod
    pod: Pod

    def link(self, *pods: Pod) -> None:
        """Link in which `a` calls the UDP port of the Service `dns` of `b`."""
        self.a.tell([peer(self.b, calls=True)])
        self.b.tell([peer(self.a, offered=True)], [dns(*(each.at for each in pods or (self.pod,)))])

    def name(self, service: str = DNS) -> str:
        return server_name(SPACE, service, NUMBER, self.a.uid, self.b.uid, protocol=UDP)

    async def answers(self, wanted: bytes = b"", seconds: float = QUICK_SECONDS) -> bool:
        """Return whether a pod of this name answers a new client."""
        async with caller(self.a.address) as client:
            return await client.ask(b"hello", seconds) == wanted + b"hello"

    async def refused(self, reason: str, before: int) -> None:
        async def more() -> bool:
            return self.counted(reason) > before

        await until(more, what=f"the refusal is counted: {reason}")

    def by_hand(self) -> int:
        """Return the number of received datagrams that no gateway has sent."""
        return [data for data, _ in self.pod.heard].count(BY_HAND)

    def counted(self, reason: str) -> int:
        return int(self.b.status()["refused"].get(reason, 0))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways() -> AsyncIterator[tuple[GatewayPod, GatewayPod, Pod]]:
    async with (
        GatewayPod("uid-a", address(), drain_seconds=DRAIN) as a,
        GatewayPod("uid-b", address(), drain_seconds=DRAIN) as b,
        pod(b.address) as found,
    ):
        yield a, b, found


@pytest_asyncio.fixture(loop_scope="module")
async def pair(gateways: tuple[GatewayPod, GatewayPod, Pod]) -> Pairs:
    pairs = Pairs(*gateways)
    pairs.pod.heard.clear()
    pairs.link()
    await until(pairs.answers, what="a datagram is answered")
    return pairs


async def silent(client: Caller) -> None:
    """Wait until a persistent client no longer receives an answer."""
    began = time.monotonic()
    await until(lambda: _is(client.ask(b"still there?"), b""), what="nobody answers any more")
    # An idle session stays for a minute after its last datagram.
    assert time.monotonic() - began < DRAIN + 10


async def _is(work: Awaitable[object], wanted: object) -> bool:
    return await work == wanted


async def test_every_datagram_is_answered(pair: Pairs) -> None:
    seconds = []
    async with caller(pair.a.address) as client:
        for number in range(DATAGRAMS):
            said, began = b"%d" % number, time.perf_counter()
            assert await client.ask(said, 5) == said
            seconds.append(time.perf_counter() - began)
    print(f"{DATAGRAMS} of {DATAGRAMS} datagrams answered, p50 {statistics.median(seconds) * 1000:.2f} ms")


@pytest.mark.parametrize("size", [1, 512, 1200, 1472, 1500, 4096, 9000, 60000])
async def test_datagrams_pass_as_they_are_whatever_their_size(pair: Pairs, size: int) -> None:
    said = os.urandom(size)
    async with caller(pair.a.address) as client:
        assert await client.ask(said, 5) == said


async def test_an_answer_goes_to_the_client_that_has_asked(pair: Pairs) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(caller(pair.a.address)) for _ in range(100)]
        for turn in range(3):
            said = [b"%d of %d" % (turn, number) for number in range(len(clients))]
            told = zip(clients, said, strict=True)
            assert await asyncio.gather(*(client.ask(text, 5) for client, text in told)) == said
    assert len({port for data, (_, port) in pair.pod.heard if data.startswith(b"2 of")}) == len(clients)


async def test_more_clients_than_a_connection_has_streams_for_are_answered(pair: Pairs) -> None:
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(caller(pair.a.address)) for _ in range(3000)]
        for part in range(0, len(clients), 100):
            these = clients[part : part + 100]
            assert await asyncio.gather(*(each.ask(b"x", 5) for each in these)) == [b"x"] * len(these)


async def test_one_number_is_one_port_for_tcp_and_another_for_udp(pair: Pairs) -> None:
    async with serving(echo, pair.b.address) as at:
        mine, theirs = peer(pair.b, calls=True), peer(pair.a, offered=True)
        called = (*mine.services, Called(DNS, NUMBER, (TCP_LOCAL,), protocol=TCP))
        offered = (*theirs.offered, Offered(DNS, NUMBER, protocol=TCP))
        pair.a.tell([msgspec.structs.replace(mine, services=called)])
        pair.b.tell(
            [msgspec.structs.replace(theirs, offered=offered)],
            [dns(pair.pod.at), Service(SPACE, DNS, NUMBER, (at,))],
        )
        await until(lambda: _is(ask(pair.a.address, TCP_LOCAL, b"by TCP"), b"by TCP"), what="TCP passes")
        assert await pair.answers(seconds=5)
        assert not [data for data, _ in pair.pod.heard if data == b"by TCP"]


async def test_what_is_not_linked_is_refused_and_counted(pair: Pairs) -> None:
    before = pair.counted("NotLinked")
    another = (Called("another", NUMBER, (LOCAL + 2,), protocol=UDP),)
    pair.a.tell([msgspec.structs.replace(peer(pair.b), services=another)])

    async def refused() -> bool:
        async with caller(pair.a.address, LOCAL + 2) as client:
            assert await client.ask(b"hello") == b""
        return pair.counted("NotLinked") > before

    await until(refused, what="the refusal is counted")


@pytest.mark.parametrize("request_of", ["CONNECT", "websocket", "GET"])
async def test_nothing_but_udp_passes_where_udp_is_linked(pair: Pairs, request_of: str) -> None:
    shown = pair.a.issue()
    assert await is_taken(pair.b, pair.name(), shown, REQUESTS["CONNECT-UDP"])
    await until(lambda: pair.by_hand() == 1, what="the datagram arrives")
    assert not await is_taken(pair.b, pair.name(), shown, REQUESTS[request_of])
    assert pair.by_hand() == 1


async def test_where_udp_is_linked_the_same_port_of_its_pods_is_not_reached_by_tcp(pair: Pairs) -> None:
    host, _, port = pair.pod.at.rpartition(":")
    heard = []

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(5))

    server = await asyncio.start_server(listens, host, int(port))
    async with server:
        plain = server_name(SPACE, DNS, NUMBER, pair.a.uid, pair.b.uid)
        # The last one is Envoy's name for the endpoints.
        for name in (plain, pair.name(), f"x.{pair.name()}", f"{pair.name()}/udp"):
            await dial(pair.b, name, pair.a.issue())
        assert await pair.answers(seconds=5)
    assert heard == []


async def test_where_tcp_is_linked_the_same_port_of_its_pods_is_not_reached_by_udp(pair: Pairs) -> None:
    offered = lab.peer(pair.a, offered=True)
    pair.b.tell([offered], [lab.web(pair.pod.at)])
    name, shown = server_name(SPACE, lab.WEB, 80, pair.a.uid, pair.b.uid), pair.a.issue()
    udp = server_name(SPACE, lab.WEB, 80, pair.a.uid, pair.b.uid, protocol=UDP)
    await until(lambda: _is(pair.answers(), False), what="the old link is gone")
    for each in (name, udp):
        assert not await is_taken(pair.b, each, shown, REQUESTS["CONNECT-UDP"])
    assert pair.by_hand() == 0


async def test_nobody_passes_with_another_certificate_or_without(pair: Pairs) -> None:
    shown = {
        "NoCertificate": None,
        "CertificateRefused": pair.b.issue(pair.a.uid),
        "CertificateOfAnother": pair.a.issue("uid-c"),
    }
    for reason, certificate in shown.items():
        before = pair.counted(reason)
        assert not await is_taken(pair.b, pair.name(), certificate, REQUESTS["CONNECT-UDP"])
        await pair.refused(reason, before)
    assert pair.by_hand() == 0


async def test_a_peer_whose_ca_is_not_trusted_is_not_answered(pair: Pairs) -> None:
    before = pair.counted("CertificateRefused")
    pair.b.tell([peer(pair.a, offered=True, ca=pair.b.ca)], [dns(pair.pod.at)])
    async with caller(pair.a.address) as client:
        await silent(client)
    await pair.refused("CertificateRefused", before)


async def test_another_peer_does_not_reach_what_only_one_may(pair: Pairs) -> None:
    third = GatewayPod("uid-c", address())
    pair.b.tell([peer(pair.a, offered=True), peer(third)], [dns(pair.pod.at)])
    its_own = server_name(SPACE, DNS, NUMBER, third.uid, pair.b.uid, protocol=UDP)
    mine = health_name(SPACE, third.uid, pair.b.uid)
    await until(lambda: _is(dial(pair.b, mine, third.issue()), b"healt"), what="the third is a peer")
    before = pair.counted("NotLinked")
    assert not await is_taken(pair.b, its_own, third.issue(), REQUESTS["CONNECT-UDP"])
    await pair.refused("NotLinked", before)
    assert not await is_taken(pair.b, pair.name(), third.issue(), REQUESTS["CONNECT-UDP"])
    assert await pair.answers(seconds=5)
    assert pair.by_hand() == 0


async def test_sessions_of_a_deleted_peer_end(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        assert await client.ask(b"hello", 5) == b"hello"
        pair.b.tell([])
        await silent(client)


async def test_sessions_of_what_is_linked_no_more_end(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        assert await client.ask(b"hello", 5) == b"hello"
        pair.b.tell([peer(pair.a)], [dns(pair.pod.at)])
        await silent(client)


async def test_a_port_that_stands_for_nothing_any_more_is_silent(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        assert await client.ask(b"hello", 5) == b"hello"
        pair.a.tell([peer(pair.b)])
        await silent(client)


async def source_ports(of: Pod, said: bytes) -> set[int]:
    return {port for data, (_, port) in of.heard if data == said}


async def test_sessions_go_on_while_other_links_and_pods_come_and_links_go(pair: Pairs) -> None:
    async with caller(pair.a.address) as client, pod(pair.b.address, b"second ") as second:
        said = b"the same session"
        assert await client.ask(said, 5) == said
        more, other = peer(pair.a, offered=True), Offered("other", NUMBER, protocol=UDP)
        both = msgspec.structs.replace(more, offered=(*more.offered, other))
        endpoints = dns(pair.pod.at, second.at), Service(SPACE, "other", NUMBER, (pair.pod.at,), protocol=UDP)
        pair.b.tell([both], endpoints)
        name, shown = pair.name("other"), pair.a.issue()
        await until(lambda: is_taken(pair.b, name, shown, REQUESTS["CONNECT-UDP"]), what="the new link works")
        pair.b.tell([more], endpoints[:1])
        await until(lambda: _is(is_taken(pair.b, name, shown, REQUESTS["CONNECT-UDP"]), False), what="and is gone")
        await asyncio.sleep(DRAIN + 1)
        assert await client.ask(said, 5) == said
        assert len(await source_ports(pair.pod, said)) == 1


async def test_sessions_with_a_pod_that_has_gone_are_led_to_another_and_those_with_others_stay_there(
    pair: Pairs,
) -> None:
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        pods = [await enter(pod(pair.b.address, name)) for name in (b"1 ", b"2 ", b"3 ")]
        pair.link(*pods)
        clients = [await enter(caller(pair.a.address)) for _ in range(30)]

        async def by_whom() -> list[bytes]:
            return [(await each.ask(b"?"))[:1] for each in clients]

        await until(lambda: _are(by_whom(), {b"1", b"2", b"3"}), what="all pods answer")
        # Sessions from before all pods were ready have ended.
        before = await by_whom()
        pair.link(*pods[:2])
        await until(lambda: _are(by_whom(), {b"1", b"2"}), what="those that are left answer all")
        await asyncio.sleep(DRAIN + 1)
        after = await by_whom()
        moved = [old for old, new in zip(before, after, strict=True) if old != b"3" and old != new]
        print(f"of {len(clients) - before.count(b'3')} clients of pods that stay {len(moved)} are with another one")
        assert len(moved) <= 5


async def _are(work: Awaitable[list[bytes]], wanted: set[bytes]) -> bool:
    return set(await work) == wanted


async def test_sessions_begin_anew_when_the_peers_envoy_does(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        assert await client.ask(b"hello", 5) == b"hello"
        await pair.b.stop("envoy")
        await silent(client)
        await pair.b.start_envoy()
        await until(lambda: _is(client.ask(b"back"), b"back"), what="the same client is answered again")


async def test_a_session_with_a_silent_peer_ends_and_another_begins_when_it_is_back(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        assert await client.ask(b"hello", 5) == b"hello"
        async with frozen(pair.b.pid()):
            assert await client.ask(b"hello") == b""
        await until(lambda: _is(client.ask(b"back"), b"back"), what="the same client is answered again")


async def test_sessions_go_on_without_the_process_beside_envoy_which_then_takes_up_what_is_there(pair: Pairs) -> None:
    async with caller(pair.a.address) as client:
        said = b"one session"
        for gateway in (pair.a, pair.b):
            await gateway.stop("control")
        assert await client.ask(said, 5) == said
        for gateway in (pair.a, pair.b):
            await gateway.start_control()
        pair.link()
        await asyncio.sleep(DRAIN + 1)
        assert await client.ask(said, 5) == said
        assert len(await source_ports(pair.pod, said)) == 1
