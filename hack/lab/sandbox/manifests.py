"""Objects the sandbox puts into its clusters: fake nodes, and what joins a target to a source. Pure."""

from typing import Any

from agent.api.names import ENABLED_VALUE, GROUP, LABEL_ENABLED, SCHEDULER_CANDIDATE, VERSION
from hack.lab.sandbox.plan import ClusterPlan

Manifest = dict[str, Any]

NAMESPACE = "default"
AGENT_NAMESPACE = "kube-system"
TOKEN_SECONDS = 30 * 24 * 3600
HTTP_TIMEOUT = "300s"
"""Longer than any hold: a bind that the scheduler gives up is no reservation any more."""
INITIAL_BACKOFF_SECONDS = 1
MAX_BACKOFF_SECONDS = 5
"""A candidate whose bind was refused is tried again after 1, 2, 4, then every 5 s, and nothing wakes it earlier: this
is how long it takes at most until a new round of reservation, or an extender that is back, is noticed."""


def node(cluster: ClusterPlan, number: int, version: str) -> Manifest:
    """A fake node that kwok keeps alive. All of a cluster share one range of pods. `version` is its kubelet's."""
    name = f"{cluster.name}-node-{number}"
    size = {"cpu": cluster.nodes.cpu, "memory": cluster.nodes.memory, "ephemeral-storage": "1Ti"}
    size["pods"] = str(cluster.nodes.pods)
    # kwok takes one address of nodes from its command line: a stage reads the second one from this annotation.
    second = {"sandbox.flotilla/second-address": cluster.second_address} if cluster.second_address else {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "topology.kubernetes.io/region": cluster.region,
                "type": "kwok",
            },
            "annotations": {"kwok.x-k8s.io/node": "fake", **second},
        },
        "spec": {"podCIDR": cluster.fake_pod_ranges[0], "podCIDRs": [*cluster.fake_pod_ranges]},
        "status": {
            "capacity": size,
            "allocatable": size,
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "kwok",
                "kernelVersion": "kwok",
                "kubeProxyVersion": "",
                "kubeletVersion": version,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "kwok",
                "systemUUID": "",
            },
        },
    }


def source(name: str) -> Manifest:
    """In a target: lets a service account of the same name act for the source cluster."""
    return _ours("Source", name, {"serviceAccountName": name})


def target(name: str) -> Manifest:
    """In the source: a target whose kubeconfig is in the Secret of the same name."""
    return _ours("Target", name, {"kubeconfigSecret": {"name": name}})


def self_target(name: str) -> Manifest:
    """In the source: the source itself as a target."""
    return _ours("Target", name, {"self": True})


def secret(name: str, kubeconfig: str) -> Manifest:
    """A Secret that holds a target's kubeconfig under the key that Targets read by default."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": {"config": kubeconfig},
    }


def empty_secret(name: str, namespace: str) -> Manifest:
    """A Secret without data; applying it again leaves the data that there is."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "type": "Opaque"}


def service_account(name: str, namespace: str = NAMESPACE) -> Manifest:
    """A service account, by default in the joined namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def account_name(process: str) -> str:
    """The service account of a cluster's own agent or webhook."""
    return f"flotilla-{process}"


def user(process: str) -> str:
    """The same as API servers know its user."""
    return f"system:serviceaccount:{AGENT_NAMESPACE}:{account_name(process)}"


def token_request() -> Manifest:
    """Asks for a token that outlives any sandbox."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }


def enabled_namespace() -> Manifest:
    """The joined namespace with the label that lets its pods be elected."""
    labels = {LABEL_ENABLED: ENABLED_VALUE}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}


def _ours(kind: str, name: str, spec: Manifest) -> Manifest:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def scheduler_configuration(kubeconfig: str, extender_url: str) -> dict[str, Any]:
    """Configuration of the kube-scheduler that reserves nodes for candidates: an extender of it only binds."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 1000, "burst": 2000},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": INITIAL_BACKOFF_SECONDS,
        "podMaxBackoffSeconds": MAX_BACKOFF_SECONDS,
        "profiles": [{"schedulerName": SCHEDULER_CANDIDATE}],
        "extenders": [
            {"urlPrefix": extender_url, "bindVerb": "bind", "httpTimeout": HTTP_TIMEOUT, "ignorable": False},
        ],
    }
