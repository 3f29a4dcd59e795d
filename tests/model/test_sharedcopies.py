from collections.abc import Collection
from typing import Any

import pytest

from agent.model import sharedcopies
from agent.model.diff import equivalent
from agent.model.servicemarks import native, rerouted
from tests.model.pods import P

Raw = dict[str, Any]


def original(annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "u1",
            "labels": {"team": "x"},
            "annotations": annotations or {},
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"app": "web"},
            "clusterIP": "10.96.0.7",
            "clusterIPs": ["10.96.0.7"],
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "http"}],
            **spec,
        },
    }


def copy(service: Raw) -> Raw:
    return sharedcopies.service(service, "cd", "cluster-uid")


def live(wanted: Raw, **spec: Any) -> Raw:
    """Return a copy as a target's API server stores it."""
    metadata = {**wanted["metadata"], "uid": "u2", "resourceVersion": "7"}
    own = {"clusterIP": "10.97.0.1", "clusterIPs": ["10.97.0.1"], "ipFamilies": ["IPv4"]}
    return {**wanted, "metadata": metadata, "spec": {**wanted["spec"], **own, **spec}, "status": {"loadBalancer": {}}}


def test_a_copy_says_whose_it_is_and_has_no_address_of_the_source() -> None:
    made = copy(native(original({"note": "mine"})))
    assert made["metadata"]["labels"] == {
        "team": "x",
        P + "parent-uid": "u1",
        P + "parent-cluster-name": "cd",
        "multicluster/parent-cluster-uid": "cluster-uid",
    }
    annotations = made["metadata"]["annotations"]
    assert annotations[P + "is-delegate"] == ""
    assert annotations[P + "global"] == annotations["service.cilium.io/global"] == "true"
    assert annotations["note"] == "mine"
    assert made["spec"]["selector"] == {
        "multicluster/U_app": "web",
        "multicluster/parent-cluster-uid": "cluster-uid",
        "multicluster/serving": "true",
    }
    older = sharedcopies.service(native(original({})), "cd", "cluster-uid", exact=False)
    assert older["spec"]["selector"] == {P + "app": "web"}, "while older delegates are there"
    assert not {"clusterIP", "clusterIPs", "ipFamilies"} & made["spec"].keys()


def test_the_copy_of_a_rerouted_service_keeps_to_the_contract() -> None:
    made = copy(rerouted(original(), switch=True))
    assert made["spec"]["selector"] == {P + "app": "web"}
    assert made["metadata"]["annotations"][P + "original-selector"] == "app=web"


def test_a_global_service_without_proxy_pods_selects_what_its_user_says() -> None:
    assert copy(original({"multicluster/global": "true"}))["spec"]["selector"] == {"app": "web"}


def test_a_headless_service_stays_headless() -> None:
    made = copy(original(clusterIP="None", clusterIPs=["None"]))
    assert made["spec"]["clusterIP"] == "None"


def test_node_ports_are_the_targets_own() -> None:
    ports = [
        {"name": "a", "port": 80, "protocol": "TCP", "nodePort": 30080},
        {"name": "b", "port": 80, "protocol": "UDP", "nodePort": 30081},
    ]
    made = copy(original(type="NodePort", ports=ports, externalTrafficPolicy="Local"))
    assert made["spec"]["type"] == "NodePort"
    assert made["spec"]["externalTrafficPolicy"] == "Local"
    assert all("nodePort" not in port for port in made["spec"]["ports"])
    there = live(made, ports=[{**port, "nodePort": 31000 + at} for at, port in enumerate(made["spec"]["ports"])])
    assert equivalent(there, sharedcopies.merged(there, made))


BALANCER = {
    "type": "LoadBalancer",
    "loadBalancerIP": "192.0.2.1",
    "loadBalancerClass": "example.com/fast",
    "loadBalancerSourceRanges": ["192.0.2.0/24"],
    "allocateLoadBalancerNodePorts": True,
    "externalTrafficPolicy": "Local",
    "healthCheckNodePort": 32000,
    "externalIPs": ["192.0.2.9"],
    "ports": [{"port": 80, "protocol": "TCP", "nodePort": 30080}],
}


def test_a_load_balancer_is_not_ordered_in_every_cluster() -> None:
    made = copy(original(**BALANCER))
    assert made["spec"]["type"] == "ClusterIP"
    assert not (BALANCER.keys() - {"type", "ports"}) & made["spec"].keys()


