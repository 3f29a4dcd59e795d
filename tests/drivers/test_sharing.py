"""Shared network driver of two clusters."""

import json
import time
from collections.abc import Mapping
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CLUSTER_TARGETS, NODES, TARGETS
from agent.api.names.links import ANNOTATION_NETWORKS, GATEWAY_USABLE, OVERLAP, STRANGERS
from agent.drivers import clusters
from agent.drivers.clusters import Clusters
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing
from agent.kube.both_scopes import EitherScope
from agent.kube.client import encode
from agent.kube.store import Object, Store
from agent.model.pod_networks import ANSWERS
from agent.model.podranges import unreached
from agent.model.servicerule import Rule

COUNT = count()


class Fleet:
    """Stub of the cluster's caches: Targets and their virtual nodes."""

    def __init__(self) -> None:
        self._nodes, self._targets, cluster_targets = Store(), Store(), Store()
        informers = {TARGETS: self._targets, CLUSTER_TARGETS: cluster_targets, NODES: self._nodes}
        informer = lambda kind, labels="": SimpleNamespace(store=informers[kind])  # noqa: E731
        local = SimpleNamespace(
            informer=informer,
            either=lambda kinds: EitherScope(None, informer, kinds),  # type: ignore[arg-type]
        )
        self.sharing = Sharing.__new__(Sharing)
        self.told: dict[str, Object] = {}
        """Summaries of connected targets, by virtual node."""
        self.targets = SimpleNamespace(
            by_node=lambda node: SimpleNamespace(told=self.told[node]) if node in self.told else None
        )
        Clusters.__init__(self.sharing, SimpleNamespace(local=local, targets=self.targets))  # type: ignore[arg-type]

    def set(
        self,
        name: str,
        *pods: str,
        reason: str = "EndpointSlices",
        status: str = "True",
        by_hand: str = "",
        message: str = "",
        usable: str = "",
        **spec: Any,
    ) -> None:
        version = {"resourceVersion": f"{next(COUNT)}", "name": name}
        condition = {"type": "ServicesShared", "status": status, "reason": reason, "message": message}
        gateways = {"type": GATEWAY_USABLE, "status": usable, "reason": "any", "message": "any"}
        conditions = [condition, gateways] if usable else [condition]
        annotations = {names.SHORT_PREFIX + names.NETWORK_DRIVER: by_hand} if by_hand else {}
        metadata = {**version, "namespace": "shop", "annotations": annotations}
        manifest = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions}}
        self._targets.put(Object(TARGETS, encode(manifest)))
        told = {ANNOTATION_NETWORKS: json.dumps({"pods": pods})} if pods else {}
        self._nodes.put(Object(NODES, encode({"metadata": {**version, "name": node(name), "annotations": told}})))

    def unsay(self, name: str) -> None:
        """Remove the conditions of a Target."""
        metadata = {"resourceVersion": f"{next(COUNT)}", "name": name, "namespace": "shop"}
        self._targets.put(Object(TARGETS, encode({"metadata": metadata, "spec": {}})))

    def between(self, one: str, other: str) -> str:
        """Return the driver between two clusters. Check that order and repetition do not matter."""
        nodes = node(one), node(other)
        found = {self.sharing.driver(*pair) for pair in (nodes, nodes[::-1], nodes)}
        (driver,) = found
        return driver


def node(name: str) -> str:
    """Return the virtual node of a Target, or the local cluster."""
    return names.virtual_node("shop", name) if name else LOCAL


@pytest.fixture
def fleet() -> Fleet:
    fleet = Fleet()
    fleet.set("us", "10.1.0.0/16")
    fleet.set("eu", "10.2.0.0/16")
    return fleet


def test_two_targets_have_the_driver_that_both_have(fleet: Fleet) -> None:
    assert fleet.between("us", "eu") == "EndpointSlices"
    fleet.set("eu", "10.2.0.0/16", reason="MCS")
    assert fleet.between("us", "eu") == ""
    assert fleet.between(LOCAL, "eu") == "MCS"
    assert fleet.between("us", "us") == ""


def test_where_a_mesh_shares_services_no_cluster_is_told_of_addresses(fleet: Fleet) -> None:
    for name in ("us", "eu"):
        fleet.set(name, "10.1.0.0/16", reason="Istio", by_hand="istio")
    assert {fleet.between(LOCAL, "us"), fleet.between("us", "eu")} == {"Istio"}


