"""Frozen objects: no collection examines them, and garbage among them is found once there is enough of it."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from agent.base.garbage import Freezing

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
    gc.callbacks.append(Freezing(seconds=0.0))
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


def test_garbage_among_frozen_objects_is_freed_once_there_may_be_much() -> None:
    gc.callbacks.append(Freezing(seconds=0.0, examine=gc.get_freeze_count() + MANY))
    cycle = Cycle()
    found = weakref.ref(cycle)
    gc.collect()
    del cycle
    gc.collect()
    assert found() is not None, "it is frozen"
    kept = [[number] for number in range(2 * MANY)]
    gc.collect()
    assert found() is not None, "it is not examined yet"
    gc.collect()
    gc.collect()
    assert found() is None
    assert len(kept) == 2 * MANY
