"""How far a target is that is to be emptied."""

from agent.controllers.targetlife.retired import Left, words


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
