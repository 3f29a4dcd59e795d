"""Two clusters' gateways with the real Envoy, on loopback: passed, refused and ended connections."""

import asyncio
import hashlib
import os
import re
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from agent.base import certificates
from agent.model import envoy
from agent.model.gatewaypeer import health_name, identity, server_name
from hack.lab.sandbox.gateways import PORT, GatewayPod, program
from tests.gateway.lab import LOCAL, SPACE, UNUSED, WEB, address, ask, dial, echo, peer, serving, stranger, web
from tests.processes import frozen
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Runs Envoys of two clusters."),
    pytest.mark.timeout(120),
    pytest.mark.asyncio(loop_scope="module"),
]

MIB = 1 << 20
DRAIN = 2
"""Drain time in seconds, a quarter of that in clusters, since tests wait for it."""


@dataclass
class Pairs:
    a: GatewayPod
    b: GatewayPod
    endpoint: str

    def link(self) -> None:
        """Link in which `a` calls the Service `web` of `b`."""
        self.a.tell([peer(self.b, calls=True)])
        self.b.tell([peer(self.a, offered=True)], [web(self.endpoint)])

    async def linked(self) -> None:
        """Restore the state at the beginning of each test."""
        self.link()
        await until(lambda: self.a.is_ready(f"{SPACE}/{self.b.uid}"), what="a's gateway reaches b's")
        await until(self.passes, what="what is said comes back")

    async def passes(self) -> bool:
        return await ask(self.a.address, LOCAL, b"hello") == b"hello"

    async def refused(self, reason: str) -> int:
        return int(self.b.status()["refused"].get(reason, 0))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways() -> AsyncIterator[tuple[GatewayPod, GatewayPod, str]]:
    async with (
        GatewayPod("uid-a", address(), drain_seconds=DRAIN) as a,
        GatewayPod("uid-b", address(), drain_seconds=DRAIN) as b,
        serving(echo, b.address) as endpoint,
    ):
        yield a, b, endpoint


@pytest_asyncio.fixture(loop_scope="module")
async def pair(gateways: tuple[GatewayPod, GatewayPod, str]) -> Pairs:
    pairs = Pairs(*gateways)
    await pairs.linked()
    return pairs


async def test_envoy_starts_with_what_is_prepared(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.gateway", "--tuning=prepare=true", f"--tuning=directory={tmp_path}")
    )
    assert await process.wait() == 0
    arguments = envoy.arguments(str(tmp_path))
    config = await asyncio.create_subprocess_exec(program(), *arguments, "--mode", "validate")
    assert await config.wait() == 0
    assert set(os.listdir(tmp_path)) == {envoy.BOOTSTRAP, envoy.CLUSTERS, envoy.LISTENERS}


async def counted(pair: Pairs, reason: str, before: int) -> None:
    async def more() -> bool:
        return await pair.refused(reason) > before

    await until(more, what=f"the refusal is counted: {reason}")


