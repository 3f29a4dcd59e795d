"""flotilla version: versions of this command, of agents and of Kubernetes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from agent import __version__
from agent.cli.fleet import show
from agent.cli.fleet.source_queries import read_targets, source
from agent.cli.fleet.target_queries import Answer, ask, ask_all, connections
from agent.cli.fleet.units import NOTHING
from agent.cli.options import Context, Failed, Kubeconfig, Output, OutputOption, finish
from agent.cli.output import Table


@dataclass(frozen=True)
class Component:
    """A component with a version; empty if unknown."""

    where: str
    flotilla: str
    kubernetes: str = ""


def version(
    client: Annotated[bool, typer.Option("--client", help="Of this command alone; no cluster is asked.")] = False,
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show the versions of this command, and of agents and Kubernetes in the source cluster and its targets."""
    own = Component("this command", __version__)
    found = show.Found("versions", [own])
    if not client:
        found = finish(_found(own, kubeconfig, context))
    show.show(found, output, _table(found.lines))


async def _found(own: Component, kubeconfig: str, context: str) -> show.Found:
    notes: list[str] = []
    async with source(kubeconfig, context, everywhere=True) as found, connections(found.client) as to:
        here = await ask(found.client)
        targets = []
        try:
            targets = await read_targets(found.client, None, notes)
        except Failed as error:
            notes.append(str(error))
        answers = await ask_all(to, targets)
    components = [own, _component("source cluster", here)]
    for target in sorted(targets, key=lambda each: each.key):
        answer = answers[target.key]
        title = "/".join(part for part in target.key if part)
        components.append(_component(f"target {title}", answer))
        if answer.unread:
            notes.append(f"target {title} was not asked: {answer.unread}")
    return show.Found("versions", components, notes)


def _component(where: str, answer: Answer) -> Component:
    return Component(where, answer.agent, answer.kubernetes)


def _table(components: Sequence[Component]) -> Table:
    heads = ("WHERE", "FLOTILLA", "KUBERNETES")
    return heads, [[each.where, each.flotilla or NOTHING, each.kubernetes or NOTHING] for each in components]
