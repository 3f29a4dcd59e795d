"""GatewayPeers that a change requeues: all of a cluster, or only the affected ones."""

import pytest

from agent.services.gateways.changes import At, PendingChanges

EU: At = ("eu", "shop")


def take(changes: PendingChanges, again: float | None = None) -> set[str] | None:
    with changes.reconciling(EU) as reconciliation:
        reconciliation.again = again
    return None if reconciliation.only is None else set(reconciliation.only)


def told_once() -> PendingChanges:
    changes = PendingChanges()
    assert take(changes) is None
    return changes


def test_a_cluster_is_told_of_all_others_at_first() -> None:
    changes = PendingChanges()
    changes.add(EU, "us")
    assert take(changes) is None


def test_then_of_those_that_a_change_concerns() -> None:
    changes = told_once()
    changes.add(EU, "us")
    changes.add(EU, "cd")
    changes.add(("us", "shop"), "cd")
    assert take(changes) == {"us", "cd"}


@pytest.mark.parametrize("peers", [("us", ""), ("", "us"), ("",), ()])
def test_and_of_all_where_any_change_may_concern_all_or_nobody_says_what_has_changed(peers: tuple[str, ...]) -> None:
    changes = told_once()
    for peer in peers:
        changes.add(EU, peer)
    assert take(changes) is None


def test_what_is_to_be_looked_at_again_counts_as_not_told() -> None:
    changes = told_once()
    changes.add(EU, "us")
    assert take(changes, again=0.5) == {"us"}
    changes.add(EU, "cd")
    assert take(changes) == {"us", "cd"}
    changes.add(EU)
    assert take(changes, again=0.5) is None
    changes.add(EU, "us")
    assert take(changes) is None


def test_what_could_not_be_told_counts_as_not_told() -> None:
    changes = told_once()
    changes.add(EU, "us")

    def fail() -> None:
        with changes.reconciling(EU):
            changes.add(EU, "cd")
            raise OSError("away")

    with pytest.raises(OSError, match="away"):
        fail()
    assert take(changes) == {"us", "cd"}


def test_what_changes_meanwhile_is_told_the_next_time() -> None:
    changes = told_once()
    with changes.reconciling(EU):
        changes.add(EU, "us")
    assert take(changes) == {"us"}
    with changes.reconciling(EU):
        changes.add(EU)
    assert take(changes) is None


def test_a_cluster_that_is_back_is_told_of_all() -> None:
    changes = told_once()
    changes.forget("eu")
    changes.add(EU, "us")
    assert take(changes) is None
