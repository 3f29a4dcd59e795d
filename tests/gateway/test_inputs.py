"""The input file of a gateway, computed namespace by namespace."""

from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.gateway.inputs import Contents, Inputs, Watched, are_alike
from agent.model.gatewaypeer import Gateway
from agent.model.gatewaysize import CLUSTER, PEER, Limits, limits
from tests.model.test_gatewaylink import HTTP, OWN, Shared, peer, slice

Raw = dict[str, Any]
PODS = Watched({"shop": {"10.1.0.1"}, "bank": {"10.1.0.1"}}, "")
_ENDPOINT = [{"addresses": ["10.1.0.1"]}]


class Cluster:
    """Objects of a cluster by namespace, and the namespaces that were read."""

    def __init__(self, limit: Limits) -> None:
        self.objects: dict[str, Contents] = {}
        self.read: list[str] = []
        self.inputs = Inputs(limit, {}, self._contents)
        self.inputs.own = OWN

    def _contents(self, namespace: str) -> Contents:
        self.read.append(namespace)
        return self.objects.get(namespace, Contents([], []))

    def offer(self, namespace: str, *services: str, created: str = "2026-01-01T00:00:00Z") -> None:
        """Let one GatewayPeer of a namespace offer Services, each with one ready pod."""
        found = peer("eu", offered=[Shared(name, HTTP) for name in services], created=created)
        objects = [found, *(slice(name, endpoints=_ENDPOINT) for name in services)]
        for each in objects:
            each["metadata"]["namespace"] = namespace
        self.objects[namespace] = Contents(objects[:1], objects[1:])

    def refresh(self, *changed: str) -> Gateway:
        """Compute changed namespaces and return the input file."""
        self.read = []
        for namespace in changed:
            self.inputs.price(namespace, PODS)
        for namespace in {*changed, *self.inputs.settle()}:
            self.inputs.compute(namespace, PODS)
        return msgspec.json.decode(self.inputs.document(), type=Gateway)


def offered(gateway: Gateway) -> dict[str, list[str]]:
    return {each.namespace: [one.name for one in each.offered] for each in gateway.peers}


def test_a_change_reads_its_namespace_alone() -> None:
    cluster = Cluster(limits(0))
    cluster.offer("shop", "web")
    cluster.offer("bank", "web")
    cluster.refresh("shop", "bank")
    cluster.offer("bank", "db", "web")
    assert offered(cluster.refresh("bank")) == {"shop": ["web"], "bank": ["db", "web"]}
    assert cluster.read == ["bank"]


def test_a_namespace_without_gateway_peers_leaves_the_file() -> None:
    cluster = Cluster(limits(0))
    cluster.offer("shop", "web")
    cluster.offer("bank", "web")
    cluster.refresh("shop", "bank")
    del cluster.objects["shop"]
    found = cluster.refresh("shop")
    assert offered(found) == {"bank": ["web"]}
    assert {each.namespace for each in found.services} == {"bank"}
    assert list(cluster.inputs.namespaces) == ["bank"]


def test_peers_are_listed_by_age_whatever_namespace_changed_last() -> None:
    cluster = Cluster(limits(0))
    cluster.offer("bank", "web", created="2026-02-01T00:00:00Z")
    cluster.offer("shop", "web")
    assert list(offered(cluster.refresh("shop", "bank"))) == ["shop", "bank"]
    assert list(offered(cluster.refresh("bank"))) == ["shop", "bank"]


def test_what_another_namespace_releases_is_served_without_a_change_of_its_own() -> None:
    room_for_three = Limits(2 * PEER.memory + 3 * CLUSTER.memory + 20_000)
    cluster = Cluster(room_for_three)
    cluster.offer("shop", "a", "b", "c")
    cluster.offer("bank", "a")
    assert offered(cluster.refresh("shop", "bank")) == {"shop": ["a", "b"], "bank": ["a"]}
    assert cluster.inputs.left_out == 1
    assert "gateways leave out" in cluster.inputs.warning("shop/eu")
    del cluster.objects["bank"]
    assert offered(cluster.refresh("bank")) == {"shop": ["a", "b", "c"]}
    assert (cluster.inputs.left_out, cluster.inputs.warning("shop/eu")) == (0, "")


def test_all_namespaces_at_once_are_the_same_as_one_after_another() -> None:
    whole, single = Cluster(limits(0)), Cluster(limits(0))
    spaces = [f"team-{number}" for number in range(9)]
    for cluster in (whole, single):
        for namespace in spaces:
            cluster.offer(namespace, "web")
    found = [single.refresh(namespace) for namespace in spaces][-1]
    assert whole.refresh(*spaces) == found


@pytest.mark.parametrize(
    ("change", "alike"),
    [
        ({"status": {"gateways": {"gw-1": {"healthy": 1}}}}, True),
        ({"status": {"conditions": [{"type": "Programmed"}]}}, True),
        ({"status": {"services": [{"name": "web", "ports": [{"port": 80, "locals": [20000]}]}]}}, False),
        ({"spec": {"uid": "another", "ca": "CA"}}, False),
        ({"metadata": {"name": "eu", "labels": {names.LABEL_PARENT_CLUSTER_UID: "another"}}}, False),
        ({"metadata": {"name": "eu", "deletionTimestamp": "2026-01-01T00:00:00Z"}}, False),
        ({"metadata": {"name": "eu", "resourceVersion": "2"}}, True),
        ({"endpoints": _ENDPOINT}, False),
    ],
)
def test_versions_are_alike_if_a_gateway_does_the_same_by_both(change: Raw, alike: bool) -> None:
    old = {"metadata": {"name": "eu"}, "spec": {"uid": "uid", "ca": "CA"}}
    assert are_alike(msgspec.json.encode(old), msgspec.json.encode({**old, **change})) is alike
