"""Frozen objects: no collection examines them, and garbage among them is found once there is enough of it."""

import gc
import math
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.base.garbage import Freezing, limit, resident

MANY = 50_000


class Cycle:
    """An object that only the garbage collector frees."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def automatic() -> Iterator[None]:
    """Let only the test's own collections run, and remove its callback."""
    callbacks = list(gc.callbacks)
    gc.disable()
    gc.collect()
    gc.freeze()
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()
    gc.enable()


def test_survivors_of_a_long_collection_are_not_examined_again() -> None:
    gc.callbacks.append(Freezing(seconds=0.0, resident=lambda: 0))
    kept = [[number] for number in range(MANY)]
    gc.collect(1)
    assert len(gc.get_objects()) > MANY, "only full collections freeze"
    gc.collect()
    assert len(gc.get_objects()) < MANY
    assert len(kept) == MANY


def test_a_short_collection_freezes_nothing() -> None:
    gc.callbacks.append(Freezing(seconds=60.0))
    kept = [[number] for number in range(MANY)]
    gc.collect()
    assert len(gc.get_objects()) > MANY == len(kept)


def test_garbage_among_frozen_objects_is_freed_once_the_process_has_grown() -> None:
    memory = 100
    gc.callbacks.append(Freezing(seconds=0.0, examine=200, resident=lambda: memory))
    cycle = Cycle()
    found = weakref.ref(cycle)
    gc.collect()
    del cycle
    gc.collect()
    assert found() is not None, "it is frozen"
    memory = 200
    gc.collect()
    gc.collect()
    assert found() is None
    kept = [[number] for number in range(MANY)]
    memory = 399
    gc.collect()
    gc.collect()
    assert len(gc.get_objects()) < MANY == len(kept), "its objects stay frozen until it has doubled"
    memory = 400
    gc.collect()
    assert len(gc.get_objects()) > MANY


def test_the_resident_memory_is_that_of_this_process() -> None:
    assert 10 << 20 < resident() < 10 << 30


def test_garbage_is_freed_before_a_container_reaches_its_memory_limit() -> None:
    memory = 100
    freezing = Freezing(seconds=0.0, examine=200, resident=lambda: memory, limit=lambda: 300.0)
    gc.callbacks.append(freezing)
    for memory, freed in ((150, True), (200, False), (210, True), (220, False), (240, True)):
        cycle = Cycle()
        found = weakref.ref(cycle)
        gc.collect(1)
        gc.freeze()
        del cycle
        gc.collect()
        gc.collect()
        assert (found() is None) is freed, memory


def test_the_memory_limit_is_that_of_the_container(tmp_path: Path) -> None:
    for text, expected in (("268435456\n", 256 << 20), ("max\n", math.inf)):
        (tmp_path / "memory.max").write_text(text)
        assert limit(tmp_path / "memory.max") == expected
    assert limit(tmp_path / "missing") == math.inf
