"""Objects of Open Cluster Management, read with the user's own rights. Forbidden kinds become notes."""

from collections.abc import Iterable
from typing import Any

import typer

from agent.api.kinds import MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS, PLACEMENTS, Kind
from agent.cli.fleet.completion import offered
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.errors import Forbidden, NotFound

Raw = dict[str, Any]


async def read(client: Client, kind: Kind, namespace: str | None = None) -> list[Raw]:
    """List all objects of a kind. Raises Failed if the kind is not served, KubeError."""
    try:
        return await client.list(kind, namespace)
    except NotFound:
        raise Failed(not_served(kind)) from None


async def as_far(client: Client, kind: Kind, notes: list[str], lost: str, namespace: str | None = None) -> list[Raw]:
    """List objects like `read`; if that is forbidden, return none and add a note that begins with `lost`."""
    try:
        return await read(client, kind, namespace)
    except Forbidden as error:
        notes.append(f"{lost}: {error}")
        return []


def not_served(kind: Kind) -> str:
    """Return the message for a kind that the API server does not serve."""
    return (
        f"this cluster does not serve {kind}: install Flotilla in it with `--set agent.placement.crds=true`, or choose"
        " another cluster by --context"
    )


def name_of(obj: Raw) -> str:
    """Return the name in an object's metadata."""
    return str(obj["metadata"]["name"])


def listed(names: Iterable[str]) -> str:
    """Return the sorted names, or "none", as text."""
    return ", ".join(sorted(names)) or "none"


def cluster_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of ManagedClusters for shell completion."""
    return offered(context, incomplete, MANAGED_CLUSTERS)


def set_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of ManagedClusterSets for shell completion."""
    return offered(context, incomplete, MANAGED_CLUSTER_SETS)


def placement_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return names of the namespace's Placements for shell completion."""
    return offered(context, incomplete, PLACEMENTS)
