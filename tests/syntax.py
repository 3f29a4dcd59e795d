"""Syntax trees of Flotilla's modules."""

import ast
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disable garbage collection during the block."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a module.

    Garbage collection is disabled: a ResourceWarning is rendered with the parser's help, and CPython 3.11
    cannot parse during another parse (pytest-dev/pytest#10763).
    """
    with uncollected():
        return ast.parse(path.read_text())
