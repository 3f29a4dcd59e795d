"""Command lines and configuration of kubelet and kube-proxy. Pure."""

import json
from pathlib import Path
from typing import Any

from hack.lab.sandbox.plan import ClusterPlan
from hack.lab.sandbox.realnode import containerd

SYNC_PERIOD = "10s"
"""Longest delay until a changed ConfigMap or Secret reaches a pod's files; the default is a minute."""


def node_name(cluster: ClusterPlan) -> str:
    """Return the name of a cluster's only real node. It is `node` without, `real` with fake nodes."""
    return f"{cluster.name}-{'real' if cluster.nodes.fakes else 'node'}-0"


def config(cluster: ClusterPlan, pki: Path, cgroup: str) -> str:
    """Return the kubelet's configuration file (JSON, which is YAML)."""
    settings: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": cluster.wildcard,
        "port": cluster.ports["kubelet"],
        "healthzBindAddress": "127.0.0.1",
        "healthzPort": cluster.ports["kubelet-health"],
        "tlsCertFile": str(pki / "kubelet.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        # The disk belongs to the machine: a full disk must not evict pods, and deleted images could not be pulled
        # again.
        "evictionHard": {"memory.available": "32Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        "imageGCHighThresholdPercent": 100,
        # By default a log of 10 MiB is rotated, and kubectl logs shows only the last part.
        "containerLogMaxSize": "4Gi",
        "maxPods": cluster.nodes.pods,
        "syncFrequency": SYNC_PERIOD,
        "serializeImagePulls": False,
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        # There is no DNS. A lookup at an address without a server fails at once, and the kubelet does not warn for
        # each pod.
        "clusterDNS": [cluster.address],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
    }
    return json.dumps(settings, indent=1) + "\n"


def arguments(cluster: ClusterPlan, pki: Path, config_file: Path) -> list[str]:
    """Return the kubelet's command line."""
    return [
        f"--config={config_file}",
        f"--kubeconfig={pki / 'kubelet.kubeconfig'}",
        f"--hostname-override={node_name(cluster)}",
        f"--node-ip={','.join(cluster.addresses)}",
        f"--node-labels=type=real,topology.kubernetes.io/region={cluster.region}",
        "--root-dir=/var/lib/kubelet",
        *(["--register-with-taints=type=real:NoSchedule"] if cluster.nodes.fakes else []),
    ]


def proxy_arguments(cluster: ClusterPlan, pki: Path) -> list[str]:
    """Return the command line of kube-proxy."""
    return [
        f"--kubeconfig={pki / 'kube-proxy.kubeconfig'}",
        f"--hostname-override={node_name(cluster)}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={','.join(cluster.pod_ranges)}",
        f"--healthz-bind-address=127.0.0.1:{cluster.ports['kube-proxy-health']}",
        f"--metrics-bind-address=127.0.0.1:{cluster.ports['kube-proxy-metrics']}",
        "--oom-score-adj=0",
        # The limit applies to the whole machine, and a network namespace cannot change it.
        "--conntrack-max-per-core=0",
    ]
