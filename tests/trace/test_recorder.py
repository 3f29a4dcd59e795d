"""Calls that the recorder attributes to the pod, from programs that really run under the tracer."""

import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.trace.fleet import LAUNCHER
from hack.lab.trace.recorder import ENTRANCES, Calls, function_of, module_of, read

POD = "one"
PARSE = ("agent.model.quantity", "parse")

PROGRAM = f"""
import asyncio
import sys

from agent.api.kinds import PODS
from agent.base.log import context
from agent.kube.store import Object, Store
from agent.model.diff import merge_patch, same
from agent.model.quantity import parse
from webhook import handlers


async def controller(name, key, work):
    with context(controller=name, key=key):
        await asyncio.sleep(0)
        await work()
        await asyncio.sleep(0)


STORE = Store()
STORE.index("told", lambda pod: str(same(pod, pod)))


async def twice():
    parse("1")
    STORE.put(Object(PODS, b'{{"metadata": {{"name": "{POD}"}}}}'))
    await asyncio.gather(asyncio.create_task(later("2")), asyncio.create_task(later("3")))


async def later(text):
    await asyncio.sleep(0)
    parse(text)


async def other():
    for _ in range(9):
        merge_patch({{}}, {{}})
        await asyncio.sleep(0)


class Bodies:
    def read(self, request):
        raise handlers.NotReady


async def request():
    await handlers._served(None, Bodies())(None)
    parse("4")


async def main():
    parse("5")
    work = (
        controller("first", "default/{POD}", twice),
        controller("first", "default/two", other),
        controller("second", "x", other),
    )
    await asyncio.gather(*work, asyncio.create_task(request()))
    merge_patch({{}}, {{}})


asyncio.run(main())
sys.exit(7)
"""


@pytest.fixture(scope="module")
def controllers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Calls]:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "program.py").write_text(PROGRAM)
    out = folder / "out.json"
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}:{folder}"}
    command = [sys.executable, "-m", LAUNCHER, str(out), POD, "program"]
    assert subprocess.run(command, env=environment).returncode == 7
    return read(out)


def test_calls_are_those_of_the_pods_own_reconciliation_and_of_its_tasks(controllers: dict[str, Calls]) -> None:
    assert controllers["first"][PARSE] == 3
    assert {module for module, _ in controllers["first"]} == {"agent.model.quantity"}


def test_what_a_store_calls_is_none_of_the_pods_own_way(controllers: dict[str, Calls]) -> None:
    assert not any(function == "same" for _, function in controllers["first"])


def test_controllers_that_do_nothing_for_the_pod_are_not_there(controllers: dict[str, Calls]) -> None:
    assert controllers.keys() == {"first", "webhook.handlers"}


def test_a_request_is_what_its_task_does_after_the_entrance(controllers: dict[str, Calls]) -> None:
    calls = controllers["webhook.handlers"]
    assert next(iter(calls)) == ("webhook.handlers", "_served.serve")
    assert calls[PARSE] == 1


@pytest.mark.parametrize(("module", "function"), ENTRANCES)
def test_entrances_are_there(module: str, function: str) -> None:
    found = importlib.import_module(module)
    outer, _, inner = function.partition(".")
    code = vars(found)[outer]
    if inspect.isclass(code):
        assert inspect.iscoroutinefunction(getattr(code, inner))
    else:
        assert inner in [each.co_name for each in code.__code__.co_consts if inspect.iscode(each)]


@pytest.mark.parametrize(
    ("path", "want"),
    [("agent/cache/controller.py", "agent.cache.controller"), ("agent/cache/__init__.py", "agent.cache")],
)
def test_a_module_is_named_as_it_is_imported(path: str, want: str) -> None:
    assert module_of(path) == want


@pytest.mark.parametrize(
    ("qualified", "want"),
    [
        ("SomeController.step", "SomeController.step"),
        ("served.<locals>.serve", "served.serve"),
        ("SomeController.__init__.<locals>.<lambda>", "SomeController.__init__.lambda"),
        ("SomeController.step.<locals>.<genexpr>", ""),
    ],
)
def test_comprehensions_belong_to_their_function(qualified: str, want: str) -> None:
    assert function_of(qualified) == want


def test_what_is_dumped_is_read_in_the_same_order(tmp_path: Path) -> None:
    file = tmp_path / "x.trace"
    file.write_text(json.dumps({"controller": [["b", "f", 2], ["a", "g", 1]]}))
    assert list(read(file)["controller"].items()) == [(("b", "f"), 2), (("a", "g"), 1)]
