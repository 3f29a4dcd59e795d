"""A target that has just come back is spared what Placements decided while it was away."""

from datetime import timedelta

import pytest

from agent.clusters.record import Record, State, grace
from tests.controllers.test_virtualnode_decide import NOW


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
