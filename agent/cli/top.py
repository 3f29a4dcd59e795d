"""flotilla top: current state of targets, refreshed continuously."""

import asyncio
import contextlib
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from agent.api.kinds import PODS
from agent.base.clock import SystemClock
from agent.cli.fleet import show
from agent.cli.fleet.lines import TargetLine, target_lines, unplaced
from agent.cli.fleet.source_queries import Source, agent_notes, read_fleet, source
from agent.cli.fleet.target_queries import Connections, ask_all, connections
from agent.cli.fleet.units import NOTHING, cores, milliseconds, size
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, duration, finish, told
from agent.cli.output import Table, as_table
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.podstate import PROXY_PODS
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

if TYPE_CHECKING:
    from rich.live import Live

_FIRST_SECONDS = 3.0
"""Timeout of the first list and watch of pods. Without the right to watch them, every refresh lists them."""


def top(
    namespace: Namespace = "",
    all_namespaces: show.AllNamespaces = False,
    once: Annotated[bool, typer.Option("--once", help="Print once and end.")] = False,
    interval: Annotated[float, duration(least="500ms", help="How long between two looks.")] = 2.0,
    output: OutputOption = Output.TABLE,
    local: show.Local = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show targets live: pods, those pending, free room, how long answers take. Ctrl-C ends it.

    Without a terminal, and in formats other than tables, it prints once.
    """
    live = not once and sys.stdout.isatty() and output in (Output.TABLE, Output.WIDE)

    async def run() -> show.Found | None:
        where = source(kubeconfig, context, namespace, everywhere=all_namespaces)
        async with where as found, connections(found.client) as to:
            asked = None if local else to
            if not live:
                return await look(found, asked, SystemClock().now())
            await _watch(found, asked, interval)
        return None

    with contextlib.suppress(*([KeyboardInterrupt] if live else [])):
        found = finish(run())
        if found is not None:
            show.show(found, output, table(found.lines), empty=show.no_targets(everywhere=all_namespaces))


async def look(
    where: Source, to: Connections | None, now: datetime, proxies: Iterable[Object] | None = None
) -> show.Found:
    """Read targets, and note the number of pods without one. Raises Failed, KubeError."""
    fleet = await read_fleet(where.client, where.namespace, proxies)
    answers = await ask_all(to, fleet.targets) if to is not None else {}
    lines = target_lines(fleet, answers)
    notes = [*fleet.notes, *await agent_notes(where.client, now)]
    if waiting := unplaced(fleet):
        pods = "proxy pod waits" if waiting == 1 else "proxy pods wait"
        notes.append(f"{waiting} {pods} for a target: `flotilla explain pod NAME` says why")
    return show.Found("targets", lines, notes)


def table(lines: Sequence[TargetLine]) -> Table:
    """Return a table of running and pending pods, capacity, and latency."""
    heads = ["TARGET", "SERVES", "STATE", "PODS", "PENDING", "CPU FREE", "CPU", "MEMORY FREE", "MEMORY", "ANSWERS IN"]
    return heads, [
        [
            line.name,
            line.scope,
            "Cordoned" if line.ready == "True" and line.cordoned else line.reason,
            str(line.pods),
            str(line.pending),
            cores(line.cpu.free),
            cores(line.cpu.allocatable),
            size(line.memory.free),
            size(line.memory.allocatable),
            milliseconds(line.seconds) if not line.unread else NOTHING,
        ]
        for line in lines
    ]


async def _watch(where: Source, to: Connections | None, interval: float) -> None:
    from rich.console import Console
    from rich.live import Live

    async with Supervisor("top") as supervisor:
        # Pods are the most numerous objects on the screen, so they are listed once and then watched.
        pods = Informers(where.client, supervisor).get(PODS, fields=PROXY_PODS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(pods.synced.wait(), _FIRST_SECONDS)
        with Live(console=Console(), screen=True, auto_refresh=False) as screen:
            await _refresh(where, to, interval, pods, screen)


async def _refresh(where: Source, to: Connections | None, interval: float, pods: Informer, screen: "Live") -> None:
    from rich.console import Group
    from rich.text import Text

    last = show.Found("targets", [])
    while True:
        now = SystemClock().now()
        heading = f"{now:%H:%M:%S} UTC, every {interval:g} s; Ctrl-C ends"
        try:
            last = await look(where, to, now, pods.store if pods.synced.is_set() else None)
        except KubeError as error:
            # The last state stays on the screen.
            heading += f"; {told(error)}"
        columns = Text(as_table(table(last.lines), terminal=False), no_wrap=True, overflow="ellipsis")
        notes = [Text(f"Note: {note}") for note in last.notes]
        screen.update(Group(Text(heading), Text(), columns, Text(), *notes), refresh=True)
        await asyncio.sleep(interval)
