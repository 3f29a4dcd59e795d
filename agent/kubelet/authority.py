"""The CA whose client certificates this cluster's API server takes, watched: kubelet is given it as a file."""

from collections.abc import Callable
from typing import Any

from agent.api.kinds import CONFIGMAPS
from agent.api.names import CLIENT_CA_CONFIGMAP, CLIENT_CA_NAMESPACE
from agent.clusters.cluster import Cluster
from agent.kube.store import Object

KEY = "client-ca-file"


def watch(cluster: Cluster, changed: Callable[[str], None]) -> Callable[[], None]:
    """Call with the PEM bundle, now and whenever it changes; empty where there is none. Returns the way to stop."""

    def told(old: Object | None, new: Object | None) -> None:
        changed(bundle(new.decode()) if new is not None else "")

    return cluster.informer(CONFIGMAPS, CLIENT_CA_NAMESPACE, fields=f"metadata.name={CLIENT_CA_CONFIGMAP}").subscribe(
        told
    )


def bundle(configmap: dict[str, Any]) -> str:
    """The bundle that the ConfigMap holds."""
    return str((configmap.get("data") or {}).get(KEY) or "")