def test_a_user_can_have_a_load_balancer_in_every_cluster_with_the_same_clients() -> None:
    made = copy(original({"multicluster/copy-load-balancer": "true"}, **BALANCER))
    assert made["spec"]["type"] == "LoadBalancer"
    assert made["spec"]["loadBalancerSourceRanges"] == ["192.0.2.0/24"], "dropped, it would be open to everybody"
    assert not {"loadBalancerIP", "loadBalancerClass", "healthCheckNodePort", "externalIPs"} & made["spec"].keys()
    own = {"healthCheckNodePort": 31999, "loadBalancerClass": "there", "allocateLoadBalancerNodePorts": True}
    there = live(made, **own)
    assert equivalent(there, sharedcopies.merged(there, made))


def test_an_external_name_is_copied_as_it_is() -> None:
    service = original({"multicluster/global": "true"})
    service["spec"] = {"type": "ExternalName", "externalName": "db.example.com", "sessionAffinity": "None"}
    assert copy(service)["spec"] == {**service["spec"], "selector": None}


def test_what_cannot_have_two_families_gets_one() -> None:
    made = copy(original(ipFamilyPolicy="RequireDualStack"))
    assert made["spec"]["ipFamilyPolicy"] == "PreferDualStack"


def test_a_copy_as_the_target_has_it_needs_no_change() -> None:
    made = copy(original())
    there = live(made)
    assert equivalent(there, sharedcopies.merged(there, made))


def test_what_the_target_adds_stays_and_what_the_original_has_lost_goes() -> None:
    there = live(copy(original({"note": "old", "other": "x"})))
    there["metadata"]["annotations"]["cloud.example.com/status"] = "theirs"
    there["metadata"]["labels"]["watched"] = "yes"
    body = sharedcopies.merged(there, copy(original({"note": "new"})))
    assert body["metadata"]["annotations"]["note"] == "new"
    assert body["metadata"]["annotations"]["cloud.example.com/status"] == "theirs"
    assert "other" not in body["metadata"]["annotations"]
    assert body["metadata"]["labels"]["watched"] == "yes"
    assert body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({}, {}, False),
        ({"clusterIP": "None"}, {}, True),
        ({}, {"clusterIP": "None"}, True),
        ({"type": "ExternalName"}, {"clusterIP": "None"}, False),
    ],
)
def test_only_a_change_between_headless_and_not_needs_a_new_copy(old: Raw, new: Raw, want: bool) -> None:
    wanted = {"kind": "Service", "spec": new}
    assert sharedcopies.must_be_replaced({"spec": old}, wanted) is want


def test_a_copy_that_becomes_an_external_name_gives_up_its_address() -> None:
    there = live(copy(original()))
    service = original()
    service["spec"] = {"type": "ExternalName", "externalName": "db.example.com"}
    body = sharedcopies.merged(there, copy(service))
    assert "clusterIP" not in body["spec"]


def test_a_secret_of_an_ingress_is_not_mistaken_for_one_that_pods_need() -> None:
    secret = {"metadata": {"name": "tls", "namespace": "default", "uid": "u3"}, "type": "kubernetes.io/tls", "data": {}}
    made = sharedcopies.secret(secret, "cd", "cluster-uid")
    assert made["metadata"]["labels"]["multicluster/ingress-secret-of"] == "cluster-uid"
    assert "multicluster/parent-cluster-uid" not in made["metadata"]["labels"]
    assert made["type"] == "kubernetes.io/tls"


@pytest.mark.parametrize(
    ("wanted", "policy", "families", "made"),
    [
        (["IPv6"], "SingleStack", {"IPv4", "IPv6"}, ["IPv6"]),
        (["IPv6", "IPv4"], "RequireDualStack", {"IPv4", "IPv6"}, ["IPv6", "IPv4"]),
        (["IPv6", "IPv4"], "PreferDualStack", {"IPv4"}, ["IPv4"]),
        (["IPv6"], "SingleStack", {"IPv4"}, None),
        (["IPv6"], "SingleStack", (), None),
    ],
)
def test_a_copy_has_the_ip_families_of_the_original_that_pods_of_the_target_have(
    wanted: list[str], policy: str, families: Collection[str], made: list[str] | None
) -> None:
    source = native(original({}, ipFamilies=wanted, ipFamilyPolicy=policy))
    assert sharedcopies.service(source, "cd", "u", families=families)["spec"].get("ipFamilies") == made


def test_a_copy_that_exists_keeps_its_ip_families() -> None:
    source = native(original({}, ipFamilies=["IPv6"]))
    wanted = sharedcopies.service(source, "cd", "u", families={"IPv6"})
    assert sharedcopies.merged(live(wanted), wanted)["spec"]["ipFamilies"] == ["IPv4"], "API servers refuse a change"
