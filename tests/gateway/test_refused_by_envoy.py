"""Status of a gateway while its Envoy rejects a part of its files, or hangs, and its resilience to invalid input."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec.structs import replace

from agent.gateway import loop as control
from agent.gateway.admin import Admin
from agent.gateway.loop import Loop
from agent.model import envoy
from agent.model.envoyparts import Place
from agent.model.envoystart import LIVE_PATH, of_peers
from agent.model.gatewaypeer import Called, health_name
from hack.lab.sandbox.gateways import PORT, GatewayPod
from tests.background import background
from tests.gateway.lab import LOCAL, SPACE, UNUSED, address, ask, dial, echo, peer, serving, web
from tests.processes import frozen
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Runs an Envoy for every case."),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

CRL = "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
CONNECTIONS = 24


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways() -> AsyncIterator[tuple[GatewayPod, GatewayPod, str]]:
    async with (
        GatewayPod("uid-a", address(), drain_seconds=1) as a,
        GatewayPod("uid-b", address(), drain_seconds=1, connections=CONNECTIONS) as b,
        serving(echo, b.address) as endpoint,
    ):
        yield a, b, endpoint


@pytest_asyncio.fixture(loop_scope="module")
async def pair(gateways: tuple[GatewayPod, GatewayPod, str]) -> tuple[GatewayPod, GatewayPod, str]:
    """`a`, which calls the Service `web` of `b`."""
    a, b, endpoint = gateways
    a.tell([peer(b, calls=True)])
    b.tell([peer(a, offered=True)], [web(endpoint)])
    await until(lambda: passes(a), what="what is said comes back")
    return gateways


async def passes(a: GatewayPod) -> bool:
    return await ask(a.address, LOCAL, b"hello") == b"hello"


@contextlib.asynccontextmanager
async def controlled(pod: GatewayPod) -> AsyncIterator[Loop]:
    """Replace the process next to Envoy with this one."""
    await pod.stop("control")
    place = Place(str(pod.directory), PORT, pod.address, f"{pod.address}:19903", f"{pod.address}:8081")
    try:
        async with Admin(str(pod.directory / envoy.ADMIN)) as admin:
            loop = Loop(place, pod.directory / "gateway.json", pod.directory, admin, loopback=True)
            async with background(loop.run(lambda: None)), background(loop.watch(lambda: None)):
                yield loop
    finally:
        await pod.start_control()


async def test_what_is_no_certificate_in_the_ca_of_one_peer_reaches_envoy_never(
    pair: tuple[GatewayPod, GatewayPod, str],
) -> None:
    a, b, endpoint = pair
    third = GatewayPod("uid-c", address())
    b.tell([peer(third, ca=f"said\n{CRL}{third.ca}{CRL}"), peer(a, offered=True)], [web(endpoint)])
    mine = health_name(SPACE, third.uid, b.uid)

    async def admitted() -> bool:
        return await dial(b, mine, third.issue()) == b"healt"

    await until(admitted, what="the peer itself is let in")
    assert b.status()["problems"] == {}
    assert await passes(a)


def without_version(pem: str) -> str:
    """Return a certificate of version 1 with extensions: OpenSSL and cryptography accept it, Envoy does not."""
    body, _ = _value(x509.load_pem_x509_certificate(pem.encode()).public_bytes(Encoding.DER))
    signed, signature = _value(body)
    version = bytes.fromhex("a003020102")
    assert signed.startswith(version)
    made = _sequence(_sequence(signed.removeprefix(version)) + signature)
    return x509.load_der_x509_certificate(made).public_bytes(Encoding.PEM).decode()


def _value(der: bytes) -> tuple[bytes, bytes]:
    """Return the content of a DER sequence and the bytes after it."""
    if der[1] < 0x80:
        return der[2 : 2 + der[1]], der[2 + der[1] :]
    at = 2 + (der[1] & 0x7F)
    end = at + int.from_bytes(der[2:at], "big")
    return der[at:end], der[end:]


def _sequence(content: bytes) -> bytes:
    return b"\x30\x82" + len(content).to_bytes(2, "big") + content


@pytest.mark.parametrize("addressed", [True, False], ids=["called", "not called"])
async def test_one_peer_with_a_certificate_that_envoy_alone_refuses_takes_no_other_with_it(
    pair: tuple[GatewayPod, GatewayPod, str], addressed: bool
) -> None:
    a, b, endpoint = pair
    third = GatewayPod("uid-c", address())
    bad = peer(third, ca=without_version(third.ca))
    key, offered = f"{SPACE}/{third.uid}", peer(a, offered=True)
    b.tell([bad if addressed else replace(bad, addresses=()), offered], [web(endpoint)])
    await until(lambda: "ca: Envoy cannot use" in b.status()["problems"].get(key, ""), what="it is told")
    # Includes one that starts with it, and one that has the right CA first.
    await b.stop("control")
    await b.stop("envoy")
    await b.start_envoy()
    await b.start_control()
    await until(lambda: passes(a), what="what is said comes back")
    b.tell([peer(third), offered], [web(endpoint)])
    await until(lambda: not b.status()["problems"], what="it is in order")
    b.tell([bad, offered], [web(endpoint)])
    await until(lambda: "ca: Envoy cannot use" in b.status()["problems"].get(key, ""), what="it is told again")
    assert b.status()["envoyRefuses"] == {}
    assert await passes(a)


async def test_a_first_peer_with_a_certificate_that_envoy_alone_refuses_is_left_out_too() -> None:
    third, own = GatewayPod("uid-c", address()), address()
    bad = peer(third, ca=without_version(third.ca))
    async with GatewayPod("uid-b", own) as b:
        # Envoy has not loaded the gateway's own certificate before, and accepts the peer's cluster at first.
        b.tell([bad])
        key = f"{SPACE}/{third.uid}"
        await until(lambda: "ca: Envoy cannot use" in b.status()["problems"].get(key, ""), what="it is told")
        await until(lambda: b.status()["envoyRefuses"] == {}, what="the port for peers is open")


async def test_a_peer_that_tells_of_more_cas_than_anybody_has_is_left_out(
    pair: tuple[GatewayPod, GatewayPod, str],
) -> None:
    a, b, endpoint = pair
    third = GatewayPod("uid-c", address())
    b.tell([peer(third, ca=third.ca * 17), peer(a, offered=True)], [web(endpoint)])
    await until(lambda: "ca:" in b.status()["problems"].get(f"{SPACE}/{third.uid}", ""), what="it is told")
    assert await passes(a)


async def test_a_port_that_is_taken_is_not_told_as_listened_at_until_it_is_free(
    pair: tuple[GatewayPod, GatewayPod, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "AGAIN_SECONDS", 1.0)
    a, b, _ = pair
    more = Called("more", 80, (UNUSED,))
    called = peer(b, calls=True)
    both = replace(called, services=(*called.services, more))
    async with controlled(a) as loop:
        key = f"{SPACE}/{b.uid}"
        with socket.socket() as taken:
            taken.bind((a.address, UNUSED))
            taken.listen()
            a.tell([both])
            await until(lambda: "Envoy refuses 1" in loop.trouble(key), what="it is told")
            assert f"such as {UNUSED}, which stands for more: " in loop.trouble(key)
            assert "Address already in use" in loop.trouble(key)
            assert list(a.status()["envoyRefuses"]) == [f"{key}/more/80/{UNUSED}"]
            assert loop.listens(key) == [LOCAL]
            assert loop.problem() is None
            # Everything else continues, and other changes are applied.
            a.tell([peer(b)])
            await until(lambda: not loop.listens(key) and not loop.trouble(key), what="nothing is called")
            a.tell([both])
            await until(lambda: "Envoy refuses 1" in loop.trouble(key), what="it is told again")
        await until(lambda: loop.listens(key) == [LOCAL, UNUSED], what="the port is free")
        assert loop.trouble(key) == ""
        assert a.status()["envoyRefuses"] == {}


async def test_what_envoy_refuses_when_it_starts_is_told_and_tried_again(
    pair: tuple[GatewayPod, GatewayPod, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "AGAIN_SECONDS", 1.0)
    a, b, _ = pair
    async with controlled(a) as loop:
        key = f"{SPACE}/{b.uid}"
        await until(lambda: loop.listens(key) == [LOCAL], what="the port is open")
        await a.stop("envoy")
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            taken.bind((a.address, LOCAL))
            taken.listen()
            await a.start_envoy()
            await until(lambda: "Envoy refuses 1" in loop.trouble(key), what="it is told")
            assert loop.listens(key) == []
        await until(lambda: loop.listens(key) == [LOCAL], what="the port is free")
    await until(lambda: passes(a))


async def test_an_envoy_that_hangs_is_not_called_although_its_files_wait_for_it(
    pair: tuple[GatewayPod, GatewayPod, str],
) -> None:
    a, b, _ = pair
    async with controlled(a) as loop:
        key = f"{SPACE}/{b.uid}"
        await until(lambda: loop.listens(key) == [LOCAL], what="the port is open")
        async with frozen(a.pid()):
            a.tell([peer(b, calls=True), peer(GatewayPod("uid-c", address()))])
            await until(lambda: not loop.listens(key), what="nobody is sent there")
            assert loop.problem() == "Envoy does not answer"
            assert loop.trouble(key) == "its Envoy takes no connections"
        await until(lambda: loop.listens(key) == [LOCAL] and loop.problem() is None, what="it is back")


async def live(pod: GatewayPod, path: str = LIVE_PATH) -> int:
    """Return the HTTP status of Envoy's liveness probe, as the kubelet receives it; 0 without an answer."""
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http,
            http.get(f"http://{pod.address}:8081{path}") as answer,
        ):
            return answer.status
    except (aiohttp.ClientError, TimeoutError):
        return 0


