"""Progress of a retiring target, and the limits that its pods exceed."""

from typing import Any

import pytest

from agent.model.requests import held_by, limits_of
from agent.moves.lost_targets.overlimit import beyond
from agent.moves.lost_targets.retired import Left, words


def test_one_without_pods_is_empty() -> None:
    assert words([])[:2] == ("True", "Empty")


def test_while_all_go_nothing_blocks() -> None:
    assert words([Left("shop/a", "Moving", "its replacement is b"), Left("shop/b")]) == (
        "False",
        "Emptying",
        "2 pods are still there",
    )


def test_what_cannot_go_is_listed_by_reason() -> None:
    pods = [Left(f"shop/{number}", "Held", "nothing makes it again") for number in range(6)]
    found = words([*pods, Left("shop/db", "DataElsewhere", "its volume is there"), Left("shop/web", "Moving", "")])
    assert found.reason == "Blocked"
    assert found.message == (
        "8 pods are still there; Held: shop/0, shop/1, shop/2, shop/3, shop/4 and 1 more (nothing makes it again);"
        " DataElsewhere: shop/db (its volume is there)"
    )


def asking(cpu: str) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]}}


@pytest.mark.parametrize(
    ("limits", "over"),
    [
        ({"cpu": "2", "pods": "2", "memory": "2Gi"}, ""),
        ({"cpu": "1500m"}, "request 2 cpu there, of 1500m that"),
        ({"memory": "1Gi", "gpu": "0"}, "request 2Gi memory there, of 1Gi that"),
        ({"pods": 1}, "request 2 pods there, of 1 that"),
        ({"cpu": "much"}, ""),
        (None, ""),
    ],
)
def test_which_limits_pods_go_beyond_is_told_as_users_write_them(limits: dict[str, Any] | None, over: str) -> None:
    found = beyond(limits_of({"spec": {"limits": limits}}), held_by([asking("1"), asking("1000m")]))
    assert over in found if over else not found


def test_a_pod_that_cannot_be_read_does_not_count() -> None:
    assert not beyond({"cpu": 1}, held_by([asking("nonsense")]))
