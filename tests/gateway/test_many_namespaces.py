"""Health of gateways that many namespaces share, with two real Envoys."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
import pytest
import pytest_asyncio

from agent.gateway.admin import Admin
from agent.gateway.loop import STATUS
from agent.model import envoy
from agent.model.gatewaypeer import Peer
from hack.lab.sandbox.gateways import GatewayPod
from tests.gateway.lab import LOCAL, SPACE, address, ask, echo, peer, serving, web
from tests.processes import frozen
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Runs Envoys of two clusters."),
    pytest.mark.timeout(180),
    pytest.mark.asyncio(loop_scope="module"),
]

NAMESPACES = 100
WATCHED_SECONDS = 6.0


def everywhere(of: Peer, without: str = "") -> list[Peer]:
    """Return a peer without Services in each namespace."""
    spaces = (f"team-{number:03}" for number in range(NAMESPACES))
    return [msgspec.structs.replace(of, namespace=each, services=(), offered=()) for each in spaces if each != without]


@dataclass
class Pair:
    a: GatewayPod
    b: GatewayPod
    endpoint: str

    def link(self, without: str = "") -> None:
        """Link the clusters in all namespaces; in one of them `b` has no GatewayPeer."""
        self.a.tell([peer(self.b, calls=True), *everywhere(peer(self.b))])
        self.b.tell([peer(self.a, offered=True), *everywhere(peer(self.a), without)], [web(self.endpoint)])

    def reasons(self) -> dict[str, str]:
        """Return what `a` reports of its peers, by namespace."""
        return {key.partition("/")[0]: each["reason"] for key, each in self.a.status()["peers"].items()}

    def all_are(self, reason: str) -> bool:
        found = self.reasons()
        return len(found) == NAMESPACES + 1 and set(found.values()) == {reason}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateways() -> AsyncIterator[Pair]:
    async with (
        GatewayPod("uid-a", address()) as a,
        GatewayPod("uid-b", address()) as b,
        serving(echo, b.address) as endpoint,
    ):
        yield Pair(a, b, endpoint)


@pytest_asyncio.fixture(loop_scope="module")
async def pair(gateways: Pair) -> Pair:
    gateways.link()
    await until(lambda: gateways.all_are("Connected"), what="all namespaces are connected")
    return gateways


async def handshakes(gateway: GatewayPod) -> int:
    async with Admin(str(gateway.directory / envoy.ADMIN)) as admin:
        stats = await admin.stats()
        assert stats is not None
        return stats.counters["listener.gateway.ssl.handshake"]


async def test_handshakes_of_idle_gateways_hardly_grow_with_namespaces(pair: Pair) -> None:
    before, began = await handshakes(pair.b), time.monotonic()
    await asyncio.sleep(WATCHED_SECONDS)
    per_second = (await handshakes(pair.b) - before) / (time.monotonic() - began)
    # A check of each namespace every 3 s would be 34 handshakes a second.
    assert per_second < NAMESPACES / 30 * 2 + 1


async def test_all_namespaces_learn_within_twelve_seconds_that_a_peer_is_silent_and_that_it_is_back(
    pair: Pair,
) -> None:
    async with frozen(pair.b.pid()):
        await until(lambda: pair.all_are("PeerUnreachable"), seconds=20, what="no namespace is connected")
    await until(lambda: pair.all_are("Connected"), what="all namespaces are connected again")


async def test_a_namespace_that_a_peer_no_longer_admits_is_reported_alone(pair: Pair) -> None:
    pair.link(without="team-007")
    await until(lambda: pair.reasons().get("team-007") == "NotAdmitted", seconds=60, what="it is reported")
    assert {space for space, reason in pair.reasons().items() if reason != "Connected"} == {"team-007"}
    assert await ask(pair.a.address, LOCAL, b"hello") == b"hello"


async def test_a_peer_of_an_older_version_is_connected_without_the_shared_check(pair: Pair) -> None:
    path = pair.b.directory / envoy.LISTENERS
    await pair.b.stop("control")
    # Older versions lack this filter chain.
    listed = msgspec.json.decode(path.read_bytes())["resources"]
    (ingress,) = [each for each in listed if each["name"] == "gateway"]
    ingress["filter_chains"] = [each for each in ingress["filter_chains"] if each["name"] != "alive"]
    pair.b._write(envoy.LISTENERS, msgspec.json.encode({"version_info": "older", "resources": listed}))
    try:
        for name in ("control", "envoy"):
            await pair.a.stop(name)
        (pair.a.directory / STATUS).unlink()
        await pair.a.start_control()
        await pair.a.start_envoy()
        await until(lambda: pair.all_are("Connected"), what="admission is enough")
        assert {each["admissions"] for each in pair.a.status()["peers"].values()} == {None}
        assert await ask(pair.a.address, LOCAL, b"hello") == b"hello"
    finally:
        await pair.b.start_control()


async def test_of_two_addresses_the_silent_one_is_avoided(pair: Pair) -> None:
    async with GatewayPod("uid-b", next(each for each in iter(address, "") if each not in _used(pair))) as second:
        second.bundle = pair.b.bundle
        second.show(pair.b.issue())
        second.tell([peer(pair.a, offered=True)], [web(pair.endpoint)])
        pair.b.tell([peer(pair.a, offered=True)], [web(pair.endpoint)])
        both = msgspec.structs.replace(peer(pair.b, calls=True), addresses=(pair.b.at, second.at))
        pair.a.tell([both])
        key = f"{SPACE}/{pair.b.uid}"
        await until(lambda: pair.a.status()["peers"].get(key, {}).get("healthy") == 2, what="both addresses answer")
        async with frozen(second.pid()):
            await until(lambda: pair.a.status()["peers"][key]["healthy"] == 1, seconds=20, what="one is silent")
            await until(lambda: _is_quick(pair), what="the silent address is avoided")


def _used(pair: Pair) -> tuple[str, str]:
    return pair.a.address, pair.b.address


async def _is_quick(pair: Pair) -> bool:
    """Return whether six connections in a row pass without waiting for the silent address."""
    began = time.monotonic()
    answers = [await ask(pair.a.address, LOCAL, b"hello") for _ in range(6)]
    assert set(answers) == {b"hello"}
    return time.monotonic() - began < 2
