"""Progress output for a waiting user."""

import asyncio
import io

import pytest

from agent.cli.progress import Bars, Lines, Silent, ticking


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines(clock: Clock) -> Lines:
    return Lines(io.StringIO(), clock)


def printed(lines: Lines) -> list[str]:
    assert isinstance(lines.stream, io.StringIO)
    return lines.stream.getvalue().splitlines()


def test_a_short_step_is_not_worth_a_line(lines: Lines, clock: Clock) -> None:
    task = lines.task("short")
    task.update(1, 2)
    clock.now = 1.9
    task.finish()
    assert printed(lines) == []


def test_a_long_step_says_every_few_seconds_how_far_it_is(lines: Lines, clock: Clock) -> None:
    task = lines.task("long")
    for second in range(10):
        clock.now = float(second)
        task.update(second, 10, "files")
    task.finish("all there")
    assert printed(lines) == [
        "long: 20 % files (2 s)",
        "long: 50 % files (5 s)",
        "long: 80 % files (8 s)",
        "long: all there (9.0 s)",
    ]


def test_a_step_that_stands_still_is_repeated_until_it_ends(lines: Lines, clock: Clock) -> None:
    task = lines.task("linking")
    task.update(3, 4, "3 of 4 packages")
    clock.now = 4.0
    lines.tick()
    lines.tick()
    task.finish()
    clock.now = 99.0
    lines.tick()
    assert printed(lines) == ["linking: 75 % 3 of 4 packages (4 s)", "linking: done (4.0 s)"]


def test_bars_can_be_shown_twice(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars()
    for title in ("first", "second"):
        with bars as shown:
            task = shown.task(title)
            task.update(1, 2, "half")
            shown.tick()
            task.finish("done")
    assert "second" in capsys.readouterr().err


async def test_work_gives_its_result_and_its_error() -> None:
    async def divide(by: int) -> float:
        return 1 / by

    assert await ticking(Silent(), divide(2)) == 0.5
    with pytest.raises(ZeroDivisionError):
        await ticking(Silent(), divide(0))


async def test_cancelled_work_has_ended_when_its_cancellation_is_reported() -> None:
    ended = False

    async def work() -> None:
        nonlocal ended
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            ended = True

    task = asyncio.ensure_future(ticking(Silent(), work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended
