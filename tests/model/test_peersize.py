"""A GatewayPeer names no more Services than its schema permits."""

from typing import Any

import pytest

from agent.api.crds.links import crds
from agent.api.names.links import PEER_SERVICES_LIMIT
from agent.model.gatewayhosts import Headless, Host
from agent.model.gatewaylink import Shared
from agent.model.peersize import fits, is_full, within
from tests.model.test_gatewayhosts import TCP, telling
from tests.model.test_gatewaylink import HTTP, peer

Raw = dict[str, Any]


def calling(*numbers: int) -> Raw:
    return peer(services=[Shared(f"s{number:05}", HTTP, 1, HTTP) for number in numbers])


def test_lists_that_are_too_long_keep_what_they_name_already() -> None:
    had = calling(*range(5, PEER_SERVICES_LIMIT + 5))
    assert fits(had)
    assert within(had, None) == had
    wanted = calling(*range(PEER_SERVICES_LIMIT + 10))
    assert not fits(wanted)
    assert within(wanted, had)["spec"] == had["spec"]
    # A removed Service frees a place for the first of the others.
    found = within(calling(*range(5), *range(6, PEER_SERVICES_LIMIT + 10)), had)["spec"]["services"]
    assert len(found) == PEER_SERVICES_LIMIT
    assert [each["name"] for each in found[:2]] == ["s00000", "s00006"]
    assert len(within(wanted, None)["spec"]["udpServices"]) == PEER_SERVICES_LIMIT


def test_the_other_lists_are_as_long_at_most() -> None:
    given = telling(*(Headless(f"s{number}", TCP, (Host("a"),)) for number in range(PEER_SERVICES_LIMIT + 1)))
    given["spec"]["localAffinity"] = [f"s{number}" for number in range(PEER_SERVICES_LIMIT + 1)]
    found = within(given, None)["spec"]
    lists = ("headless", "offeredHeadless", "localAffinity")
    assert [len(found[each]) for each in lists] == [PEER_SERVICES_LIMIT] * 3


def test_a_peer_that_names_the_most_is_full() -> None:
    assert is_full(calling(*range(PEER_SERVICES_LIMIT)))
    assert not is_full(calling(*range(PEER_SERVICES_LIMIT - 1)))
    assert not is_full(peer(offered=[Shared(f"s{number}", HTTP) for number in range(PEER_SERVICES_LIMIT)]))


@pytest.mark.parametrize(
    "field",
    ["services", "offered", "udpServices", "udpOffered", "headless", "offeredHeadless", "localAffinity"],
)
def test_the_schema_bounds_every_list_of_services(field: str) -> None:
    (definition,) = [each for each in crds() if each["spec"]["names"]["kind"] == "GatewayPeer"]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["properties"][field]["maxItems"] == PEER_SERVICES_LIMIT
