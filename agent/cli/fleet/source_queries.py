"""State of a fleet in its source, read with the user's own rights. Objects that cannot be read become notes."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import CLUSTER_TARGETS, LEASES, NODES, PODS, SECRETS, TARGETS, Kind
from agent.api.names import lifecycle
from agent.base.clock import parse
from agent.cli.options import REQUEST_SECONDS, Failed, connection, opened
from agent.clusters.health.agent_health import Lease
from agent.clusters.target import State
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.errors import Forbidden, KubeError, NotFound
from agent.kube.store import Object
from agent.model.podstate import PROXY_PODS
from agent.targets.target import gather

SILENT = timedelta(seconds=60)
"""Agents renew their lease every few seconds; the rest allows for clocks of two machines that differ."""


@dataclass(frozen=True)
class SourceView:
    """State of a source as a user sees it: targets, their virtual nodes by name, proxy pods."""

    targets: tuple[Object, ...]
    nodes: dict[str, Object]
    proxies: tuple[Object, ...]
    notes: list[str] = field(default_factory=list)
    """Objects that could not be read, and the consequence."""


@dataclass(frozen=True)
class Source:
    """Client of the source, and the namespace that the user has chosen, None for all."""

    client: Client
    namespace: str | None


@asynccontextmanager
async def source(
    kubeconfig: str, context: str, namespace: str = "", *, everywhere: bool = False, seconds: float = REQUEST_SECONDS
) -> AsyncIterator[Source]:
    """Connect to the cluster that the options name. Raises InvalidConfig."""
    chosen = connection(kubeconfig, context)
    async with opened(chosen, "source", seconds) as client:
        yield Source(client, None if everywhere else namespace or chosen.namespace)


async def read_fleet(client: Client, namespace: str | None, known: Iterable[Object] | None = None) -> SourceView:
    """Read targets that serve a namespace (None: all), their nodes, and proxy pods.

    Raises Failed, KubeError.

    :param known: the proxy pods, if an informer already keeps them
    """
    notes: list[str] = []
    targets = await read_targets(client, namespace, notes)
    nodes: dict[str, Object] = {}
    try:
        nodes = await read_nodes(client)
    except Forbidden as error:
        notes.append(f"room and size of targets are left out: {error}")
    proxies = tuple(known) if known is not None else await read_proxies(client, namespace, notes)
    return SourceView(tuple(targets), nodes, proxies, notes)


async def read_targets(client: Client, namespace: str | None, notes: list[str]) -> list[Object]:
    """Read Targets of a namespace (None: all) and ClusterTargets. Raises Failed if their kinds are not served."""
    return [
        *await _targets(client, TARGETS, namespace, notes),
        *await _targets(client, CLUSTER_TARGETS, None, notes),
    ]


def moves_pods(targets: Iterable[Object]) -> bool:
    """Return True if the local agent moves running pods, judging by the conditions of its Targets."""
    return any(condition_of(target.decode(), lifecycle.STABLE) is not None for target in targets)


async def _targets(client: Client, kind: Kind, namespace: str | None, notes: list[str]) -> list[Object]:
    try:
        _, items = await client.list_raw(kind, namespace)
    except NotFound:
        raise Failed(
            f"this cluster does not serve {kind}: choose the source cluster by --context, or install Flotilla in it"
        ) from None
    except Forbidden as error:
        notes.append(f"{kind.plural} are left out: {error}")
        return []
    return [Object(kind, bytes(item)) for item in items]


async def read_nodes(client: Client) -> dict[str, Object]:
    """Read virtual nodes by name."""
    _, items = await client.list_raw(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
    return {node.name: node for node in (Object(NODES, bytes(item)) for item in items)}


async def read_proxies(client: Client, namespace: str | None, notes: list[str]) -> tuple[Object, ...]:
    """Read proxy pods of all namespaces, or of one if the user may not list all."""
    try:
        _, items = await client.list_raw(PODS, fields=PROXY_PODS)
    except Forbidden as error:
        if namespace is None:
            raise
        notes.append(f"proxy pods of other namespaces are not counted: {error}")
        _, items = await client.list_raw(PODS, namespace, fields=PROXY_PODS)
    return tuple(Object(PODS, bytes(item)) for item in items)


async def read_leases(client: Client) -> list[Lease]:
    """Read the leader leases of a cluster's agents in all namespaces."""
    _, items = await client.list_raw(LEASES, fields=f"metadata.name={names.LEASE_CONTROLLERS}")
    return [msgspec.json.decode(item, type=Lease) for item in items]


async def agent_notes(client: Client, now: datetime) -> list[str]:
    """Return a note if no agent leads in this cluster: all output is stale then."""
    try:
        times = renewals(await read_leases(client))
    except KubeError:
        return []
    if not times:
        return [
            f"no agent has ever led in this cluster (there is no lease {names.LEASE_CONTROLLERS}): is it installed?"
        ]
    if now - max(times) > SILENT:
        return [f"the agent of this cluster has been silent since {max(times):%Y-%m-%d %H:%M:%S} UTC: see that it runs"]
    return []


def renewals(leases: Iterable[Lease]) -> list[datetime]:
    """Return the times of the leases' last renewals."""
    return [parse(lease.spec.renew_time) for lease in leases if lease.spec.renew_time]


async def connection_of(client: Client, target: Object) -> Connection | None:
    """Return how to reach a target, None for a self-target. Raises Problem, KubeError.

    A Target that points to another cluster than its own is not connected to. Credential plugins of a Secret are
    programs of another author, and are not run.
    """
    place = place_of(target)
    if place is None:
        return None
    if wrong := wrong_cluster(target.decode()):
        raise gather.Problem(State.WRONG_CLUSTER, wrong)
    secret = Object(SECRETS, await client.get_raw(SECRETS, place.secret[1], place.secret[0]))
    return gather.connection(place, gather.kubeconfig(place, secret), plugins=False)


def wrong_cluster(target: Mapping[str, Any]) -> str:
    """Return the message of a Target that points to another cluster than its own, empty if it does not."""
    ready = condition_of(target, "Ready") or {}
    return str(ready.get("message", "")) if ready.get("reason") == State.WRONG_CLUSTER else ""


def place_of(target: Object) -> gather.Reference | None:
    """Return the reference to a target's kubeconfig, None for a self-target. Raises Problem."""
    manifest = target.decode()
    gather.check(manifest)
    return gather.reference(manifest)
