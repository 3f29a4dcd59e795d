"""flotilla pods: proxy pods, and what runs in their place."""

from typing import Annotated

import typer

from agent.base.clock import SystemClock
from agent.cli.fleet import show
from agent.cli.fleet.completion import target_names
from agent.cli.fleet.lines import known, pod_lines
from agent.cli.fleet.source_queries import Source, read_fleet, source
from agent.cli.fleet.target_queries import Delegates, connections, read_delegates
from agent.cli.options import Context, Kubeconfig, Namespace, Output, OutputOption, finish


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
            return await look(found, target, local=local)

    found = finish(run())
    table = show.pods_table(found.lines, now, wide=output is Output.WIDE, everywhere=all_namespaces)
    show.show(found, output, table, empty="no proxy pods")


async def look(where: Source, target: str, *, local: bool) -> show.Found:
    """The proxy pods of a namespace, or of all; with `local` no target is asked. Raises Failed, KubeError."""
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
