"""The shape of the code: lengths of files and functions, and the number of small modules with a single
importer."""

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
"""Most lines of a module that counts as small if only one other module imports it, tests included."""
SMALL_MODULES = 10
STARTED = ("__init__", "__main__")

FILES = [file for root in ("agent", "webhook") for file in sorted((REPOSITORY / root).rglob("*.py"))]
OURS = frozenset(FILES)
MODULES = {
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


class Shape(NamedTuple):
    """Lines of each function, and importers of each module, including tests and programs in hack."""

    functions: dict[str, int]
    importers: dict[str, set[str]]


@pytest.fixture(scope="module")
def shape() -> Shape:
    """Parse each file once and release it: a million persistent nodes would slow down every garbage collection."""
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
    """Return Flotilla's modules that a file imports, at any place in the file."""
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
