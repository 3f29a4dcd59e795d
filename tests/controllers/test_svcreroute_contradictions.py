"""How often marks are written that the owner of a Service removes. Times are given."""

import json
from itertools import pairwise

from agent.api.kinds import SERVICES
from agent.controllers.svcreroute.contradictions import (
    FIRST_PAUSE_SECONDS,
    FORGET_SECONDS,
    FREE_WRITES,
    LONGEST_PAUSE_SECONDS,
    WINDOW_SECONDS,
    Contradictions,
)
from agent.kube.store import Object


def service(uid: str = "u") -> Object:
    return Object(SERVICES, json.dumps({"metadata": {"name": "web", "namespace": "ns", "uid": uid}}).encode())


def written(seconds: int) -> list[int]:
    """Moments of writes of marks that are removed every second."""
    known, found = Contradictions(), list[int]()
    for now in range(seconds):
        if known.left(service(), now) == 0:
            known.wrote(service(), now)
            found.append(now)
    return found


def test_marks_that_are_removed_each_second_are_written_ever_more_rarely() -> None:
    found = written(7200)
    pauses = [later - earlier for earlier, later in pairwise(found)]
    assert pauses[: FREE_WRITES - 1] == [1] * (FREE_WRITES - 1)
    assert pauses[FREE_WRITES - 1] == FIRST_PAUSE_SECONDS
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    assert len(found) < 20


def test_writes_with_time_between_them_are_never_held_back() -> None:
    known = Contradictions()
    for turn in range(20):
        assert known.left(service(), turn * WINDOW_SECONDS) == 0
        known.wrote(service(), turn * WINDOW_SECONDS)


def test_another_service_of_that_name_and_marks_that_lasted_begin_again() -> None:
    known = Contradictions()
    for now in range(FREE_WRITES):
        known.wrote(service(), now)
    assert known.left(service(), FREE_WRITES) > 0
    assert known.left(service("another"), FREE_WRITES) == 0
    known.wrote(service(), FREE_WRITES + FORGET_SECONDS)
    assert known.left(service(), FREE_WRITES + FORGET_SECONDS) == 0
    known.forget(service().key)
    assert known.left(service(), 0) == 0
