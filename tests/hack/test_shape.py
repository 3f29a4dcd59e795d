"""The shape of the code: how long files and functions are, and how many modules have no life of their own."""

import ast
import functools
from collections import defaultdict
from pathlib import Path

import pytest

from agent.sandbox.objects import REPOSITORY

FILE_LINES = 300
FUNCTION_LINES = 40
SMALL_LINES = 60
"""A module that is shorter, and that nothing but one other imports, tests included, is a part of that one."""
SMALL_MODULES = 10
STARTED = ("__init__", "__main__")

FILES = [file for root in ("agent", "webhook") for file in sorted((REPOSITORY / root).rglob("*.py"))]
MODULES = {
    ".".join(file.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES
}


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Each file, parsed; not when tests are collected, which every worker does."""
    return {file: ast.parse(file.read_text()) for file in FILES}


def name(file: Path) -> str:
    return str(file.relative_to(REPOSITORY))


def length(file: Path) -> int:
    return len(file.read_text().splitlines())


def imported(tree: ast.Module) -> set[str]:
    """Modules of ours that a file imports, wherever it does."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= parts & MODULES.keys() or {node.module}
    return found & MODULES.keys()


@pytest.fixture(scope="module")
def importers() -> dict[str, set[str]]:
    """Who imports each module; tests and programs of hack count, too."""
    others = [file for root in ("tests", "hack") for file in (REPOSITORY / root).rglob("*.py")]
    found = defaultdict(set)
    for file, tree in [*trees().items(), *((file, ast.parse(file.read_text())) for file in others)]:
        for module in imported(tree):
            if MODULES[module] != file:
                found[module].add(name(file))
    return found


def test_no_file_is_long() -> None:
    assert {name(file): length(file) for file in FILES if length(file) > FILE_LINES} == {}


def test_no_function_is_long() -> None:
    functions = (
        (file, node)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    lines = {f"{name(file)}:{node.lineno} {node.name}": node.end_lineno - node.lineno + 1 for file, node in functions}
    assert {function: count for function, count in lines.items() if count > FUNCTION_LINES} == {}


def test_few_small_modules_have_a_single_importer(importers: dict[str, set[str]]) -> None:
    found = {
        module: next(iter(importers[module]))
        for module, file in MODULES.items()
        if file.stem not in STARTED and len(importers[module]) == 1 and length(file) < SMALL_LINES
    }
    assert len(found) <= SMALL_MODULES, "\n".join(f"{module} <- {importer}" for module, importer in found.items())
