"""Findings of drivers are collected apart from the work on links, and a silent cluster delays no other."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from agent.drivers.driver import BY_ADDRESSES, Place
from agent.drivers.none_and_external import Nothing
from agent.kube.errors import NotFound, Unreachable
from agent.kube.store import Key
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding
from agent.services.links import findings
from agent.services.links.findings import AWAY, FIRST_SECONDS, FRESH_SECONDS, DriverFindings
from tests.background import background
from tests.waiting import until

KEY = ("shop", "web")


class Named(NamedTuple):
    """Replaces the port to a cluster; drivers use its name only."""

    name: str


class Asking(Nothing):
    """A driver that records which clusters it queries."""

    reason = "MCS"
    asks = True

    def __init__(self, *silent: str) -> None:
        self.asked: list[str] = []
        self.black_holes: set[str] = set()
        self._silent = silent

    async def offered(self, place: Place) -> Finding:
        self.asked.append(place.node)
        if place.node in self.black_holes:
            await asyncio.Event().wait()
        if place.node in self._silent:
            raise Unreachable("no route")
        return Finding("True", PROGRAMMED)

    async def connected(self, place: Place, source: str) -> Finding:
        self.asked.append(f"{place.node} from {source}")
        return Finding("True", CONNECTED, source if self.tells_sources else "all")


class AskingOfEach(Asking):
    """A recording driver whose findings differ by source."""

    tells_sources = True


class AskingByAddresses(Asking):
    """A recording driver that uses addresses of pods."""

    reason = BY_ADDRESSES


class Joined(Asking):
    """A recording driver of a network that clusters have to join."""

    out = ""

    async def joined(self, place: Place) -> Finding | None:
        self.asked.append(f"{place.node} joined")
        return Finding("False", "PeerUnreachable", "down") if place.node == self.out else None


class Told:
    """Services whose links would be requeued."""

    def __init__(self) -> None:
        self.changed: list[Key] = []

    def __call__(self, service: Key, delay: float) -> None:
        self.changed.append(service)


@contextlib.asynccontextmanager
async def at_work(driver: Asking) -> AsyncIterator[tuple[DriverFindings, Told]]:
    told = Told()
    found = DriverFindings({driver.reason: driver}, told)
    async with background(found.run()):
        yield found, told


def place(node: str, service: Key = KEY) -> Place:
    port: Any = Named(node)
    return Place(node, port, service, "u")


async def offered(all: DriverFindings, node: str, service: Key = KEY) -> Finding:
    found = await all.of(service).offered("MCS", place(node, service))
    assert found is not None
    return found


async def answered(all: DriverFindings, node: str, service: Key = KEY) -> Finding:
    """Return the finding, once it is known."""

    async def known() -> Finding | None:
        found = await offered(all, node, service)
        return found if not found.message.endswith("no answer yet") else None

    return await until(known, 5)


async def test_one_answer_counts_for_all_looks_of_a_moment_and_is_renewed_after_it() -> None:
    driver = Asking()
    async with at_work(driver) as (all, told):
        for node in ("us", "eu"):
            assert (await answered(all, node)).status == "True"
        for _ in range(5):
            assert (await offered(all, "us")).status == "True"
        assert driver.asked == ["us", "eu"]
        assert told.changed == [KEY, KEY]
        # The answer was used meanwhile, so the driver is queried again when it expires.
        await asyncio.sleep(FRESH_SECONDS + 0.2)
        assert driver.asked == ["us", "eu", "us", "eu"]
        assert told.changed == [KEY, KEY], "it is the same"
        assert (await offered(all, "us")).status == "True", "what is old counts until there is a new one"
        all.forget_service(KEY)
        assert (await offered(all, "us")).status == "Unknown"


async def test_nothing_is_told_until_those_who_are_asked_first_have_had_their_time() -> None:
    driver = Asking()
    driver.black_holes = {"us"}
    async with at_work(driver) as (all, _):
        first = all.of(KEY)
        await first.offered(driver.reason, place("us"))
        assert first.expected
        await asyncio.sleep(FIRST_SECONDS + 0.1)
        later = all.of(KEY)
        found = await later.offered(driver.reason, place("us"))
        assert found is not None
        assert (found.status, found.reason) == ("Unknown", AWAY)
        assert not later.expected


async def test_silent_clusters_delay_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ANSWER_SECONDS", 60.0)
    driver = Asking()
    driver.black_holes = {f"dead-{number}" for number in range(10)}
    services = [("shop", f"web-{number}") for number in range(20)]
    async with at_work(driver) as (all, _):
        for service in services:
            for node in driver.black_holes:
                await offered(all, node, service)
        await asyncio.sleep(0.1)
        async with asyncio.timeout(5):
            for service in services:
                assert (await answered(all, "eu", service)).status == "True"


async def test_a_cluster_that_gives_no_answer_is_asked_for_no_other_service_for_a_while() -> None:
    driver = Asking("us")
    async with at_work(driver) as (all, _):
        for service in (KEY, ("shop", "api")):
            found = await answered(all, "us", service)
            assert (found.status, found.reason) == ("Unknown", AWAY)
            assert found.message.endswith(": no route")
        assert driver.asked == ["us"]
        all.away(KEY, "us")
        await answered(all, "us")
        assert driver.asked == ["us", "us"]


async def test_an_answer_that_says_no_is_no_silence() -> None:
    class Unserved(Asking):
        async def offered(self, place: Place) -> Finding:
            await super().offered(place)
            raise NotFound(404, "NotFound", "the server could not find the requested resource")

    driver = Unserved()
    async with at_work(driver) as (all, _):
        found = await answered(all, "us")
        assert (found.status, found.reason) == ("Unknown", "Pending")
        await answered(all, "us", ("shop", "api"))
        assert driver.asked == ["us", "us"]


@pytest.mark.parametrize(
    ("driver", "asked", "messages"),
    [
        (Asking(), ["us from eu"], ["all", "all", "all"]),
        (AskingOfEach(), ["us from eu", "us from de"], ["eu", "de", "eu"]),
    ],
)
async def test_a_driver_that_tells_sources_apart_is_asked_of_each(
    driver: Asking, asked: list[str], messages: list[str]
) -> None:
    async with at_work(driver) as (all, _):
        look = all.of(KEY)
        for source in ("eu", "de", "eu"):
            await look.connected(driver.reason, place("us"), source)
        await asyncio.sleep(0.1)
        look = all.of(KEY)
        found = [await look.connected(driver.reason, place("us"), source) for source in ("eu", "de", "eu")]
        assert driver.asked == asked
        assert [each.message for each in found if each is not None] == messages


@pytest.mark.parametrize(("out", "reason"), [("", CONNECTED), ("eu", "PeerUnreachable")])
async def test_those_who_are_called_have_to_be_in_the_network_too(out: str, reason: str) -> None:
    driver = Joined()
    driver.out = out
    async with at_work(driver) as (all, _):
        look = all.of(KEY)
        await look.connected(driver.reason, place("us"), "eu", place("eu"))
        await asyncio.sleep(0.1)
        found = await all.of(KEY).connected(driver.reason, place("us"), "eu", place("eu"))
        assert found is not None
        assert found.reason == reason
        assert sorted(driver.asked) == ["eu joined", "us from eu"]


async def test_who_need_not_ask_answers_at_once() -> None:
    class AtOnce(Asking):
        asks = False

    driver = AtOnce()
    all = DriverFindings({driver.reason: driver}, Told())
    look = all.of(KEY)
    for _ in range(3):
        found = await look.offered(driver.reason, place("us"))
        assert found is not None
        assert found.status == "True"
    assert driver.asked == ["us"], "once in each look"
    assert (await offered(all, "us")).status == "True"
    assert driver.asked == ["us", "us"]


async def test_of_addresses_of_pods_no_driver_is_asked() -> None:
    driver = AskingByAddresses()
    all = DriverFindings({driver.reason: driver}, Told())
    assert await all.of(KEY).connected(driver.reason, place("us"), "eu") is None
    assert driver.asked == []
