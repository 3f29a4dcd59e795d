"""flotilla hub: make this cluster a hub, and decide which other clusters are its members."""

import asyncio
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer

from agent.base.clock import SystemClock, parse
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import source
from agent.cli.fleet.units import NOTHING, age
from agent.cli.hubs import bootstrap
from agent.cli.hubs.asked import requests
from agent.cli.hubs.members import Members
from agent.cli.joining.contexts import Way, address, side
from agent.cli.options import Context, Kubeconfig, Output, OutputOption, duration, finish
from agent.kube import kubeconfig as kubeconfigs

app = typer.Typer(help="Let other clusters join this one as members.", no_args_is_help=True)

Cluster = Annotated[str, typer.Argument(help="Name of the cluster.", metavar="CLUSTER")]
Key = Annotated[str, typer.Option("--key", help="Fingerprint of the agent's key, which it prints: sha256:...")]
Timeout = Annotated[float, duration("--timeout", help="How long to wait.")]


class Form(StrEnum):
    """Form in which `flotilla hub token` prints a token."""

    COMMAND = "command"
    KUBECONFIG = "kubeconfig"


@app.callback()
def _hub() -> None:
    pass


@app.command()
def init(
    server: Annotated[
        str, typer.Option("--server", help="Address under which other clusters reach this API server.")
    ] = "",
    authority: Annotated[str, typer.Option("--ca-file", help="Its CA certificates.", metavar="FILE")] = "",
    allow_loopback: Annotated[
        bool, typer.Option("--allow-loopback", help="Accept an address that only this machine reaches.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Make the cluster of the context a hub: create what agents look for, and publish the hub's address.

    With the chart, set hub.enabled=true first: it brings all else.
    """

    async def run() -> list[str]:
        document = kubeconfigs.merged(kubeconfigs.files(kubeconfig))
        async with side(document, context) as here:
            way = Way(server, authority, loopback=allow_loopback)
            entry = await asyncio.to_thread(address, here.entry, here.context, way)
            return await bootstrap.initialise(here.client, entry)

    for line in finish(run()):
        print(line)
    print("next: flotilla hub token CLUSTER")


@app.command()
def token(
    cluster: Cluster,
    ttl: Annotated[float, duration("--ttl", help="How long the token is valid.", least="1m")] = 3600.0,
    accept: Annotated[
        bool, typer.Option("--accept", help="The first request by this token needs no `flotilla hub accept`.")
    ] = False,
    form: Annotated[Form, typer.Option("--as", help="The command for that cluster, or a kubeconfig.")] = Form.COMMAND,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Create a bootstrap token with which one cluster may ask to join, and print the command that uses it."""

    async def run() -> str:
        async with source(kubeconfig, context) as found:
            now = SystemClock().now()
            hub, made = await bootstrap.create_token(found.client, cluster, now, ttl, accepts=accept)
        if form is Form.KUBECONFIG:
            return bootstrap.as_kubeconfig(hub, made).rstrip()
        return bootstrap.as_command(hub, made, cluster)

    print(finish(run()))


@app.command(name="requests")
def requests_(
    cluster: Annotated[str, typer.Argument(help="Only of this cluster.", metavar="CLUSTER")] = "",
    everything: Annotated[bool, typer.Option("-a", "--all", help="Also those that are decided.")] = False,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show certificate requests of clusters that want to join, with the fingerprints of their keys."""

    async def run() -> list[Any]:
        async with source(kubeconfig, context) as found:
            return list(await requests(found.client, cluster))

    found = [each for each in finish(run()) if everything or not each.is_decided]
    now = SystemClock().now()
    heads = ["CLUSTER", "REQUEST", "KEY", "REQUESTED BY", "AGE", "STATE"]
    rows = [
        [
            each.cluster,
            each.name,
            each.key or NOTHING,
            each.requester,
            age((now - parse(each.created)).total_seconds()),
            each.state,
        ]
        for each in found
    ]
    show.show(show.Found("requests", found), output, (heads, rows), empty="no cluster asks to join")


@app.command()
def accept(
    cluster: Cluster,
    key: Key = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete the member of this name first: another cluster takes its place.")
    ] = False,
    timeout: Timeout = 60.0,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Accept a cluster as a member, and approve the one request of its agent that has this key.

    Only this agent has the rights of the member from then on. It gets no pods by that: only a Target brings pods.
    """

    async def run() -> str:
        async with source(kubeconfig, context) as found:
            asked = await Members(found.client, timeout, _say).accept(cluster, key, replace=replace)
            return f"{cluster} is a member: {asked.user} with key {asked.key}"

    print(finish(run()))


@app.command()
def reject(cluster: Cluster, key: Key = "", kubeconfig: Kubeconfig = "", context: Context = "") -> None:
    """Deny waiting requests of a cluster, or only the one with a key; without a key also a cluster that is accepted."""

    async def run() -> list[str]:
        async with source(kubeconfig, context) as found:
            return await Members(found.client, 0.0, _say).reject(cluster, key)

    for line in finish(run()):
        print(line)


@app.command()
def remove(
    cluster: Cluster,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="The cluster will not come back: release what its agent should clean up.")
    ] = False,
    timeout: Timeout = 60.0,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Delete a member with its works and addons, and wait until its agent has cleaned up. Its namespace stays."""

    async def run() -> str:
        async with source(kubeconfig, context) as found:
            await Members(found.client, timeout, _say).remove(cluster, abandon=abandon)
        return f"{cluster} is no longer a member; namespace {cluster} stays with what else is in it"

    print(finish(run()))


def _say(line: str) -> None:
    """Print what a verb waits for."""
    print(line, file=sys.stderr)
