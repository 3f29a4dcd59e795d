"""Pauses between writes that another writer reverts."""

from agent.base.reverted_writes import RevertedWrites


def test_the_same_cause_again_waits_twice_as_long_each_time_up_to_five_minutes() -> None:
    now, found = 0.0, []
    writes: RevertedWrites[str] = RevertedWrites(lambda: now)
    for _ in range(14):
        found.append(writes.pause("pod", "status 1"))
        now += found[-1]
        assert writes.pause("pod", "status 1") == 0
        writes.record("pod", "status 1")
    assert found[:6] == [0, 0, 1, 2, 4, 8]
    assert found[-1] == 300


def test_news_are_written_at_once_and_a_write_long_after_the_last_counts_as_the_first() -> None:
    now = 0.0
    writes: RevertedWrites[str] = RevertedWrites(lambda: now)
    for _ in range(4):
        writes.record("pod", "status 1")
    assert (writes.pause("pod", "status 1"), writes.pause("pod", "status 2"), writes.pause("other", "status 1")) == (
        4,
        0,
        0,
    )
    now = 1000.0
    writes.record("pod", "status 1")
    assert writes.pause("pod", "status 1") == 0
    writes.forget("pod")
    assert "pod" not in writes


def test_writes_that_last_for_a_minute_never_wait() -> None:
    now = 0.0
    writes: RevertedWrites[str] = RevertedWrites(lambda: now)
    for _ in range(20):
        assert writes.pause("service", "marks") == 0
        writes.record("service", "marks")
        now += 60.0
