"""Gateways only call pods of the namespace, even if an EndpointSlice names other addresses."""

from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.model.gatewayaddresses import addresses_of, left_out, of_pods, reduced, warning
from agent.model.gatewayhosts import EVERY_OFFERED
from agent.model.gatewaylink import Shared, document
from tests.model.test_gatewaylink import HTTP, OWN, SOURCE, peer, slice

Raw = dict[str, Any]

PODS = {"shop": {"10.1.0.5", "fd00::5"}, "bank": {"10.1.0.9"}}


def offered(*addresses: str, **fields: Any) -> Raw:
    return slice(endpoints=[{"addresses": [each]} for each in addresses], **fields)


@pytest.mark.parametrize(
    "address",
    ["10.1.0.9", "10.96.0.1", "168.63.129.16", "192.168.0.10", "10.1.0.6"],
    ids=["pod of another namespace", "Service", "metadata service", "node", "no pod"],
)
def test_a_gateway_calls_no_address_that_no_pod_of_the_namespace_has(address: str) -> None:
    found = of_pods([offered("10.1.0.5", address)], PODS)
    (service,) = document(OWN, [peer(offered=[Shared("web", HTTP)])], found).services
    assert service.endpoints == ("10.1.0.5:8080",)


def test_a_service_without_any_such_address_is_offered_without_endpoints() -> None:
    found = document(OWN, [peer(offered=[Shared("web", HTTP)])], of_pods([offered("10.1.0.9")], PODS))
    assert [each.endpoints for each in found.services] == [()]
    found = document(OWN, [peer(offered=[Shared("web", HTTP)])], of_pods([slice(endpoints=None)], {}))
    assert [each.endpoints for each in found.services] == [()]


def test_only_the_address_that_is_called_counts() -> None:
    both = slice(endpoints=[{"addresses": ["10.1.0.9", "10.1.0.5"]}])
    assert of_pods([both], PODS)[0]["endpoints"] == []


def test_the_gatewaypeer_names_what_is_left_out_and_the_remedy() -> None:
    unready = {"addresses": ["10.1.0.7"], "conditions": {"ready": False}}
    proxy = {"addresses": ["10.1.0.8"], "nodeName": "admiralty-shop-us"}
    slices = [offered("10.1.0.5", "10.1.0.9"), slice("other", endpoints=[unready, proxy]), offered(service="db")]
    found = left_out(slices, PODS)
    assert found == {("shop", "web"): ["10.1.0.9"]}
    given = peer(offered=[Shared("web", HTTP), Shared("other", HTTP)])
    assert warning(given, found, EVERY_OFFERED) == (
        "gateways do not call endpoints whose addresses belong to no running pod of namespace shop:"
        " 10.1.0.9 of Service web: have the Service select pods"
    )
    assert warning(peer(offered=[Shared("db", HTTP)]), found, EVERY_OFFERED) == ""
    unread = warning(given, found, EVERY_OFFERED, "pods is forbidden")
    assert unread.startswith("gateways cannot watch pods (pods is forbidden)")
    assert "10.1.0.9 of Service web: let the service account of the gateways list and watch pods" in unread
    assert warning(peer(offered=[Shared("db", HTTP)]), found, EVERY_OFFERED, "pods is forbidden") == ""
    mirror = {names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER}
    assert left_out([offered("10.7.0.1", labels=mirror)], PODS) == {}


def pod(node: str = "node-1", *addresses: str) -> Raw:
    return {
        "metadata": {"name": "web-0", "namespace": "shop", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "env": [{"name": "PASSWORD", "value": "secret"}]}]},
        "status": {"phase": "Running", "podIP": "10.1.0.5", "podIPs": [{"ip": each} for each in addresses]},
    }


def test_a_gateway_keeps_nothing_of_a_pod_but_where_it_is() -> None:
    found = reduced(msgspec.json.encode(pod("node-1", "10.1.0.5", "fd00::5")))
    assert b"secret" not in found
    assert addresses_of(msgspec.json.decode(found)) == {"10.1.0.5", "fd00::5"}
    assert addresses_of(msgspec.json.decode(reduced(msgspec.json.encode(pod("node-1"))))) == frozenset()


def test_a_pod_on_a_virtual_node_has_no_address_here() -> None:
    assert addresses_of(pod("admiralty-shop-us", "10.1.0.5")) == frozenset()
    assert addresses_of(pod("admiralty-shop-us-pool", "10.1.0.5")) == frozenset()


def test_what_another_source_has_shared_stays_apart() -> None:
    given = peer(source="uid-of-another", offered=[Shared("web", HTTP)])
    assert document(OWN, [given], of_pods([offered("10.1.0.5", source=SOURCE)], PODS)).services == ()
