"""Objects that the sandbox creates."""

from hack.lab.sandbox import manifests
from hack.lab.sandbox.plan import ClusterPlan, NodeShape

CLUSTER = ClusterPlan("us", 0, "10.130.1.10", "us-east-1", NodeShape(2, "8", "16Gi", 1000))


def test_a_fake_node_says_where_it_is_and_how_large() -> None:
    node = manifests.node(CLUSTER, 1, "v1.36.0")
    assert node["metadata"]["name"] == "us-node-1"
    assert node["metadata"]["labels"]["topology.kubernetes.io/region"] == "us-east-1"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "us-node-1"
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    size = {"cpu": "8", "memory": "16Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
    assert node["status"]["allocatable"] == size


def test_a_target_reads_the_secret_of_its_own_name() -> None:
    assert manifests.target("us")["spec"] == {"kubeconfigSecret": {"name": "us"}}
    assert manifests.secret("us", "text")["stringData"] == {"config": "text"}
    assert manifests.secret("us", "text")["metadata"] == {"name": "us", "namespace": "default"}


def test_a_source_trusts_the_service_account_of_its_own_name() -> None:
    assert manifests.source("cd")["spec"] == {"serviceAccountName": "cd"}
    assert manifests.service_account("cd")["metadata"]["name"] == "cd"
