"""Time that a terminating delegate continues to serve, and the rest of its grace period."""

import pytest

from agent.pods.feedback.pause import Pause, expected_seconds, left, longest, rest_seconds


@pytest.mark.parametrize(
    ("pause", "seconds"),
    [
        (Pause(5, 30, 0, None), 1),
        (Pause(5, 30, 14.5, None), 0.5),
        (Pause(5, 30, 15, None), 0),
        (Pause(5, 300, 29.5, None), 0.5),
        (Pause(5, 30, 1, 0), 5),
        (Pause(5, 30, 4, 3), 2),
        (Pause(5, 30, 6, 5), 0),
        (Pause(5, 30, 27, 1), 1),
        (Pause(5, 30, 1, 0, unseen=True), 10),
        (Pause(5, 4, 0.5, 0.2), 1.5),
        (Pause(5, 3, 0, None), 1),
        (Pause(5, 2, 0, None), 0),
        (Pause(5, 1, 0, 0), 0),
        (Pause(5, 0, 0, 0), 0),
        (Pause(0, 30, 0, None), 0),
    ],
    ids=[
        "a cluster routes to it",
        "a cluster does not follow",
        "for half of its grace period",
        "for half a minute",
        "the last has just followed",
        "they have for some time",
        "they have for long enough",
        "it gets some seconds to end",
        "some cannot be seen",
        "its grace period is short",
        "the shortest pause",
        "no time for one",
        "deleted at once",
        "deleted by force",
        "switched off",
    ],
)
def test_how_long_a_delegate_serves_on(pause: Pause, seconds: float) -> None:
    assert left(pause) == pytest.approx(seconds)


@pytest.mark.parametrize("grace", range(0, 90, 3))
def test_no_pause_takes_more_than_the_grace_period_leaves(grace: int) -> None:
    elapsed, followed = 0.0, None
    while pause := left(Pause(5, grace, elapsed, followed)):
        assert pause > 0
        elapsed, followed = elapsed + pause, (elapsed if elapsed > 3 else None)
        assert elapsed <= max(0, grace - 2) + 0.01
    assert elapsed <= longest(grace) + 0.01
    assert 1 <= rest_seconds(grace, elapsed) <= max(1, grace)


def test_a_pause_of_the_usual_length_needs_no_second_word() -> None:
    assert expected_seconds(5, 30) == 24
    assert rest_seconds(30, 5.4) == 25
    assert expected_seconds(5, 4) == 2
    assert expected_seconds(5, 0) == 1
