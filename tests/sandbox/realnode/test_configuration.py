"""Configuration of containerd, kubelet and the node's machine."""

import dataclasses
import json
import tomllib
from pathlib import Path

import pytest

from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.ipfamilies import Family
from hack.lab.sandbox.plan import ClusterPlan, NodeShape, Plan
from hack.lab.sandbox.realnode import boot, containerd, kubelet, machine

CLUSTER = ClusterPlan("us", 1, "10.130.1.11", "us-east", NodeShape(1, pods=7, kind="real"), "flotilla-abcdef-us")
PROGRAMS = {"runc": "/usr/sbin/runc", "ptp": "/usr/lib/cni/ptp", "busybox": "/bin/busybox", "unshare": "/bin/unshare"}


def test_containerds_configuration_can_be_read_and_names_its_programs() -> None:
    read = tomllib.loads(containerd.config(PROGRAMS, Path("/d/net"), "native"))
    cri = read["plugins"]["io.containerd.grpc.v1.cri"]
    assert cri["containerd"]["snapshotter"] == "native"
    assert cri["containerd"]["runtimes"]["runc"]["options"]["BinaryName"] == "/usr/sbin/runc"
    assert cri["cni"] == {"bin_dir": "/usr/lib/cni", "conf_dir": "/d/net"}
    assert cri["sandbox_image"] == containerd.PAUSE_IMAGE


def test_pods_get_addresses_of_their_clusters_network() -> None:
    pods, _ = json.loads(containerd.network(CLUSTER.pod_ranges))["plugins"]
    assert pods["ipam"]["ranges"] == [[{"subnet": "10.225.0.0/16"}]]


@pytest.mark.parametrize("family", ["ipv6", "dual"])
def test_pods_get_addresses_and_routes_of_each_ip_version(family: Family) -> None:
    cluster = dataclasses.replace(CLUSTER, family=family)
    pods, _ = json.loads(containerd.network(cluster.pod_ranges))["plugins"]
    every = {"ipv4": ("10.225.0.0/16", "0.0.0.0/0"), "ipv6": ("fd66:6c74:e0:1::/64", "::/0")}
    wanted = [every["ipv6"]] if family == "ipv6" else [*every.values()]
    assert pods["ipam"]["ranges"] == [[{"subnet": subnet}] for subnet, _ in wanted]
    assert pods["ipam"]["routes"] == [{"dst": route} for _, route in wanted]
    networks = machine.arguments(PROGRAMS, Path("/d"), cluster.pod_ranges)[10]
    assert networks.split() == [
        f"{subnet}={'fd66:6c74:e0::/48' if ':' in subnet else '10.224.0.0/11'}" for subnet, _ in wanted
    ]


def test_the_kubelet_asks_the_api_server_who_calls_and_what_they_may() -> None:
    read = json.loads(kubelet.config(CLUSTER, Path("/d/pki"), "flotilla-abcdef-us"))
    assert read["authentication"]["anonymous"] == {"enabled": False}
    assert read["authentication"]["webhook"] == {"enabled": True}
    assert read["authorization"] == {"mode": "Webhook"}
    assert (read["cgroupRoot"], read["maxPods"], read["port"]) == ("/flotilla-abcdef-us", 7, 10250)


def test_a_kubelet_is_known_as_its_node() -> None:
    assert boot.clients(CLUSTER)["kubelet"] == ("system:node:us-node-0", "system:nodes")


@pytest.mark.parametrize("path", ["/run/x", "/var/lib/x", "/var/log/x"])
def test_a_directory_that_a_node_would_not_see_is_refused(path: str) -> None:
    assert machine.hidden(Path(path))
    with pytest.raises(SandboxError, match="another --dir"):
        boot.check_place(Plan(path, "abcdef", "1.36", {}, (CLUSTER,)))
    with pytest.raises(SandboxError, match="another folder for the programs"):
        boot.check_place(Plan("/home/me", "abcdef", "1.36", {"kubelet": path}, (CLUSTER,)))


def test_any_other_directory_will_do() -> None:
    boot.check_place(Plan("/home/me/.sandbox", "abcdef", "1.36", PROGRAMS, (CLUSTER,)))
