from agent.base.memory import PAUSE_SECONDS, Trimmer


def test_free_memory_is_looked_for_at_most_once_in_a_while() -> None:
    now = 100.0
    trimmer = Trimmer(now=lambda: now)
    first = trimmer.trim()
    assert not trimmer.trim()
    now += PAUSE_SECONDS
    assert trimmer.trim() == first
