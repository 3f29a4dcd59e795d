"""Results that a background task computes while reconciliation continues."""

import asyncio

import pytest

from agent.runtime.background_tasks import BackgroundTasks
from tests.waiting import until


class Asked:
    """Computations of a test; each ends when the test releases it."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.tasks: BackgroundTasks[str, int] = BackgroundTasks(self.ready.append)
        self.results: list[asyncio.Future[int]] = []

    def take(self, about: object = None) -> int | None:
        return self.tasks.result_or_start("key", about, self.compute)

    async def compute(self) -> int:
        self.results.append(asyncio.get_running_loop().create_future())
        return await self.results[-1]


async def test_a_result_is_there_once_and_its_key_is_told() -> None:
    asked = Asked()
    assert asked.take() is None
    await asyncio.sleep(0)
    assert asked.take() is None
    asked.results[0].set_result(7)
    await until(lambda: asked.ready)
    assert asked.ready == ["key"]
    assert asked.take() == 7
    assert asked.take() is None
    await asked.tasks.close()


async def test_a_new_question_cancels_the_old_one() -> None:
    asked = Asked()
    asked.take("old")
    await asyncio.sleep(0)
    asked.take("new")
    await until(lambda: len(asked.results) == 2)
    assert asked.results[0].cancelled()
    asked.results[1].set_result(2)
    await until(lambda: asked.ready)
    assert asked.take("new") == 2
    assert asked.ready == ["key"]


async def test_an_error_is_raised_where_the_result_is_taken_and_then_it_is_computed_again() -> None:
    asked = Asked()
    asked.take()
    await asyncio.sleep(0)
    asked.results[0].set_exception(ValueError("no"))
    await until(lambda: asked.ready)
    with pytest.raises(ValueError, match="no"):
        asked.take()
    assert asked.take() is None
    await asyncio.sleep(0)
    assert len(asked.results) == 2
    await asked.tasks.close()
    assert asked.results[1].cancelled()


async def test_what_is_dropped_is_told_no_more() -> None:
    asked = Asked()
    asked.take()
    await asyncio.sleep(0)
    asked.tasks.drop("key")
    await until(asked.results[0].cancelled)
    await asyncio.sleep(0)
    assert not asked.ready
