"""Only agent.runtime creates asyncio tasks; each exception is listed with its reason."""

import ast
import asyncio

import pytest

from agent.runtime.task_group import side_by_side, together
from hack.lab.sandbox.objects import REPOSITORY
from tests.syntax import parsed

MAKERS = {"create_task", "ensure_future", "TaskGroup"}
ELSEWHERE = {
    "agent/kube/splice.py": "a pair of channels is watched for which ends first, and runtime is above kube",
    "agent/kubelet/server.py": "one for each connection, in a group that ends with the server",
    "agent/kubelet/streaming.py": "what a client waits for is cancelled when it goes",
    "agent/cli/draining/drainer.py": "a command, not a process that stays",
    "agent/cli/joining/pairs.py": "a command, not a process that stays",
    "agent/cli/progress.py": "a command, not a process that stays",
}
"""Reason why a module creates tasks of its own, by its path."""


def test_nobody_else_makes_tasks() -> None:
    found = {
        str(path.relative_to(REPOSITORY))
        for folder in ("agent", "webhook")
        for path in (REPOSITORY / folder).rglob("*.py")
        if "runtime" not in path.relative_to(REPOSITORY).parent.parts
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MAKERS
    }
    assert found == ELSEWHERE.keys()


async def test_if_one_fails_the_others_end() -> None:
    ended = asyncio.Event()

    async def lasts() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    with pytest.raises(ExceptionGroup) as failure:
        await together(lasts(), fails())
    assert failure.group_contains(ValueError, match="no")
    assert ended.is_set()


async def test_side_by_side_all_come_to_their_end_and_the_first_that_fails_is_told() -> None:
    ended: list[int] = []

    async def ends(number: int) -> int:
        await asyncio.sleep(0)
        ended.append(number)
        if number % 2:
            raise ValueError(number)
        return number

    assert await side_by_side([ends(0), ends(2)]) == [0, 2]
    ended.clear()
    with pytest.raises(ValueError, match="1"):
        await side_by_side([ends(0), ends(1), ends(2), ends(3)])
    assert ended == [0, 1, 2, 3]
