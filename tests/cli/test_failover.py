"""`flotilla failover`: reports about a Target; without clusters."""

from typing import Any

from agent.cli.failover import objection, told


def target(**conditions: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": status, "reason": "R", "message": "m"} for kind, status in conditions.items()]
    return {"metadata": {"name": "eu"}, "status": {"conditions": listed}}


def test_one_that_answers_is_drained_rather_than_lost() -> None:
    assert "flotilla drain eu" in objection(target(Stable="True", Reachable="True"), "default/eu")
    assert objection(target(Stable="True", Reachable="False"), "default/eu") == ""


def test_an_agent_that_moves_nothing_is_told_of() -> None:
    assert "--no-moves" in objection(target(Reachable="False"), "default/eu")


def test_what_a_target_says_is_shown_in_order() -> None:
    assert told(target(Stable="True", Ready="False", Lost="True", Reachable="False")) == [
        "Reachable: False (R): m",
        "Lost: True (R): m",
        "Stable: True (R): m",
    ]
