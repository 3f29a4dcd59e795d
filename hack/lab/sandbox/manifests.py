"""Manifests of a sandbox's objects: fake nodes, and objects that join a target to a source. Pure."""

from typing import Any

from agent.api.names import ENABLED_VALUE, GROUP, LABEL_ENABLED, SCHEDULER_CANDIDATE, VERSION
from hack.lab.sandbox.plan import ClusterPlan

Manifest = dict[str, Any]

NAMESPACE = "default"
AGENT_NAMESPACE = "kube-system"
TOKEN_SECONDS = 30 * 24 * 3600
HTTP_TIMEOUT = "300s"
"""Timeout of a bind, longer than the agent ever delays its answer: an aborted bind is no longer a reservation."""
INITIAL_BACKOFF_SECONDS = 1
MAX_BACKOFF_SECONDS = 5
"""Seconds between retries of a candidate after a refused bind: 1, 2, 4, then 5. No event shortens them.

So this is the longest delay until the scheduler notices a new reservation round, or that the extender works
again.
"""


def node(cluster: ClusterPlan, number: int, version: str) -> Manifest:
    """Return a fake node that kwok keeps ready. A cluster's fake nodes share a pod range. `version` is its
    kubelet's.
    """
    name = f"{cluster.name}-node-{number}"
    size = {"cpu": cluster.nodes.cpu, "memory": cluster.nodes.memory, "ephemeral-storage": "1Ti"}
    size["pods"] = str(cluster.nodes.pods)
    # kwok's command line accepts one address of nodes: a stage reads the second one from this annotation.
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
    """Return a Source for a target: a service account of the same name acts for the source cluster."""
    return _ours("Source", name, {"serviceAccountName": name})


def target(name: str) -> Manifest:
    """Return a Target for the source, whose kubeconfig is in the Secret of the same name."""
    return _ours("Target", name, {"kubeconfigSecret": {"name": name}})


def self_target(name: str) -> Manifest:
    """Return a Target by which the source itself is a target."""
    return _ours("Target", name, {"self": True})


def secret(name: str, kubeconfig: str) -> Manifest:
    """Return a Secret with a target's kubeconfig under the default key."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "stringData": {"config": kubeconfig},
    }


def empty_secret(name: str, namespace: str) -> Manifest:
    """Return a Secret without data; applying it again keeps existing data."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "type": "Opaque"}


def service_account(name: str, namespace: str = NAMESPACE) -> Manifest:
    """Return a service account, by default in the joined namespace."""
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}


def account_name(process: str) -> str:
    """Return the name of the service account of a cluster's own agent or webhook."""
    return f"flotilla-{process}"


def user(process: str) -> str:
    """Return the user of that service account."""
    return f"system:serviceaccount:{AGENT_NAMESPACE}:{account_name(process)}"


def token_request() -> Manifest:
    """Return a request for a token that expires after any sandbox has ended."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }


def enabled_namespace() -> Manifest:
    """Return the joined namespace with the label that lets its pods be elected."""
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
    """Return the configuration of the candidate scheduler; its extender only binds."""
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