async def send(host: str, port: int, mib: int) -> tuple[str, str]:
    """Send a stream. Return the digests of the sent and the received bytes."""
    reader, writer = await asyncio.open_connection(host, port)
    said, heard = hashlib.sha256(), hashlib.sha256()

    async def say() -> None:
        for _ in range(mib):
            chunk = os.urandom(4096) * (MIB // 4096)
            said.update(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()

    async def hear() -> None:
        while data := await reader.read(MIB):
            heard.update(data)

    await asyncio.gather(say(), hear())
    writer.close()
    return said.hexdigest(), heard.hexdigest()


async def test_every_byte_passes_both_ways_until_both_ends_have_said_all(pair: Pairs) -> None:
    # The echo ends only once it has received the end: half-closed connections pass.
    said, heard = await send(pair.a.address, LOCAL, 48)
    assert said == heard


async def measured(gateway: GatewayPod, peer: str) -> Counter[tuple[str, str]]:
    """Return the gateway's traffic metrics by name and direction."""
    async with aiohttp.ClientSession() as http, http.get(f"http://{gateway.address}:8080/metrics") as answer:
        text = await answer.text()
    found = re.findall(r'^flotilla_gateway_(\w+)_total{direction="(\w+)",peer="(\S+)"} (\S+)$', text, re.M)
    of_peer = (each for each in found if each[2] == f"{SPACE}/{peer}")
    return Counter({(what, direction): int(float(value)) for what, direction, _, value in of_peer})


async def test_what_passes_is_measured_by_peer_and_direction_on_both_sides(pair: Pairs) -> None:
    await send(pair.a.address, LOCAL, 1)

    async def counted() -> bool:
        a, b = await measured(pair.a, pair.b.uid), await measured(pair.b, pair.a.uid)
        last[:] = a, b
        passed = all(
            min(each) >= MIB and max(each) - min(each) < 1000
            for each in ((a["bytes", "out"], b["bytes", "in"]), (a["bytes", "in"], b["bytes", "out"]))
        )
        # Health checks are connections, too.
        return passed and 1 <= a["connections", "out"] <= b["connections", "in"] and not b["connections", "out"]

    last: list[object] = []
    try:
        await until(counted, what="both have counted the same")
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None


@pytest.mark.seldom
@pytest.mark.timeout(1800)
async def test_ten_gibibytes_pass_without_a_wrong_byte(pair: Pairs) -> None:
    async def digests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        found = hashlib.sha256()
        while data := await reader.read(MIB):
            found.update(data)
        writer.write(found.hexdigest().encode())
        await writer.drain()

    async with serving(digests, pair.b.address) as endpoint:
        pair.b.tell([peer(pair.a, offered=True)], [web(endpoint)])
        empty = hashlib.sha256().hexdigest().encode()
        await until(lambda: _is(ask(pair.a.address, LOCAL, b""), empty), what="the new pod answers")
        reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
        said = hashlib.sha256()
        for _ in range(10 * 1024):
            chunk = os.urandom(4096) * (MIB // 4096)
            said.update(chunk)
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()
        assert (await reader.read()).decode() == said.hexdigest()
        writer.close()


async def test_a_server_that_has_said_all_may_still_be_spoken_to(pair: Pairs) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def ends_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"that is all")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with serving(ends_first, pair.b.address) as endpoint:
        pair.b.tell([peer(pair.a, offered=True)], [web(endpoint)])

        # Until b's Envoy has the new endpoint, the old one waits for the client to send.
        await until(lambda: talked(pair.a.address), what="the client speaks after the server's end")
        assert await heard == b"and now me"


async def talked(host: str) -> bool:
    """Return whether the server finishes first; if so, send data afterwards."""
    reader, writer = await asyncio.open_connection(host, LOCAL)
    try:
        async with asyncio.timeout(1):
            ended = await reader.read() == b"that is all"
        if ended:
            writer.write(b"and now me")
            writer.write_eof()
            await writer.drain()
        return ended
    except TimeoutError:
        return False
    finally:
        writer.close()


async def test_what_is_told_again_is_written_not_at_all(pair: Pairs) -> None:
    files = [pair.a.directory / name for name in ("clusters.json", "listeners.json", "bootstrap.json")]
    before = [each.stat().st_mtime_ns for each in files]
    pair.a.tell([peer(pair.b, calls=True)])
    await asyncio.sleep(0.6)
    assert [each.stat().st_mtime_ns for each in files] == before


async def test_connections_go_on_while_other_links_come_and_go(pair: Pairs) -> None:
    reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
    writer.write(b"1")
    assert await reader.readexactly(1) == b"1"
    more = web(pair.endpoint), *(type(web())(SPACE, f"other-{n}", 80, (pair.endpoint,)) for n in range(3))
    offered = peer(pair.a, offered=True)
    offers = (*offered.offered, *(type(offered.offered[0])(f"other-{n}", 80) for n in range(3)))
    pair.b.tell([type(offered)(**_fields(offered) | {"offered": offers})], more)
    name = server_name(SPACE, "other-2", 80, pair.a.uid, pair.b.uid)
    await until(lambda: _is(dial(pair.b, name, pair.a.issue()), b"hello"), what="the new link works")
    pair.link()
    await until(lambda: _is(dial(pair.b, name, pair.a.issue()), b""), what="and is gone")
    await asyncio.sleep(DRAIN + 1)
    writer.write(b"2")
    assert await reader.readexactly(1) == b"2"
    writer.close()


def _fields(struct: object) -> dict[str, object]:
    return {field: getattr(struct, field) for field in struct.__struct_fields__}  # type: ignore[attr-defined]


async def _is(work: object, wanted: bytes) -> bool:
    return await work == wanted  # type: ignore[misc]


async def test_the_right_certificate_and_name_pass_even_from_elsewhere(pair: Pairs) -> None:
    name = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid)
    assert await dial(pair.b, name, pair.a.issue()) == b"hello"


async def test_what_is_not_linked_is_refused_and_counted(pair: Pairs) -> None:
    before = await pair.refused("NotLinked")
    name = server_name(SPACE, "db", 5432, pair.a.uid, pair.b.uid)
    assert await dial(pair.b, name, pair.a.issue()) == b""
    await counted(pair, "NotLinked", before)


async def test_a_certificate_of_another_ca_is_refused_and_counted(pair: Pairs) -> None:
    before = await pair.refused("CertificateRefused")
    name = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid)
    # b's own CA signs it, for a's name.
    assert await dial(pair.b, name, pair.b.issue(pair.a.uid)) == b""
    await counted(pair, "CertificateRefused", before)