def test_a_driver_that_another_controller_is_goes_by_its_name(fleet: Fleet) -> None:
    fleet.set("eu", reason="External", by_hand="external/sdwan")
    assert fleet.between(LOCAL, "eu") == "external/sdwan"
    fleet.set("us", reason="External", by_hand="external/vendor")
    assert fleet.between("us", "eu") == ""
    fleet.set("us", reason="External", by_hand="external/sdwan")
    assert fleet.between("us", "eu") == "external/sdwan"


def test_what_a_target_tells_is_read_once_until_one_of_them_changes(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, said_of = list[str](), clusters.said_of

    def counted(target: Object) -> Mapping[str, Any]:
        read.append(target.name)
        return said_of(target)

    monkeypatch.setattr(clusters, "said_of", counted)
    for _ in range(3):
        assert fleet.between("us", "eu") == "EndpointSlices"
    assert sorted(read) == ["eu", "us"]
    fleet.set("eu", "10.2.0.0/16", reason="MCS")
    assert fleet.between("us", "eu") == ""


def test_two_targets_with_the_same_pod_network_are_apart_though_each_is_fine_with_the_source(fleet: Fleet) -> None:
    fleet.set("eu", "10.1.7.0/24", "10.2.0.0/16")
    assert fleet.between("us", "eu") == ""
    assert (fleet.between(LOCAL, "us"), fleet.between(LOCAL, "eu")) == ("EndpointSlices", "EndpointSlices")
    fleet.set("eu", "10.2.0.0/16")
    assert fleet.between("us", "eu") == "EndpointSlices"


PODS = {"us": "10.1.0.0/16", "eu": "10.2.0.0/16"}


@pytest.mark.parametrize(
    ("us", "eu", "driver"),
    [
        ({}, {"reason": "Gateway"}, "Gateway"),
        ({"reason": "MCS"}, {}, "Gateway"),
        ({"reason": "External", "by_hand": "external/sdwan"}, {}, "Gateway"),
        ({}, {"pods": "10.1.7.0/24"}, "Gateway"),
        # A driver that is already in use stays.
        ({}, {}, "EndpointSlices"),
        ({"reason": "Cilium"}, {"reason": "Cilium"}, "Cilium"),
        ({}, {"pods": "10.1.7.0/24", "by_hand": "endpointslices"}, "EndpointSlices"),
        # One has none, or may not use it.
        ({"usable": ""}, {"reason": "Gateway"}, ""),
        ({}, {"reason": "Gateway", "usable": "False"}, ""),
        ({"usable": "False"}, {"pods": "10.1.7.0/24"}, ""),
        # One has no driver for this cluster, or must not have one.
        ({}, {"status": "False", "reason": OVERLAP}, ""),
        ({}, {"reason": "Off", "by_hand": "none"}, ""),
    ],
)
def test_two_targets_that_do_not_reach_each_other_otherwise_have_gateways_if_both_may_use_some(
    fleet: Fleet, us: dict[str, str], eu: dict[str, str], driver: str
) -> None:
    for name, given in (("us", us), ("eu", eu)):
        said: dict[str, str] = {"usable": "True", **given}
        fleet.set(name, said.pop("pods", PODS[name]), **said)
    assert fleet.between("us", "eu") == driver
    for name in PODS:
        target = fleet.sharing.target_object(node(name))
        assert target is not None
        assert fleet.between(LOCAL, name) == fleet.sharing.reason(target), "that with this cluster is its own still"


def test_gateways_of_two_targets_end_with_the_right_to_use_them(fleet: Fleet) -> None:
    fleet.set("us", "10.1.0.0/16", usable="True")
    fleet.set("eu", "10.2.0.0/16", reason="Gateway", usable="True")
    assert fleet.between("us", "eu") == "Gateway"
    fleet.set("us", "10.1.0.0/16", usable="False")
    assert fleet.between("us", "eu") == ""


def test_what_a_mesh_does_with_addresses_is_its_own_matter(fleet: Fleet) -> None:
    for name in ("us", "eu"):
        fleet.set(name, "10.1.0.0/16", reason="Cilium")
    assert fleet.between("us", "eu") == "Cilium"
    for name in ("us", "eu"):
        fleet.set(name, "10.1.0.0/16", reason="Gateway")
    assert fleet.between("us", "eu") == "Gateway"


def test_a_target_that_tells_no_networks_counts_as_flat(fleet: Fleet) -> None:
    fleet.set("eu")
    assert fleet.between("us", "eu") == "EndpointSlices"


def test_a_summary_counts_before_its_virtual_node_does(fleet: Fleet) -> None:
    def tell(text: str) -> None:
        metadata = {
            "name": "singleton",
            "resourceVersion": f"{next(COUNT)}",
            "annotations": {ANNOTATION_NETWORKS: text},
        }
        fleet.told[node("eu")] = Object(CLUSTER_SUMMARIES, encode({"metadata": metadata}))

    assert fleet.between("us", "eu") == "EndpointSlices"
    tell('{"pods":["10.1.7.0/24"]}')
    assert fleet.between("us", "eu") == ""
    # While the object cannot be read, its last content counts.
    tell('{"pods":5}')
    assert fleet.between("us", "eu") == "EndpointSlices"
    fleet.set("eu", "10.1.7.0/24")
    assert fleet.between("us", "eu") == ""
    tell('{"pods":["10.3.0.0/16"]}')
    assert fleet.between("us", "eu") == "EndpointSlices"


def test_a_condition_that_is_taken_away_counts_for_a_while(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fleet.between(LOCAL, "eu") == "EndpointSlices"
    fleet.unsay("eu")
    assert fleet.between(LOCAL, "eu") == fleet.between("us", "eu") == "EndpointSlices"
    later = time.monotonic() + clusters.UNSAID_SECONDS
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert fleet.between(LOCAL, "eu") == fleet.between("us", "eu") == ""


def test_a_target_that_never_had_a_condition_has_no_driver(fleet: Fleet) -> None:
    fleet.unsay("new")
    assert fleet.between(LOCAL, "new") == fleet.between("us", "new") == ""


def test_a_person_knows_better_where_pods_are(fleet: Fleet) -> None:
    fleet.set("eu", "10.1.0.0/16", podCIDRs=["10.9.0.0/16"])
    assert fleet.between("us", "eu") == "EndpointSlices"
    fleet.set("eu", "10.2.0.0/16", podCIDRs=["10.1.0.0/16"])
    assert fleet.between("us", "eu") == ""
    fleet.set("eu", "10.1.0.0/16", by_hand="endpointslices")
    assert fleet.between("us", "eu") == "EndpointSlices"


def test_a_target_without_a_driver_has_none_with_others(fleet: Fleet) -> None:
    fleet.set("eu", "10.2.0.0/16", reason="PodNetworksOverlap", status="False")
    assert fleet.between("us", "eu") == ""
    assert fleet.between(LOCAL, "eu") == ""


def test_a_path_is_measured_where_an_agent_has_answered_this_cluster(fleet: Fleet) -> None:
    fleet.set("eu", "10.2.0.0/16", message=f"endpoints of shared Services: ...; {ANSWERS}")

    def measured(one: str, other: str) -> bool:
        return fleet.sharing.measured(node(one), node(other)).status == "True"

    assert measured(LOCAL, "eu")
    assert measured("eu", LOCAL)
    assert not measured(LOCAL, "us")
    assert not measured("us", "eu")
    fleet.set("eu", "10.2.0.0/16", status="False", message=ANSWERS)
    assert not measured(LOCAL, "eu")


def test_a_service_names_its_driver_but_leads_to_no_strangers(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    def named(driver: str, one: str, other: str) -> str:
        monkeypatch.setattr(fleet.sharing, "rule", lambda service: Rule(driver=driver), raising=False)
        return fleet.sharing.driver(node(one), node(other), ("shop", "web"))

    assert named("mcs", LOCAL, "us") == "MCS"
    assert named("", LOCAL, "us") == "EndpointSlices"
    fleet.set("us", "10.1.0.0/16", reason="Off")
    assert named("endpointslices", LOCAL, "us") == named("endpointslices", "us", "eu") == "EndpointSlices"
    for reason in (OVERLAP, STRANGERS):
        fleet.set("us", "10.1.0.0/16", status="False", reason=reason)
        assert named("endpointslices", LOCAL, "us") == named("endpointslices", "us", "eu") == ""
        assert named("mcs", LOCAL, "us") == "MCS"
    fleet.set("us", "10.1.0.0/16", reason="Gateway")
    assert named("endpointslices", LOCAL, "us") == named("endpointslices", "us", "eu") == ""
    assert named("", LOCAL, "us") == named("gateway", "us", "eu") == "Gateway"
    fleet.set("us", "10.1.0.0/16", reason="MCS", message=f"network driver mcs; {unreached(OVERLAP)}")
    assert named("endpointslices", LOCAL, "us") == named("endpointslices", "us", "eu") == ""
    assert named("", LOCAL, "us") == "MCS"
    fleet.set("us", "10.2.0.0/16")
    assert named("endpointslices", LOCAL, "us") == "EndpointSlices"
    assert named("endpointslices", "us", "eu") == ""
