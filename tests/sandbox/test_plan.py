"""A plan can be saved and loaded, and clusters do not share addresses."""

import itertools
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest

from hack.lab.sandbox import SandboxError, ipfamilies
from hack.lab.sandbox.ipfamilies import VERSIONS, Family
from hack.lab.sandbox.plan import MAX_CLUSTERS, ClusterPlan, NodeShape, Plan, identity


def plan() -> Plan:
    cluster = ClusterPlan("us", 1, "10.130.1.11", "us-east", NodeShape(3), "flotilla-abcdef-us")
    return Plan(
        directory="/somewhere",
        identity="abcdef",
        kubernetes="1.36",
        programs={"etcd": "/bin/etcd"},
        clusters=(cluster,),
        agent_flags=("--lease=1",),
    )


def test_a_plan_reads_back_as_it_was_written() -> None:
    assert Plan.parse(plan().dump()) == plan()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"identity": "abcdef"}', plan().dump()[:200]])
def test_a_damaged_record_is_refused_with_a_remedy(text: bytes) -> None:
    with pytest.raises(SandboxError, match="take it down"):
        Plan.parse(text)


def test_an_identity_belongs_to_a_directory() -> None:
    assert identity(Path("/a")) == identity(Path("/a"))
    assert identity(Path("/a")) != identity(Path("/b"))
    assert len(identity(Path("/a"))) == 6


@pytest.mark.parametrize("family", VERSIONS)
def test_pod_and_service_networks_of_clusters_do_not_overlap(family: Family) -> None:
    clusters = [ClusterPlan(f"c{index}", index, "", "", NodeShape(), family=family) for index in range(MAX_CLUSTERS)]
    for place, version in enumerate(VERSIONS[family]):
        pods = [ip_network(cluster.pod_ranges[place]) for cluster in clusters]
        services = [ip_network(cluster.service_ranges[place]) for cluster in clusters]
        assert {each.version for each in (*pods, *services)} == {version}
        assert not any(a.overlaps(b) for a, b in itertools.combinations((*pods, *services), 2))  # type: ignore[arg-type]
        first = [ip_address(cluster.first_services[place]) for cluster in clusters]
        assert first == [each[1] for each in services]
        every = ip_network(ipfamilies.POD_NETWORKS[version])
        assert all(each.subnet_of(every) for each in pods)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", VERSIONS)
def test_fake_and_real_nodes_have_halves_of_a_pod_network(family: Family) -> None:
    cluster = ClusterPlan("us", 1, "", "", NodeShape(1, kind="real", fakes=1), family=family)
    whole = [ip_network(each) for each in cluster.pod_ranges]
    halves = zip(map(ip_network, cluster.real_pod_ranges), map(ip_network, cluster.fake_pod_ranges), strict=True)
    assert [(real, fake) for real, fake in halves] == [tuple(each.subnets()) for each in whole]


def test_ipv6_addresses_are_in_brackets_before_a_port() -> None:
    cluster = ClusterPlan("us", 1, "fd66:6c75::b", "", NodeShape(), "flotilla-abcdef-us", family="ipv6")
    assert cluster.server == "https://[fd66:6c75::b]:6443"
    assert cluster.listen("webhook") == "[fd66:6c75::b]:9443"
    assert (cluster.wildcard, cluster.extender) == ("fd66:6c75::b", "127.0.0.1:10261")


def test_servers_of_a_dual_stack_cluster_listen_on_both_addresses() -> None:
    cluster = ClusterPlan("us", 1, "10.130.1.11", "", NodeShape(), family="dual", second_address="fd66:6c75::b")
    assert cluster.addresses == ("10.130.1.11", "fd66:6c75::b")
    assert (cluster.server, cluster.listen("webhook"), cluster.wildcard) == ("https://10.130.1.11:6443", ":9443", "::")


def test_clusters_may_have_the_same_pod_network() -> None:
    clusters = [ClusterPlan(f"c{index}", index, "", "", NodeShape(), same_pods=True) for index in range(3)]
    assert {cluster.pod_ranges for cluster in clusters} == {("10.224.0.0/16",)}
    assert len({cluster.service_ranges for cluster in clusters}) == 3
