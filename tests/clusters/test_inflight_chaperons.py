"""Records of chaperons whose creation is in flight."""

import contextlib
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agent.clusters.stores import inflight_chaperons as module
from agent.clusters.stores.inflight_chaperons import InflightChaperons
from agent.clusters.target import Target
from agent.kube.errors import (
    AlreadyExists,
    Deposed,
    Forbidden,
    InvalidConfig,
    KubeError,
    ServerError,
    TooManyRequests,
    Unreachable,
    Unreadable,
    Unsent,
)

POD = ("team", "web-0")


def target(name: str) -> Target:
    return cast("Target", SimpleNamespace(key=("team", name)))


EU, US = target("eu"), target("us")


def fail(sending: InflightChaperons, error: BaseException, uid: str = "P", to: Target = EU) -> None:
    with pytest.raises(type(error)), sending.request(to, POD, uid):
        raise error


def test_one_that_is_being_sent_is_on_its_way_and_an_answer_ends_that() -> None:
    sending = InflightChaperons()
    told: list[Any] = []
    sending.subscribe(lambda target, pod: told.append((target, pod, sending.any_to(EU.key))))
    with sending.holding(EU, POD, "P"):
        with sending.request(EU, POD, "P"):
            assert sending.is_under_way(EU, "P")
            assert sending.any_to(EU.key)
            assert not sending.is_under_way(US, "P")
            assert not sending.any_to(US.key)
        assert sending.is_under_way(EU, "P")
        told.clear()
    assert told == [(EU.key, POD, False)]
    assert not sending.is_under_way(EU, "P")
    assert not sending.is_unknown(EU, "P")


@pytest.mark.parametrize(
    ("error", "unknown"),
    [
        (Unreachable("no answer"), True),
        (Unreadable("nonsense"), True),
        (ServerError(504, "Timeout", "it may have been written"), True),
        (RuntimeError("anything"), True),
        (Unsent("no connection"), False),
        (Deposed("not sent"), False),
        (InvalidConfig("no credentials"), False),
        (Forbidden(403, "Forbidden", "no"), False),
        (AlreadyExists(409, "AlreadyExists", "there is one"), False),
        (TooManyRequests(429, "", "later"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_error_leaves_the_outcome_unknown_unless_nothing_was_created_for_sure(
    error: KubeError, unknown: bool
) -> None:
    sending = InflightChaperons()
    fail(sending, error)
    assert not sending.is_under_way(EU, "P")
    assert sending.is_unknown(EU, "P") is sending.any_to(EU.key) is unknown


def test_what_a_definite_answer_says_of_one_request_says_nothing_of_the_one_before() -> None:
    sending = InflightChaperons()
    fail(sending, Unreachable("no answer"))
    fail(sending, Forbidden(403, "Forbidden", "no"))
    assert sending.is_unknown(EU, "P")
    with sending.request(EU, POD, "P"):
        pass
    assert not sending.is_unknown(EU, "P")


def test_a_reading_that_began_afterwards_tells_what_became_of_it() -> None:
    sending = InflightChaperons()
    before = sending.moment
    fail(sending, Unreachable("no answer"))
    sending.read(EU, before, "P")
    assert sending.is_unknown(EU, "P")
    moment = sending.moment
    sending.read(US, moment, "P")
    sending.read(EU, moment, "another")
    assert sending.is_unknown(EU, "P")
    sending.read(EU, moment, "P")
    assert not sending.is_unknown(EU, "P")


def test_a_reading_during_a_request_tells_nothing_of_it() -> None:
    sending = InflightChaperons()
    with contextlib.suppress(Unreachable), sending.request(EU, POD, "P"):
        moment = sending.moment
        raise Unreachable("no answer")
    sending.read(EU, moment, "P")
    assert sending.is_unknown(EU, "P")


def test_a_reading_of_all_that_a_target_has_tells_of_every_pod() -> None:
    sending = InflightChaperons()
    for uid in ("P", "Q"):
        fail(sending, Unreachable("no answer"), uid)
    fail(sending, Unreachable("no answer"), "P", US)
    sending.read(EU, sending.moment)
    assert not sending.any_to(EU.key)
    assert sending.any_to(US.key)


def test_a_target_that_is_being_removed_is_closed_until_there_is_another_of_its_name() -> None:
    sending = InflightChaperons()
    fail(sending, Unreachable("no answer"))
    sending.close(EU.key)
    assert sending.is_closed(EU)
    assert not sending.is_closed(US)
    sending.close(EU.key, closed=False)
    assert not sending.is_closed(EU)
    sending.close(EU.key)
    sending.forget(EU.key)
    assert not sending.is_closed(EU)
    assert not sending.any_to(EU.key)


def test_no_more_is_remembered_than_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    sending = InflightChaperons()
    for uid in ("P", "Q", "P", "R"):
        fail(sending, Unreachable("no answer"), uid)
    assert [uid for uid in "PQR" if sending.is_unknown(EU, uid)] == ["P", "R"]
