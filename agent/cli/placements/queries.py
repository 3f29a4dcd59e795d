"""Objects of Open Cluster Management, read with the user's own rights. What cannot be read becomes a note."""

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
    """All objects of a kind. Raises Failed where it is not served, KubeError."""
    try:
        return await client.list(kind, namespace)
    except NotFound:
        raise Failed(not_served(kind)) from None


async def as_far(client: Client, kind: Kind, notes: list[str], lost: str, namespace: str | None = None) -> list[Raw]:
    """The same, none where the user may not read them, of which a note tells, and of what is lost."""
    try:
        return await read(client, kind, namespace)
    except Forbidden as error:
        notes.append(f"{lost}: {error}")
        return []


def not_served(kind: Kind) -> str:
    """What is said where an API server does not know a kind."""
    return (
        f"this cluster does not serve {kind}: install Flotilla in it with `--set agent.placement.crds=true`, or choose"
        " another cluster by --context"
    )


def name_of(obj: Raw) -> str:
    """The name in an object's metadata."""
    return str(obj["metadata"]["name"])


def listed(names: Iterable[str]) -> str:
    """Names in order, or that there are none."""
    return ", ".join(sorted(names)) or "none"


def cluster_names(context: typer.Context, incomplete: str) -> list[str]:
    """What shells offer for the name of a ManagedCluster."""
    return offered(context, incomplete, MANAGED_CLUSTERS)


def set_names(context: typer.Context, incomplete: str) -> list[str]:
    """What shells offer for the name of a ManagedClusterSet."""
    return offered(context, incomplete, MANAGED_CLUSTER_SETS)


def placement_names(context: typer.Context, incomplete: str) -> list[str]:
    """What shells offer for the name of a Placement of the namespace."""
    return offered(context, incomplete, PLACEMENTS)
