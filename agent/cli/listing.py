"""flotilla targets and flotilla pods: targets of this cluster, its proxy pods, and their delegates."""

from datetime import datetime
from typing import Annotated

import typer

from agent.base.clock import SystemClock
from agent.cli.fleet import show
from agent.cli.fleet.completion import target_names
from agent.cli.fleet.lines import TargetLine, known, pod_lines, target_lines
from agent.cli.fleet.source_queries import Source, agent_notes, read_fleet, source
from agent.cli.fleet.target_queries import Connections, Delegates, ask_all, connections, read_delegates
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, finish
from agent.kube.client import Client


def targets(
    name: Annotated[str, typer.Argument(help="Only the targets of this name.", autocompletion=target_names)] = "",
    namespace: Namespace = "",
    all_namespaces: show.AllNamespaces = False,
    output: OutputOption = Output.TABLE,
    local: show.Local = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show targets: state, pods, free and allocatable room, version of their agents, last answer.

    Targets of the namespace and ClusterTargets.
    """
    now = SystemClock().now()

    async def run() -> show.Found:
        where = source(kubeconfig, context, namespace, everywhere=all_namespaces)
        async with where as found, connections(found.client) as to:
            return await _look_at_targets(found.client, found.namespace, None if local else to, now, name)

    found = finish(run())
    lines = found.lines
    table = show.targets_table(lines, now, wide=output is Output.WIDE)
    below = () if output is Output.WIDE else show.not_ready(lines)
    show.show(found, output, table, empty=show.no_targets(everywhere=all_namespaces), below=below)


async def _look_at_targets(
    client: Client, namespace: str | None, to: Connections | None, now: datetime, name: str = ""
) -> show.Found:
    """Return targets that serve a namespace (None: all); `to` is None to ask none of them. Raises Failed, KubeError."""
    fleet = await read_fleet(client, namespace)
    answers = await ask_all(to, fleet.targets) if to is not None else {}
    lines: list[TargetLine] = target_lines(fleet, answers)
    if name:
        lines = [line for line in lines if line.name == name]
        if not lines:
            known(fleet, name)
    asked = [f"target {line.name} was not asked itself: {line.unread}" for line in lines if line.unread]
    return show.Found("targets", lines, [*fleet.notes, *asked, *await agent_notes(client, now)])


def pods(
    namespace: Namespace = "",
    all_namespaces: show.AllNamespaces = False,
    target: Annotated[str, typer.Option(help="Only those in this target.", autocompletion=target_names)] = "",
    output: OutputOption = Output.TABLE,
    local: show.Local = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show proxy pods: status, target, delegate and its node, age. A target in brackets is being tried.

    Nodes of delegates are read in the targets, as far as you may read their kubeconfig Secrets.
    """
    now = SystemClock().now()

    async def run() -> show.Found:
        async with source(kubeconfig, context, namespace, everywhere=all_namespaces) as found:
            return await _look_at_pods(found, target, local=local)

    found = finish(run())
    table = show.pods_table(found.lines, now, wide=output is Output.WIDE, everywhere=all_namespaces)
    show.show(found, output, table, empty="no proxy pods")


async def _look_at_pods(where: Source, target: str, *, local: bool) -> show.Found:
    """Return the proxy pods of a namespace, or of all; with `local` no target is asked. Raises Failed, KubeError."""
    fleet = await read_fleet(where.client, where.namespace)
    first = pod_lines(fleet, {}, where.namespace, target)
    if target and not first:
        known(fleet, target)
    used = {line.target for line in first if line.bound}
    delegates = Delegates()
    if not local:
        async with connections(where.client) as to:
            chosen = [each for each in fleet.targets if each.name in used]
            delegates = await read_delegates(to, chosen, where.namespace)
    lines = pod_lines(fleet, delegates.found, where.namespace, target)
    return show.Found("pods", lines, [*fleet.notes, *delegates.unread])
