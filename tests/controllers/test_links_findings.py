"""How often clusters are asked what became of endpoints."""

import asyncio
from typing import Any, NamedTuple

import pytest

from agent.controllers.links.findings import FRESH_SECONDS, DriverFindings
from agent.drivers.driver import BY_ADDRESSES, Place
from agent.drivers.nothing import Nothing
from agent.kube.errors import Unreachable
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding

KEY = ("shop", "web")


class Named(NamedTuple):
    """Stands for the port to a cluster, of which nothing but its name is asked."""

    name: str


class Asking(Nothing):
    """Counts how often it is asked of which cluster."""

    reason = "MCS"

    def __init__(self, *silent: str) -> None:
        self.asked: list[str] = []
        self._silent = silent

    async def offered(self, place: Place) -> Finding:
        self.asked.append(place.node)
        if place.node in self._silent:
            raise Unreachable("no answer")
        return Finding("True", PROGRAMMED)

    async def connected(self, place: Place, source: str) -> Finding:
        self.asked.append(f"{place.node} from {source}")
        return Finding("True", CONNECTED, source if self.tells_sources else "all")


class AskingOfEach(Asking):
    """The same, and tells sources apart."""

    tells_sources = True


class AskingByAddresses(Asking):
    """The same of addresses of pods."""

    reason = BY_ADDRESSES


def place(node: str, service: tuple[str, str] = KEY) -> Place:
    port: Any = Named(node)
    return Place(node, port, service, "u")


async def test_one_answer_counts_for_all_looks_of_a_moment() -> None:
    driver = Asking()
    findings = DriverFindings({driver.reason: driver})
    for _ in range(5):
        for node in ("us", "eu"):
            found = await findings.of(KEY).offered(driver.reason, place(node))
            assert found is not None
            assert found.status == "True"
    assert driver.asked == ["us", "eu"]
    assert 0 < findings.valid_for(KEY) <= FRESH_SECONDS
    await asyncio.sleep(FRESH_SECONDS + 0.1)
    assert findings.valid_for(KEY) == 0
    await findings.of(KEY).offered(driver.reason, place("us"))
    assert driver.asked == ["us", "eu", "us"]
    findings.forget_service(KEY)
    await findings.of(KEY).offered(driver.reason, place("us"))
    assert driver.asked[-2:] == ["us", "us"]


async def test_a_cluster_that_gives_no_answer_is_asked_for_no_other_service_for_a_while() -> None:
    driver = Asking("us")
    findings = DriverFindings({driver.reason: driver})
    for service in (KEY, ("shop", "api")):
        found = await findings.of(service).offered(driver.reason, place("us", service))
        assert found is not None
        assert (found.status, found.reason) == ("Unknown", "TargetUnreachable")
    assert driver.asked == ["us"]
    findings.forget_node("us")
    findings.forget_service(KEY)
    await findings.of(KEY).offered(driver.reason, place("us"))
    assert driver.asked == ["us", "us"]


@pytest.mark.parametrize(
    ("driver", "asked", "messages"),
    [
        (Asking(), ["us from eu"], ["all", "all", "all"]),
        (AskingOfEach(), ["us from eu", "us from de", "us from eu"], ["eu", "de", "eu"]),
    ],
)
async def test_a_driver_that_tells_sources_apart_is_asked_of_each(
    driver: Asking, asked: list[str], messages: list[str]
) -> None:
    findings = DriverFindings({driver.reason: driver})
    found = [await findings.of(KEY).connected(driver.reason, place("us"), source) for source in ("eu", "de", "eu")]
    assert driver.asked == asked
    assert [each.message for each in found if each is not None] == messages


async def test_of_addresses_of_pods_no_driver_is_asked() -> None:
    driver = AskingByAddresses()
    findings = DriverFindings({driver.reason: driver})
    assert await findings.of(KEY).connected(driver.reason, place("us"), "eu") is None
    assert driver.asked == []