async def test_a_name_of_another_cluster_by_the_right_ca_is_refused_and_counted(pair: Pairs) -> None:
    before = await pair.refused("CertificateOfAnother")
    name = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid)
    assert await dial(pair.b, name, pair.a.issue("uid-c")) == b""
    await counted(pair, "CertificateOfAnother", before)


async def test_a_certificate_that_has_expired_is_refused_and_counted(pair: Pairs) -> None:
    before = await pair.refused("CertificateRefused")
    name, then = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid), datetime.now(UTC) - timedelta(days=2)
    expired = certificates.issue_identity(pair.a.bundle.ca, (identity(pair.a.uid),), then, timedelta(days=1))
    assert await dial(pair.b, name, expired) == b""
    await counted(pair, "CertificateRefused", before)


async def test_older_tls_is_refused(pair: Pairs) -> None:
    name = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid)
    old = stranger(pair.a.issue(), version=ssl.TLSVersion.TLSv1_2)
    assert await ask(pair.b.address, PORT, b"hello", old, name) == b""


async def test_nobody_passes_without_a_certificate(pair: Pairs) -> None:
    before = await pair.refused("NoCertificate")
    assert await dial(pair.b, server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid), None) == b""
    await counted(pair, "NoCertificate", before)


async def test_no_pod_hears_of_whoever_shows_no_certificate_or_a_wrong_one(pair: Pairs) -> None:
    heard = []

    async def listens(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(5))
        writer.write(heard[-1])
        await writer.drain()

    name = server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid)
    async with serving(listens, pair.b.address) as endpoint:
        pair.b.tell([peer(pair.a, offered=True)], [web(endpoint)])

        async def called() -> bool:
            return await dial(pair.b, name, pair.a.issue()) == b"hello" and bool(heard)

        await until(called, what="the pod is called")
        before = len(heard)
        for shown in (None, pair.b.issue(pair.a.uid), pair.a.issue("uid-c")):
            assert await dial(pair.b, name, shown) == b""
        assert await pair.passes()
    assert heard[before:] == [b"hello"]


async def test_a_third_cluster_is_refused_and_counted(pair: Pairs) -> None:
    before = await pair.refused("UnknownPeer")
    name = server_name(SPACE, WEB, 80, "uid-c", pair.b.uid)
    assert await dial(pair.b, name, pair.a.issue("uid-c")) == b""
    await counted(pair, "UnknownPeer", before)


async def test_a_third_cluster_that_is_a_peer_does_not_reach_what_only_another_may(pair: Pairs) -> None:
    before = await pair.refused("NotLinked")
    third = GatewayPod("uid-c", address())
    pair.b.tell([peer(pair.a, offered=True), peer(third)], [web(pair.endpoint)])
    mine = health_name(SPACE, third.uid, pair.b.uid)
    await until(lambda: _is(dial(pair.b, mine, third.issue()), b"healt"), what="the third is a peer")
    assert await dial(pair.b, server_name(SPACE, WEB, 80, third.uid, pair.b.uid), third.issue()) == b""
    await counted(pair, "NotLinked", before)
    assert await dial(pair.b, server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid), third.issue()) == b""


@pytest.mark.parametrize("others", [(), ("uid-c",)], ids=["of one", "of two"])
async def test_a_deleted_peer_is_refused_and_counted_and_its_connections_end(
    pair: Pairs, others: tuple[str, ...]
) -> None:
    left = [peer(GatewayPod(each, address())) for each in others]
    pair.b.tell([*left, peer(pair.a, offered=True)], [web(pair.endpoint)])
    await pair.passes()
    reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
    writer.write(b"1")
    assert await reader.readexactly(1) == b"1"
    before = await pair.refused("UnknownPeer")
    pair.b.tell(left, [web(pair.endpoint)])
    assert await reader.read() == b""
    writer.close()
    assert await dial(pair.b, server_name(SPACE, WEB, 80, pair.a.uid, pair.b.uid), pair.a.issue()) == b""
    await counted(pair, "UnknownPeer", before)


