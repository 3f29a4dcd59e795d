"""Our modules as syntax trees."""

import ast
import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def parsed(path: Path) -> ast.Module:
    """The tree of a module.

    Garbage waits: a warning of what nobody closed is shown with the help of the parser, and CPython 3.11 cannot make a
    tree in the middle of another (pytest-dev/pytest#10763).
    """
    with uncollected():
        return ast.parse(path.read_text())
