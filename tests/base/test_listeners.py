import pytest

from agent.base.listeners import tell
from agent.base.metrics import LISTENER_FAILURES


def test_one_that_fails_is_logged_and_counted_and_keeps_nobody_from_being_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[str] = []

    def broken(news: str) -> None:
        raise ValueError("of all things")

    before = LISTENER_FAILURES._value.get()
    tell([told.append, broken, told.append], "news")
    assert told == ["news", "news"]
    assert LISTENER_FAILURES._value.get() == before + 1
    assert "of all things" in caplog.text


def test_a_list_may_change_while_it_is_told() -> None:
    told: list[str] = []
    listeners = [lambda news: listeners.append(told.append)]
    tell(listeners, "news")
    assert told == []
    assert len(listeners) == 2