async def test_a_port_that_stands_for_nothing_any_more_is_closed_and_its_connections_end(pair: Pairs) -> None:
    reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
    writer.write(b"1")
    assert await reader.readexactly(1) == b"1"
    pair.a.tell([peer(pair.b)])
    assert await reader.read() == b""
    writer.close()
    assert await ask(pair.a.address, LOCAL, b"hello") == b""
    assert await ask(pair.a.address, UNUSED, b"hello") == b""


async def test_a_peer_that_trusts_another_ca_of_ours_is_told_as_not_admitting_us(pair: Pairs) -> None:
    pair.b.tell([peer(pair.a, offered=True, ca=pair.b.ca)], [web(pair.endpoint)])
    key = f"{SPACE}/{pair.b.uid}"
    await until(lambda: pair.a.status()["peers"][key]["reason"] == "NotAdmitted", what="a tells why")


async def test_a_peer_that_shows_another_cas_certificate_is_told(pair: Pairs) -> None:
    pair.a.tell([peer(pair.b, calls=True, ca=pair.a.ca)])
    key = f"{SPACE}/{pair.b.uid}"
    await until(lambda: pair.a.status()["peers"][key]["reason"] == "CertificateRefused", what="a tells why")
    assert await ask(pair.a.address, LOCAL, b"hello") == b""


async def test_a_silent_peer_is_noticed_and_taken_again_when_it_is_back(pair: Pairs) -> None:
    async with frozen(pair.b.pid()):
        key = f"{SPACE}/{pair.b.uid}"
        await until(lambda: not pair.a.is_ready(key), what="a notices that b is silent")
        assert pair.a.status()["peers"][key]["reason"] == "PeerUnreachable"
        assert await ask(pair.a.address, LOCAL, b"hello") == b""
    await pair.linked()


async def test_envoy_goes_on_without_the_process_beside_it_which_then_takes_up_what_is_there(pair: Pairs) -> None:
    reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
    for gateway in (pair.a, pair.b):
        await gateway.stop("control")
    assert await pair.passes()
    for gateway in (pair.a, pair.b):
        await gateway.start_control()
    pair.b.tell([peer(pair.a, offered=True)], [web("127.0.0.1:9", pair.endpoint)])
    await pair.linked()
    writer.write(b"1")
    assert await reader.readexactly(1) == b"1"
    writer.close()


async def test_envoy_starts_again_with_what_there_was(pair: Pairs) -> None:
    await pair.b.stop("envoy")
    await pair.b.start_envoy()
    await pair.linked()


async def test_a_new_certificate_is_shown_without_ending_connections(pair: Pairs) -> None:
    reader, writer = await asyncio.open_connection(pair.a.address, LOCAL)
    writer.write(b"1")
    assert await reader.readexactly(1) == b"1"
    pair.b.show(pair.b.issue())
    pair.a.show(pair.a.issue())
    await asyncio.sleep(1)
    assert await pair.passes()
    writer.write(b"2")
    assert await reader.readexactly(1) == b"2"
    writer.close()


async def test_one_peer_whose_ca_cannot_be_read_takes_no_other_with_it(pair: Pairs) -> None:
    broken = peer(pair.a, name="broken", ca="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    third = type(broken)(**_fields(broken) | {"uid": "uid-c"})
    pair.b.tell([third, peer(pair.a, offered=True)], [web(pair.endpoint)])
    await until(lambda: "ca:" in pair.b.status()["problems"].get(f"{SPACE}/broken", ""), what="it is told")
    assert await pair.passes()


async def test_with_the_drain_time_of_clusters_connections_of_a_deleted_peer_have_ended_after_ten_seconds(
    pair: Pairs,
) -> None:
    caller = GatewayPod("uid-c", address())
    free = next(each for each in iter(address, "") if each not in (pair.a.address, pair.b.address))
    async with GatewayPod("uid-d", free) as called:
        called.tell([peer(caller, offered=True)], [web(pair.endpoint)])
        name = server_name(SPACE, WEB, 80, caller.uid, called.uid)
        await until(lambda: _is(dial(called, name, caller.issue()), b"hello"), what="the peer is let in")
        reader, writer = await asyncio.open_connection(
            called.address, PORT, ssl=stranger(caller.issue()), server_hostname=name
        )
        writer.write(b"1")
        assert await reader.readexactly(1) == b"1"
        called.tell([], [web(pair.endpoint)])
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
