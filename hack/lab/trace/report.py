"""Text of a trace. Pure, except that it reads docstrings from files."""

import ast
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hack.lab.trace.fleet import Traced
from hack.lab.trace.recorder import Calls

SCHEDULER = "agent.scheduler."
LIMITS = {"ranked": 20, "reserve": 30}
"""Largest number of modules that one pod should need, by mode."""


def lines(traced: Traced, repository: Path, *, whole: bool = False) -> list[str]:
    """Return the scheduler's functions, preceded with `whole` by the modules of all processes."""
    source, *_ = traced.processes.values()
    calls = of_scheduler(source)
    found = _everything(traced, repository) if whole else []
    found += [f"A pod in mode {traced.mode}, bound to {traced.node}: what the scheduler calls for it"]
    found += modules(calls, repository, functions=True)
    return [*found, "", by_package(calls), count(calls, LIMITS[traced.mode])]


def _everything(traced: Traced, repository: Path) -> list[str]:
    found = []
    for process, controllers in traced.processes.items():
        for controller, calls in controllers.items():
            found += [f"{process}, {controller}", *modules(calls, repository, functions=False), ""]
    return found


def of_scheduler(controllers: Mapping[str, Calls]) -> Calls:
    """Return the sum of the calls of all scheduling controllers."""
    together: Calls = {}
    for calls in controllers.values():
        if next(iter(calls))[0].startswith(SCHEDULER):
            for key, number in calls.items():
                together[key] = together.get(key, 0) + number
    return together


def by_module(calls: Calls) -> dict[str, dict[str, int]]:
    """Return the functions of each module with their counts, in the order of the first calls."""
    found: dict[str, dict[str, int]] = {}
    for (module, function), number in calls.items():
        found.setdefault(module, {})[function] = number
    return found


def modules(calls: Calls, repository: Path, *, functions: bool) -> list[str]:
    """Return one line for each module, with `functions` followed by one for each of its functions."""
    found = []
    for number, (module, called) in enumerate(by_module(calls).items(), 1):
        found.append(f"{number:>4}  {module}: {purpose(repository, module)}")
        if functions:
            found += [f"      {times:>5} x {function}" for function, times in called.items()]
    return found


def by_package(calls: Calls) -> str:
    """Return the number of modules by package."""
    packages = Counter(".".join(module.split(".")[:2]) for module in by_module(calls))
    return "modules by package: " + ", ".join(f"{package} {number}" for package, number in packages.most_common())


def count(calls: Calls, limit: int) -> str:
    """Return the last line: modules, functions and calls."""
    return f"{len(by_module(calls))} modules (limit {limit}), {len(calls)} functions, {sum(calls.values())} calls"


def purpose(repository: Path, module: str) -> str:
    """Return the first line of a module's docstring."""
    path = repository / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
