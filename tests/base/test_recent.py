"""Recently recorded entries."""

from agent.base.recent import Recent


def test_the_oldest_name_is_forgotten_when_there_are_too_many() -> None:
    recent = Recent(limit=2)
    for name in ("a", "b", "b", "c"):
        recent.add(name)
    assert [name for name in "abc" if name in recent] == ["b", "c"]


def test_a_name_that_was_discarded_may_be_noted_again() -> None:
    recent = Recent(limit=2)
    for name in ("a", "b"):
        recent.add(name)
    recent.discard("a")
    recent.discard("never noted")
    assert "a" not in recent
    recent.add("c")
    assert [name for name in "abc" if name in recent] == ["b", "c"]
