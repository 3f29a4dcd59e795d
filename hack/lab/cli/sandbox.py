"""flotilla sandbox: several real clusters on this machine."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Coroutine
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import typer

from agent.cli.options import run_interruptible
from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.sandbox import Sandbox, SandboxError, binaries, older
from hack.lab.sandbox.arguments import parse_version

app = typer.Typer(help="Several real clusters on this machine.", no_args_is_help=True)

Result = TypeVar("Result")
Directory = Annotated[Path, typer.Option("--dir", help="Directory of the sandbox.")]


class Output(StrEnum):
    """Output format of `status`."""

    TABLE = "table"
    JSON = "json"


class Network(StrEnum):
    """Source of the clusters' addresses."""

    AUTO = "auto"
    NAMESPACES = "namespaces"
    LOOPBACK = "loopback"


class PodNetwork(StrEnum):
    """Source of the pods' addresses."""

    OWN = "own"
    SAME = "same"


class IpFamily(StrEnum):
    """IP families of addresses, pods and Services."""

    IPV4 = "ipv4"
    IPV6 = "ipv6"
    DUAL = "dual"


Nodes = Annotated[
    str, typer.Option("--nodes", help="Nodes of each cluster: kwok:N (fake), real:1 (root), or both, real:1+kwok:N.")
]
PodNetworks = Annotated[
    PodNetwork, typer.Option(help="own: each cluster's is routed to the others; same: all have the same, not routed.")
]
IpFamilies = Annotated[
    IpFamily, typer.Option(help="IP family of addresses, pods and Services; ipv6 and dual need root.")
]
CandidateScheduler = Annotated[
    bool, typer.Option("--candidate-scheduler", help="A scheduler for mode reserve in each cluster.")
]


@app.command()
def up(
    directory: Directory = Path(".sandbox"),
    clusters: Annotated[str, typer.Option(help="Names of the clusters.")] = "cd,us,eu",
    nodes: Nodes = "kwok:5",
    agents: Annotated[bool, typer.Option(help="Run our agent and webhook in each cluster.")] = True,
    join: Annotated[bool, typer.Option("--join", help="Make the first cluster the source of all others.")] = False,
    self_target: Annotated[bool, typer.Option("--self", help="With --join: the source is a target, too.")] = False,
    agent_flag: Annotated[list[str], typer.Option(help="Flag for every agent, such as --agent-flag=--x=1.")] = [],  # noqa: B006
    region_of: Annotated[list[str], typer.Option(help="CLUSTER=REGION; by default each is its own region.")] = [],  # noqa: B006
    pods_per_node: Annotated[int, typer.Option(min=1, help="Pods that fit on a node.")] = 110,
    node_cpu: Annotated[str, typer.Option(help="CPU of a fake node.")] = "32",
    node_memory: Annotated[str, typer.Option(help="Memory of a fake node.")] = "256Gi",
    candidate_scheduler: CandidateScheduler = False,
    kubernetes: Annotated[list[str], typer.Option(help="CLUSTER=1.30: a control plane of another version.")] = [],  # noqa: B006
    network: Annotated[Network, typer.Option(help="Network namespaces (root) or loopback addresses.")] = Network.AUTO,
    pod_network: PodNetworks = PodNetwork.OWN,
    ip_family: IpFamilies = IpFamily.IPV4,
) -> None:
    """Start the clusters; in a sandbox that is up, start again what died."""

    made = partial(
        Sandbox,
        directory,
        clusters,
        nodes,
        agents=agents,
        agent_flags=agent_flag,
        regions=region_of,
        node_cpu=node_cpu,
        node_memory=node_memory,
        pods_per_node=pods_per_node,
        candidate_scheduler=candidate_scheduler,
        kubernetes=kubernetes,
        network=network.value,
        pod_network=pod_network.value,
        ip_family=ip_family.value,
        progress=default(),
    )
    _run(_up(made, join=join, self_target=self_target))


async def _up(made: Callable[[], Sandbox], *, join: bool, self_target: bool) -> None:
    sandbox = made()
    existed = (sandbox.directory / "sandbox.json").exists()
    started = await sandbox.up()
    if join:
        await sandbox.join(self_target=self_target)
    if existed:
        print("already up; " + (f"started again: {', '.join(started)}" if started else "everything runs"))
    _print_kubeconfigs(sandbox)


def _print_kubeconfigs(sandbox: Sandbox) -> None:
    for cluster in sandbox.clusters:
        print(f"{cluster.name}: export KUBECONFIG={cluster.kubeconfig}")


@app.command()
def down(directory: Directory = Path(".sandbox")) -> None:
    """Stop everything and remove the directory; also after a crash."""
    found = _run(Sandbox(directory).down())
    print("down" if found else f"there is no sandbox in {directory}")


@app.command()
def programs(
    with_helm: Annotated[bool, typer.Option("--helm", help="Helm, too.")] = False,
    with_metrics_server: Annotated[bool, typer.Option("--metrics-server", help="metrics-server, too.")] = False,
    with_traefik: Annotated[bool, typer.Option("--traefik", help="Traefik, too.")] = False,
    real: Annotated[bool, typer.Option("--real", help="Those of real nodes, too; installs Debian packages.")] = False,
    kubernetes: Annotated[str, typer.Option(help="Those of another version instead, such as 1.30.")] = "",
) -> None:
    """Find the control plane's programs, or download or build them, and print where they are."""

    async def run() -> dict[str, str]:
        progress = default()
        if kubernetes:
            return await older.find(parse_version(kubernetes), progress)
        found = dict((await binaries.for_nodes("real", progress)).paths) if real else {}
        found |= (await binaries.for_nodes("kwok", progress)).paths
        if with_helm:
            found["helm"] = await binaries.helm(progress)
        if with_metrics_server:
            found["metrics-server"] = await binaries.metrics_server(progress)
        if with_traefik:
            found["traefik"] = await binaries.traefik(progress)
        return found

    for name, path in _run(run()).items():
        print(f"{name}: {path}")


@app.command()
def status(
    directory: Directory = Path(".sandbox"),
    output: Annotated[Output, typer.Option("-o", "--output", help="Format.")] = Output.TABLE,
) -> None:
    """Show every process, and exit with 1 if one is dead."""

    async def run() -> list[dict[str, Any]]:
        return [msgspec.structs.asdict(line) for line in Sandbox.open(directory).status()]

    lines = _run(run())
    if output is Output.JSON:
        print(json.dumps(lines, indent=1))
    else:
        _print_table(lines)
    if any(line["state"] != "running" for line in lines):
        raise typer.Exit(1)


def _print_table(lines: list[dict[str, Any]]) -> None:
    rows = [["CLUSTER", "ADDRESS", "PROCESS", "PID", "STATE"]]
    rows += [["-" if value is None else str(value) for value in line.values()] for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _run(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a command: an interrupt cleans up first, an error is one clear message."""

    async def guarded() -> Result:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await work

    try:
        return run_interruptible(guarded())
    except (SandboxError, KubeError) as error:
        print(f"flotilla: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("flotilla: interrupted", file=sys.stderr)
        raise typer.Exit(130) from None
