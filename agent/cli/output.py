"""Output as JSON, YAML and tables: drawn by rich on a terminal, otherwise plain columns."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import yaml

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Heads of the columns, and rows."""


def as_json(data: Any) -> str:
    """Format data as one indented JSON document."""
    return json.dumps(msgspec.to_builtins(data), indent=2)


def as_yaml(data: Any) -> str:
    """Format data as one YAML document."""
    return str(yaml.safe_dump(msgspec.to_builtins(data), sort_keys=False, allow_unicode=True, width=1000)).rstrip()


def as_table(table: Table, *, terminal: bool) -> str:
    """Format rows in columns of equal width."""
    return _rich(table) if terminal else _plain(table)


def _plain(table: Table) -> str:
    heads, rows = table
    found = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in found) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in found
    )


def _rich(table: Table) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    heads, rows = table
    drawn = RichTable(box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        drawn.add_column(head, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console = Console(force_terminal=True)
    with console.capture() as captured:
        console.print(drawn)
    return captured.get().rstrip("\n")
