"""Which ManagedCluster a Target or ClusterTarget leads to, as its status tells, and which namespace is for it."""

from collections.abc import Iterable

import msgspec

from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.kube.errors import UNDECODABLE
from agent.kube.store import Object

INDEX = "managed-cluster"
"""Of stores of Targets and ClusterTargets."""


class _Status(msgspec.Struct, rename="camel"):
    managed_cluster: str = ""


class _Target(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


_decoder = msgspec.json.Decoder(_Target)


def managed_cluster(obj: Object) -> str:
    """Its name; empty where none was found."""
    try:
        return _decoder.decode(obj.raw).status.managed_cluster
    except UNDECODABLE:
        return ""


def by_managed_cluster(obj: Object) -> Iterable[str]:
    """The values of the index."""
    name = managed_cluster(obj)
    return (name,) if name else ()


def is_for_its_cluster(namespace: Object) -> bool:
    """Whether a namespace is for the ManagedCluster of its name, and not one that has that name by chance."""
    return namespace.labels.get(LABEL_CLUSTER_NAME) == namespace.name
