"""How often clusters are asked what became of endpoints."""

import asyncio
from typing import Any, NamedTuple

from agent.controllers.links.findings import FRESH_SECONDS, DriverFindings
from agent.drivers.driver import Place
from agent.drivers.nothing import Nothing
from agent.kube.errors import Unreachable
from agent.model.servicelinks import PROGRAMMED, Finding

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
