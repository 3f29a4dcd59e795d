"""Output of the commands that show a fleet: tables, JSON and YAML."""

import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

import msgspec
import typer

from agent.cli.fleet.lines import PodLine, TargetLine, moment
from agent.cli.fleet.units import NOTHING, cores, milliseconds, since, size
from agent.cli.options import Output
from agent.cli.output import Table, as_json, as_table, as_yaml

AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Of all namespaces.")]
Local = Annotated[
    bool, typer.Option("--local", help="Ask no target itself: only what the source cluster knows, without its Secrets.")
]


class Found(msgspec.Struct, frozen=True):
    """Lines of one kind under their name in JSON, and notes about objects that could not be read."""

    name: str
    lines: Sequence[Any]
    notes: Sequence[str] = ()


def show(found: Found, output: Output, table: Table, *, empty: str = "", below: Iterable[str] = ()) -> None:
    """Print the lines. Tables go to standard output and notes to standard error, as kubectl's warnings do."""
    data = {found.name: found.lines, "notes": found.notes}
    if output is Output.JSON:
        print(as_json(data))
        return
    if output is Output.YAML:
        print(as_yaml(data))
        return
    if table[1]:
        # Columns are unfolded as in kubectl: they do not fit into a terminal's width.
        print(as_table(table, terminal=False))
    elif empty:
        print(empty, file=sys.stderr)
    for line in below:
        print(line)
    for note in found.notes:
        print(f"Note: {note}", file=sys.stderr)


def no_targets(*, everywhere: bool) -> str:
    """Return the message for a fleet without targets."""
    where = "there are no targets" if everywhere else "no target serves this namespace (-A looks in all)"
    return f"{where}: see `flotilla join`"


def targets_table(lines: Sequence[TargetLine], now: datetime, *, wide: bool) -> Table:
    """Return the table of targets. Amounts are free/allocatable."""
    heads = ["NAME", "SERVES", "NODE", "READY", "REASON", "PODS", "CPU", "MEMORY", "AGENT", "LAST ANSWER"]
    rows = [
        [
            line.name,
            line.scope,
            line.node or NOTHING,
            f"{line.ready},Cordoned" if line.cordoned else line.ready,
            line.reason,
            str(line.pods),
            _room(cores(line.cpu.free), cores(line.cpu.allocatable)),
            _room(size(line.memory.free), size(line.memory.allocatable)),
            line.agent or NOTHING,
            last_answer(line, now),
        ]
        for line in lines
    ]
    if wide:
        heads += ["PENDING", "KUBERNETES", "ANSWERS IN", "CREDENTIALS", "MESSAGE"]
        for row, line in zip(rows, lines, strict=True):
            kubernetes = line.kubernetes or NOTHING
            row += [str(line.pending), kubernetes, milliseconds(line.seconds), line.credentials, line.message]
    return heads, rows


def last_answer(line: TargetLine, now: datetime) -> str:
    """Return the time of a target's last answer to the agent."""
    if line.last_answer == "now":
        return "now"
    found = moment(line.last_answer)
    return f"{since(found, now)} ago" if found else NOTHING


def not_ready(lines: Iterable[TargetLine]) -> list[str]:
    """Return a line with the message of each target that is not Ready."""
    return [f"{line.name} ({line.scope}): {line.message}" for line in lines if line.ready != "True"]


def pods_table(lines: Sequence[PodLine], now: datetime, *, wide: bool, everywhere: bool) -> Table:
    """Return the table of pods. Brackets mark the target of a pod that is claimed for it and not yet bound."""
    heads = ["NAME", "STATUS", "TARGET", "DELEGATE", "DELEGATE NODE", "AGE"]
    rows = [
        [
            line.name,
            line.status,
            _target(line),
            line.delegate or NOTHING,
            line.delegate_node or NOTHING,
            since(moment(line.created), now),
        ]
        for line in lines
    ]
    if wide:
        heads += ["VIRTUAL NODE", "IP", "MESSAGE"]
        for row, line in zip(rows, lines, strict=True):
            row += [line.node or NOTHING, line.ip or NOTHING, line.message or NOTHING]
    if everywhere:
        heads = ["NAMESPACE", *heads]
        rows = [[line.namespace, *row] for row, line in zip(rows, lines, strict=True)]
    return heads, rows


def _target(line: PodLine) -> str:
    if not line.target:
        return NOTHING
    return line.target if line.bound else f"({line.target})"


def _room(free: str, allocatable: str) -> str:
    return f"{free}/{allocatable}"