async def test_an_envoy_says_whether_it_is_alive_and_nothing_else(pair: tuple[GatewayPod, GatewayPod, str]) -> None:
    a, _, _ = pair
    assert await live(a) == 200
    for path in ("/", "/config_dump", "/quitquitquit", "/ready/../config_dump"):
        assert await live(a, path) == 404
    async with frozen(a.pid()):
        assert await live(a) == 0

    async def alive() -> bool:
        return await live(a) == 200

    await until(alive)


async def test_strangers_take_only_so_many_connections_and_none_from_pods_of_the_cluster(
    pair: tuple[GatewayPod, GatewayPod, str],
) -> None:
    a, b, endpoint = pair
    # In the reverse direction, too: `b` calls `a`.
    a.tell([peer(b, calls=True, offered=True)], [web(endpoint)])
    b.tell([peer(a, calls=True, offered=True)], [web(endpoint)])
    await until(lambda: passes(b), what="what is said comes back")

    async with contextlib.AsyncExitStack() as stack:
        opened = []
        for _ in range(CONNECTIONS * 2):
            reader, writer = await asyncio.open_connection(b.address, PORT)
            stack.callback(writer.close)
            opened.append(reader)

        async def closed() -> int:
            return sum(reader.at_eof() or reader.exception() is not None for reader in opened)

        await until(lambda: _at_least(closed, CONNECTIONS * 2 - of_peers(CONNECTIONS)), what="the others are closed")
        assert await live(b) == 200
        assert await passes(b)
        # Silent connections are closed after a while, and other clients get through.
        await until(lambda: passes(a), what="peers get through again")


async def _at_least(count: object, wanted: int) -> bool:
    return await count() >= wanted  # type: ignore[operator, no-any-return]
