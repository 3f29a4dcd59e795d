"""The texts in the code, with placeholders for variable parts."""

import ast
import functools
import gc
from collections.abc import Iterator
from pathlib import Path

from hack.lab.sandbox.objects import REPOSITORY
from tests.syntax import uncollected

PROCESSES = ("agent", "webhook")


def modules() -> Iterator[Path]:
    """Yield every module that runs in a cluster or in a terminal."""
    for folder in PROCESSES:
        yield from (REPOSITORY / folder).rglob("*.py")


@functools.cache
def trees() -> list[ast.Module]:
    """Return the parsed modules. Half a million nodes persist, so exclude them from garbage collection."""
    with uncollected():
        found = [ast.parse(path.read_text()) for path in modules()]
        gc.freeze()
    return found


@functools.cache
def texts() -> str:
    """Return all strings in sequence, with NUL for each formatted value."""
    found = []
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                found.append("".join(str(p.value) if isinstance(p, ast.Constant) else "\0" for p in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    found += [path.read_text() for path in (REPOSITORY / "charts/flotilla/templates").iterdir()]
    return "\n".join(found)


def rejections() -> set[str]:
    """Return the reasons for which a target rejects a pod."""
    found = set()
    for tree in trees():
        known = _constants(tree)
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Name(id="Rejection"), [ast.Constant(value=reason), *_]):
                    found.add(str(reason))
                case ast.Call(ast.Name(id="Rejection"), [ast.Name(id=name), *_]) if name in known:
                    found.add(str(known[name]))
    return {reason for reason in found if reason[:1].isupper()}


def _constants(tree: ast.Module) -> dict[str, object]:
    return {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def events() -> set[str]:
    """Return the reasons of events, except events that only repeat a condition."""
    found = set()
    for tree in trees():
        constants = _constants(tree)
        for node in ast.walk(tree):
            match node:
                case ast.Call(ast.Attribute(attr="event"), [_, _, ast.Constant(value=reason), *_]):
                    found.add(str(reason))
                case ast.Call(ast.Attribute(attr="event"), [_, _, ast.Name(id=name), *_]) if name in constants:
                    found.add(str(constants[name]))
                case ast.Call(ast.Name("Event"), [_, ast.Constant(value=reason), _]):
                    found.add(str(reason))
                case ast.Call(ast.Subscript(ast.Name("BlockedCopies")), [_, ast.Name(id=name)]):
                    found.add(str(constants[name]))
    return found
