from agent.clusters.copies.copier import REVERT_SECONDS, Reverts

AGREED = ("1", "5")


def test_the_first_revert_is_at_once_and_later_ones_wait_longer() -> None:
    reverts: Reverts[str] = Reverts()
    assert reverts.wait("a", AGREED, "1", 10.0) == 0
    first = reverts.wait("a", AGREED, "1", 10.0)
    assert first > 0
    assert reverts.wait("a", AGREED, "1", 10.0 + first) == 0
    second = reverts.wait("a", AGREED, "1", 10.0 + first)
    assert second > first


def test_a_change_of_the_original_waits_for_nothing_and_starts_anew() -> None:
    reverts: Reverts[str] = Reverts()
    assert reverts.wait("a", AGREED, "1", 10.0) == 0
    assert reverts.wait("a", AGREED, "2", 10.0) == 0
    assert reverts.wait("a", ("2", "6"), "2", 10.0) == 0


def test_after_a_long_quiet_time_the_pauses_are_short_again() -> None:
    reverts: Reverts[str] = Reverts()
    now = 10.0
    for _ in range(20):
        now += reverts.wait("a", AGREED, "1", now)
    now += 10 * REVERT_SECONDS[1]
    assert reverts.wait("a", AGREED, "1", now) == 0
    assert reverts.wait("a", AGREED, "1", now) < 10 * REVERT_SECONDS[0]


def test_items_do_not_wait_for_each_other() -> None:
    reverts: Reverts[str] = Reverts()
    assert reverts.wait("a", AGREED, "1", 10.0) == 0
    assert reverts.wait("b", AGREED, "1", 10.0) == 0
