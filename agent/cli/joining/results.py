"""Results of all pairs, as text and as data; failures and notes are separate."""

import sys
from collections.abc import Sequence

import typer

from agent.cli.joining.objects import Report
from agent.cli.options import Output
from agent.cli.output import Table, as_json, as_table, as_yaml


def show(reports: Sequence[Report], output: Output, *, again: str) -> None:
    """Print the reports; raise typer.Exit with status 1 if a pair failed. `again` is the remedy."""
    match output:
        case Output.JSON:
            print(as_json(list(reports)))
        case Output.YAML:
            print(as_yaml(list(reports)))
        case Output.TABLE | Output.WIDE:
            print(as_table(table(reports, wide=output is Output.WIDE), terminal=sys.stdout.isatty()))
    for line in (*notes(reports), *failures(reports, again)):
        print(line, file=sys.stderr)
    if any(report.state == "failed" for report in reports):
        raise typer.Exit(1)


def table(reports: Sequence[Report], *, wide: bool) -> Table:
    """Return a table with a row for each pair."""
    heads = ["SOURCE", "TARGET", "NAMESPACE", "STATE", "TOKEN ENDS", "CHANGES"]
    rows = [
        [
            report.source_cluster,
            report.target,
            report.namespace or "all",
            report.state,
            report.token_ends or "-",
            ("; ".join(report.changes) if wide else str(len(report.changes))) if report.changes else "none",
        ]
        for report in reports
    ]
    return heads, rows


def notes(reports: Sequence[Report]) -> list[str]:
    """Return the notes of all pairs without duplicates."""
    return [f"Note: {note}" for note in dict.fromkeys(note for report in reports for note in report.notes)]


def failures(reports: Sequence[Report], again: str) -> list[str]:
    """Return for each failed pair its failure, the completed changes, and the remedy."""
    lines = []
    for report in reports:
        if report.state != "failed":
            continue
        done = "; ".join(report.changes) or "nothing"
        lines.append(f"flotilla: {report.source_cluster} -> {report.target}: {report.message}")
        lines.append(f"  Done before that: {done}. {again}")
    return lines
