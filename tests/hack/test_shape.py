"""The shape of the code: how long files and functions are, and how many modules have no life of their own."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from tests.syntax import parsed

FILE_LINES = 500
FUNCTION_LINES = 40
SMALL_LINES = 60
"""A module that is shorter, and that nothing but one other imports, tests included, is a part of that one."""
SMALL_MODULES = 10
STARTED = ("__init__", "__main__")

FILES = [file for root in ("agent", "webhook") for file in sorted((REPOSITORY / root).rglob("*.py"))]
OURS = frozenset(FILES)
MODULES = {
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


class Shape(NamedTuple):
    """Lines of each function of ours, and who imports each module; tests and programs of hack count, too."""

    functions: dict[str, int]
    importers: dict[str, set[str]]


@pytest.fixture(scope="module")
def shape() -> Shape:
    """Each file is parsed once and let go: a million nodes that stay are looked through for garbage again and again."""
    found = Shape({}, defaultdict(set))
    others = [file for root in ("tests", "hack") for file in (REPOSITORY / root).rglob("*.py")]
    for file in (*FILES, *others):
        nodes = list(ast.walk(parsed(file)))
        for module in imported(nodes):
            if MODULES[module] != file:
                found.importers[module].add(name(file))
        if file in OURS:
            found.functions.update(functions(file, nodes))
    return found


def name(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


def length(file: Path) -> int:
    return len(file.read_text().splitlines())


def functions(file: Path, nodes: list[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name(file)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def imported(nodes: list[ast.AST]) -> set[str]:
    """Modules of ours that a file imports, wherever it does."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= parts & MODULES.keys() or {node.module}
    return found & MODULES.keys()


def test_no_file_is_long() -> None:
    assert {name(file): length(file) for file in FILES if length(file) > FILE_LINES} == {}


def test_no_function_is_long(shape: Shape) -> None:
    assert len(shape.functions) > len(FILES)
    assert {function: count for function, count in shape.functions.items() if count > FUNCTION_LINES} == {}


def test_few_small_modules_have_a_single_importer(shape: Shape) -> None:
    importers = shape.importers
    found = {
        module: next(iter(importers[module]))
        for module, file in MODULES.items()
        if file.stem not in STARTED and len(importers[module]) == 1 and length(file) < SMALL_LINES
    }
    assert len(found) <= SMALL_MODULES, "\n".join(f"{module} <- {importer}" for module, importer in found.items())
