"""ManagedCluster of a Target or ClusterTarget, as its status reports it, and the namespace of a ManagedCluster."""

from collections.abc import Iterable

import msgspec

from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.kube.errors import UNDECODABLE
from agent.kube.store import Object

INDEX = "managed-cluster"
"""Name of an index in stores of Targets and ClusterTargets."""


class _Status(msgspec.Struct, rename="camel"):
    managed_cluster: str = ""


class _Target(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Target)


def managed_cluster(obj: Object) -> str:
    """Return the name of a Target's ManagedCluster; empty if none was found."""
    try:
        return _decoder.decode(obj.raw).status.managed_cluster
    except UNDECODABLE:
        return ""


def by_managed_cluster(obj: Object) -> Iterable[str]:
    """Return the index values of a Target."""
    name = managed_cluster(obj)
    return (name,) if name else ()


def is_for_its_cluster(namespace: Object) -> bool:
    """Return whether a namespace belongs to the ManagedCluster of its name, rather than having that name by chance."""
    return namespace.labels.get(LABEL_CLUSTER_NAME) == namespace.name
