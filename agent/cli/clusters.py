"""flotilla clusters, clustersets and bind: clusters that Placements choose from, and permission to choose."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any

import typer

from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import Source, read_targets, source
from agent.cli.options import Context, Failed, Kubeconfig, Namespace, Output, OutputOption, finish
from agent.cli.placements import queries
from agent.cli.placements.lines import cluster_lines, clusters_table, set_lines, sets_table
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, Forbidden, NotFound


def clusters(
    name: Annotated[
        str, typer.Argument(help="Only the ManagedCluster of this name.", autocompletion=queries.cluster_names)
    ] = "",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show ManagedClusters, which Placements choose from: sets, availability, taints, claims, Targets."""
    found = _looked(kubeconfig, context, _look_at_clusters, name)
    table = clusters_table(found.lines, wide=output is Output.WIDE)
    show.show(found, output, table, empty="there are no ManagedClusters: see `flotilla targets`")


def _looked(
    kubeconfig: str, context: str, look: Callable[[Client, str], Coroutine[Any, Any, show.Found]], name: str
) -> show.Found:
    async def run() -> show.Found:
        async with source(kubeconfig, context, everywhere=True) as found:
            return await look(found.client, name)

    return finish(run())


async def _look_at_clusters(client: Client, name: str) -> show.Found:
    notes: list[str] = []
    every = await queries.read(client, MANAGED_CLUSTERS)
    sets = await queries.as_far(client, MANAGED_CLUSTER_SETS, notes, "only sets that a label tells are shown")
    try:
        targets = [each.decode() for each in await read_targets(client, None, notes)]
    except Failed as error:
        targets = []
        notes.append(f"targets are left out: {error}")
    lines = cluster_lines(every, sets, targets)
    if name:
        known = queries.listed(line.name for line in lines)
        lines = [line for line in lines if line.name == name]
        if not lines:
            raise Failed(f"there is no ManagedCluster {name} (there is: {known})")
    return show.Found("clusters", lines, notes)


def clustersets(
    name: Annotated[
        str, typer.Argument(help="Only the ManagedClusterSet of this name.", autocompletion=queries.set_names)
    ] = "",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show ManagedClusterSets: their clusters, and the namespaces whose Placements may choose from them."""
    found = _looked(kubeconfig, context, _look_at_sets, name)
    table = sets_table(found.lines, wide=output is Output.WIDE)
    show.show(found, output, table, empty="there are no ManagedClusterSets")


async def _look_at_sets(client: Client, name: str) -> show.Found:
    notes: list[str] = []
    sets = await queries.read(client, MANAGED_CLUSTER_SETS)
    known = queries.listed(map(queries.name_of, sets))
    if name:
        sets = [each for each in sets if queries.name_of(each) == name]
        if not sets:
            raise Failed(f"there is no ManagedClusterSet {name} (there is: {known})")
    members = await queries.as_far(client, MANAGED_CLUSTERS, notes, "their clusters are left out")
    bindings = await queries.as_far(client, MANAGED_CLUSTER_SET_BINDINGS, notes, "namespaces are left out")
    return show.Found("clustersets", set_lines(sets, members, bindings), notes)


def bind(
    name: Annotated[
        str, typer.Argument(help="Name of a ManagedClusterSet.", metavar="SET", autocompletion=queries.set_names)
    ],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Bind a ManagedClusterSet to a namespace: Placements there may choose from its clusters.

    You need the right to create ManagedClusterSetBindings there, and `managedclustersets/bind` for the set.
    """

    async def run() -> str:
        async with source(kubeconfig, context, namespace) as found:
            return await _bound(found, name)

    print(finish(run()))


async def _bound(where: Source, name: str) -> str:
    """Bind a ManagedClusterSet to the namespace; return a message about the result. Raises Failed, KubeError."""
    place = where.namespace
    await _known(where.client, name)
    binding = {"metadata": {"name": name}, "spec": {"clusterSet": name}}
    kind = MANAGED_CLUSTER_SET_BINDINGS
    head = {"apiVersion": kind.api_version, "kind": kind.name}
    try:
        await where.client.create(kind, head | binding, place)
    except AlreadyExists:
        return f"set {name} is bound to namespace {place} already"
    except NotFound:
        raise Failed(f"there is no namespace {place}: create it, or name another one by -n") from None
    return f"set {name} is bound to namespace {place}: its Placements may choose from the clusters of this set"


async def _known(client: Client, name: str) -> None:
    """Raise Failed if the set does not exist, as far as the user may list sets."""
    try:
        sets = await queries.read(client, MANAGED_CLUSTER_SETS)
    except Forbidden:
        # Binding a set does not require the right to list sets: the webhook checks the right to bind this set.
        return
    names = {queries.name_of(each) for each in sets}
    if name not in names:
        raise Failed(
            f"there is no ManagedClusterSet {name} (there is: {queries.listed(names)}); `flotilla clustersets` shows"
            " them"
        )
