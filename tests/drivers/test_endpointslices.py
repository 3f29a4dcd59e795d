"""Clusters whose endpoints of a Service are trusted."""

from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import SERVICES
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.drivers.clusters import _Known
from agent.drivers.driver import LOCAL, Place
from agent.drivers.endpointslices import EndpointSlices
from agent.drivers.sharing import Sharing
from agent.kube.client import encode
from agent.kube.store import Object, Store
from agent.model.pod_networks import ANSWERS, Networks
from agent.model.servicemarks import rerouted, shared
from agent.model.servicerule import ANYTHING, Rule, Wish

KEY = ("shop", "db")
PLAIN = {"metadata": {"namespace": "shop", "name": "db"}, "spec": {"selector": {"app": "db"}}}
BY_USER = {**PLAIN, "metadata": {**PLAIN["metadata"], "annotations": {"multicluster/global": "true"}}}


class Everywhere(Sharing):
    """Service with a copy in two targets."""

    def __init__(self, service: dict[str, Any]) -> None:
        store = Store()
        store.put(Object(SERVICES, encode(service)))
        self.services: Any = SimpleNamespace(store=store)
        self.deps: Any = SimpleNamespace(unwritten_marks=UnwrittenMarks())
        self.targets: Any = SimpleNamespace(informers=())
        self._seen, self._known, self._last = [], _Known(), {}
        self._unmarked: Any = SimpleNamespace(is_by_hand=lambda service: False)
        self._headless, self._at_gateways = {}, {}

    def rule(self, service: tuple[str, str]) -> Rule:
        return ANYTHING

    def called(self, node: str) -> tuple[str, ...]:
        return (node or "local-cluster",)

    def serving(self, namespace: str) -> list[str]:
        return ["us", "eu"]

    def nodes_of(self, service: tuple[str, str]) -> list[str]:
        return [LOCAL, "us", "eu"]

    def place(self, node: str, service: tuple[str, str]) -> Place:
        return Place(node, None, service, node)  # type: ignore[arg-type]

    def stands_for(self, place: Place) -> bool:
        return place.node in self.nodes_of(place.service)

    def _driver(self, node: str) -> str:
        return EndpointSlices.reason

    def networks(self, node: str) -> Networks | None:
        return ()


@pytest.mark.parametrize(
    ("service", "here", "there"),
    [
        (shared(PLAIN), [], [LOCAL]),
        (rerouted(PLAIN, switch=True), ["us", "eu"], [LOCAL, "eu"]),
        (BY_USER, ["us", "eu"], [LOCAL, "eu"]),
    ],
)
def test_of_a_service_that_only_its_namespace_shares_no_endpoint_comes_from_a_target(
    service: dict[str, Any], here: list[str], there: list[str]
) -> None:
    driver = EndpointSlices(Everywhere(service))
    cluster: Any = None
    assert driver._linked(Place(LOCAL, cluster, KEY, "u")) == here
    assert driver._linked(Place("us", cluster, KEY, "v")) == there


def test_clusters_that_are_known_to_have_no_endpoints_are_passed_over() -> None:
    sharing, cluster = Everywhere(BY_USER), None
    sharing.may_offer = lambda node, service: node != "eu"  # type: ignore[method-assign]
    driver, place = EndpointSlices(sharing), Place(LOCAL, cluster, KEY, "u")  # type: ignore[arg-type]
    assert driver._linked(place, offering=True) == ["us"]
    # The agent checks their reachability all the same.
    assert driver._linked(place) == ["us", "eu"]


@pytest.mark.parametrize(
    ("one", "other", "driver"),
    [
        (LOCAL, "us", "EndpointSlices"),
        ("eu", LOCAL, "MCS"),
        ("us", "de", "EndpointSlices"),
        ("us", "eu", ""),
        ("us", "new", ""),
        (LOCAL, LOCAL, ""),
        ("us", "us", ""),
    ],
)
def test_two_targets_have_a_driver_if_it_is_the_same(one: str, other: str, driver: str) -> None:
    sharing = Everywhere(PLAIN)
    reasons = {"us": "EndpointSlices", "de": "EndpointSlices", "eu": "MCS", "new": ""}
    sharing._driver = reasons.__getitem__  # type: ignore[method-assign]
    assert sharing.driver(one, other) == driver


@pytest.mark.parametrize(
    ("one", "other", "status", "reason", "message"),
    [
        (LOCAL, "eu", "True", "Connected", f"pods are flat; {ANSWERS}"),
        ("eu", LOCAL, "True", "Connected", f"pods are flat; {ANSWERS}"),
        (LOCAL, "us", "Unknown", "Unverified", "nobody has measured"),
        ("us", "eu", "Unknown", "Unverified", "nobody has measured"),
    ],
)
async def test_callers_reach_the_others_if_that_is_measured(
    one: str, other: str, status: str, reason: str, message: str
) -> None:
    sharing = Everywhere(BY_USER)
    said = {"eu": {"status": "True", "message": f"pods are flat; {ANSWERS}"}}
    sharing.said = lambda node: said.get(node, {})  # type: ignore[method-assign]
    cluster: Any = None
    connected = await EndpointSlices(sharing).connected(Place(one, cluster, KEY, "u"), other)
    assert (connected.status, connected.reason) == (status, reason)
    assert message in connected.message


@pytest.mark.parametrize(
    ("wishes", "here", "there"),
    [
        ([], ["us", "eu"], [LOCAL, "eu"]),
        ([Wish(sources=frozenset(("eu",)))], ["eu"], ["eu"]),
        ([Wish(consumers=frozenset(("local-cluster",)))], ["us", "eu"], []),
        ([Wish(frozenset((80,)), frozenset(("eu",))), Wish(consumers=frozenset(("us",)))], ["eu"], [LOCAL, "eu"]),
    ],
)
async def test_links_narrow_whose_endpoints_come_where(wishes: list[Wish], here: list[str], there: list[str]) -> None:
    sharing = Everywhere(BY_USER)
    sharing.rule = lambda service: Rule(tuple(wishes))  # type: ignore[method-assign]
    driver = EndpointSlices(sharing)
    cluster: Any = None
    assert driver._linked(Place(LOCAL, cluster, KEY, "u")) == here
    assert driver._linked(Place("us", cluster, KEY, "v")) == there


def test_a_driver_that_is_named_for_the_service_counts_for_every_pair() -> None:
    sharing = Everywhere(BY_USER)
    sharing.rule = lambda service: Rule(driver="mcs")  # type: ignore[method-assign]
    assert [sharing.driver(*pair, KEY) for pair in ((LOCAL, "us"), ("us", "eu"), (LOCAL, LOCAL))] == ["MCS", "MCS", ""]
    assert sharing.driver(LOCAL, "us") == "EndpointSlices"
    assert sharing.drivers("us", KEY) == {"MCS"}


def test_ports_that_links_name_are_told_by_the_names_that_slices_have() -> None:
    ports = [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}, {"port": 9000}]
    sharing = Everywhere({**BY_USER, "spec": {"ports": ports}})
    cluster: Any = None
    place = Place("us", cluster, KEY, "v")
    asked = Rule((Wish(frozenset((443, 9000)), frozenset(("eu",))), Wish(consumers=frozenset(("de",)))))
    sharing.rule = lambda service: asked  # type: ignore[method-assign]
    assert sharing.ports(place, "eu") == {"https", ""}
    sharing.rule = lambda service: ANYTHING  # type: ignore[method-assign]
    assert sharing.ports(place, "eu") is None
