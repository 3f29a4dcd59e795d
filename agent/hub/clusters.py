"""ManagedClusters of members: patches that fail if the object has changed, and the user with the rights."""

from typing import Any

import msgspec

from agent.api.kinds import MANAGED_CLUSTERS
from agent.api.names.hub import MEMBER_USER
from agent.api.names.ocm import LABEL_CLUSTER_NAME
from agent.clusters.optional_watch import Watched
from agent.kube.client import Client

Raw = dict[str, Any]


async def patch(client: Client, clusters: Watched, cluster: Raw, body: Raw, sub: str | None = None) -> Raw:
    """Patch a ManagedCluster, unless it has changed since it was read. Return the new version.

    :param clusters: watch whose store gets the new version
    :raises Conflict: if it has changed
    """
    metadata = {**body.get("metadata", {}), "resourceVersion": cluster["metadata"]["resourceVersion"]}
    name = cluster["metadata"]["name"]
    raw = await client.patch_raw(MANAGED_CLUSTERS, name, {**body, "metadata": metadata}, sub=sub)
    clusters.absorb(raw)
    found: Raw = msgspec.json.decode(raw)
    return found


def only_user(cluster: Raw) -> str:
    """Return the only user with the rights of a member; empty if all certificates of its groups have them."""
    return str((cluster["metadata"].get("annotations") or {}).get(MEMBER_USER) or "")


def foreign_namespace(name: str) -> str:
    """Return the message about an existing namespace that is not for the cluster of its name."""
    return (
        f'namespace "{name}" exists and is not for this cluster, whose agent would get rights in it: if it may,'
        f" kubectl label namespace {name} {LABEL_CLUSTER_NAME}={name}"
    )
