"""Consequences of a target's state for its pods: recently returned, silent, or refusing the agent."""

from datetime import timedelta

import pytest

from agent.clusters.health.record import Record, State, grace, refuses, silent_in
from tests.controllers.targets.test_virtualnode_decide import NOW


@pytest.mark.parametrize(
    ("state", "since", "seconds", "left"),
    [
        pytest.param(State.READY, -4.0, 10.0, 6.0, id="just back"),
        pytest.param(State.READY, -10.0, 10.0, 0.0, id="back for long enough"),
        pytest.param(State.READY, 0.0, 0.0, 0.0, id="none is wanted"),
        pytest.param(State.READY, 3600.0, 10.0, 0.0, id="the clock was set back meanwhile"),
        pytest.param(State.UNREACHABLE, -4.0, 10.0, 0.0, id="away: nothing is done about its pods anyway"),
    ],
)
def test_grace_is_of_targets_that_have_just_come_back(state: State, since: float, seconds: float, left: float) -> None:
    assert grace(Record(state, "", NOW + timedelta(seconds=since)), NOW, seconds) == left


def test_a_target_is_silent_once_it_has_given_no_answer_for_long_whatever_state_it_is_in() -> None:
    since = NOW - timedelta(seconds=30)
    for state in (State.UNREACHABLE, State.FAILING):
        record = Record(state, "", NOW, unanswered_since=since)
        assert (silent_in(record, NOW, 40.0), silent_in(record, NOW, 30.0), silent_in(record, NOW, 5.0)) == (10, 0, 0)
        assert not refuses(record)


@pytest.mark.parametrize("state", list(State))
def test_a_target_that_answers_is_not_silent_and_refuses_the_agent_if_it_says_so(state: State) -> None:
    record = Record(state, "", NOW)
    assert silent_in(record, NOW, 0.0) is None
    assert refuses(record) is (state in (State.UNAUTHORIZED, State.FORBIDDEN, State.FAILING))
