"""A target that does not answer drivers' queries: its rows report that, and no other link is delayed."""

import asyncio
from typing import Any

import pytest

from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICE_LINKS, SERVICES
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.links import ServiceLinksController, findings
from tests.controllers.installed import installed
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import PORTS, SHARED, Links, condition, rows, shared_with_eu
from tests.kube.relay import Relay
from tests.waiting import at_rest, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

SERVICES_ASKED = 10
"""More Services than the link controller reconciles concurrently."""


def of_exports(method: str, path: str) -> bool:
    return SERVICE_EXPORTS.group in path


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_target_that_answers_nothing_delays_no_other_link(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "ANSWER_SECONDS", 120.0)
    monkeypatch.setattr(findings, "FRESH_SECONDS", 0.1)
    async with (
        installed((pair.here, pair.there), [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]),
        shared_with_eu(pair),
        Relay.started(pair.connection) as relay,
        pair.at_work(
            ServiceLinksController,
            EndpointsController,
            GlobalServices,
            connection=relay.connection,
            service_links=True,
            discovery_interval=0.5,
        ) as eu,
    ):
        assert pair.deps is not None
        links = Links(pair, pair.deps.cluster_uid)
        await links.shared_by("True", "MCS")
        asked = [f"web-{number}" for number in range(SERVICES_ASKED)]
        for service in asked:
            await pair.create(SERVICES, service, metadata=SHARED, spec={"ports": PORTS})
            await links.offer(pair.here, "10.1.0.1", service)
        for service in asked:
            told = await links.once(lambda link: len(rows(link)) == 1, service)
            assert rows(told)[0][:3] == ("eu", ["here"], "mcs")

        # Its API server is alive, but does not answer these requests, which outlast this test.
        eu.cluster.client.session.timeout = 600.0
        relay.freeze(of_exports)
        await asyncio.sleep(2.0)
        assert eu.ready
        await pair.create(SERVICES, "other", metadata=SHARED, spec={"ports": PORTS})
        found: list[Raw] = []

        async def link() -> bool:
            found[:] = [await pair.here.get(SERVICE_LINKS, "other", pair.namespace)]
            return condition(found[0], "Ready")[1] == "NoEndpoints"

        await until(link)

        # Its Target is not ready, so the drivers do not query it.
        relay.freeze()
        await until(lambda: not eu.ready)
        await links.once(lambda link: rows(link) == [("eu", ["here"], "mcs", "TargetUnreachable")], asked[0])
        told = await pair.here.get(SERVICE_LINKS, asked[0], pair.namespace)
        assert "Target eu: " in condition(told, "Programmed")[2]
        assert condition(told, "Connected")[:2] == ("Unknown", "TargetUnreachable")

        def so_far() -> int:
            # Workers that still wait for a response could not send new requests.
            relay.break_streams()
            return sum(of_exports(*each) for each in relay.requests)

        requests = await at_rest(so_far)
        await asyncio.sleep(2.0)
        assert so_far() == requests
        relay.thaw()
