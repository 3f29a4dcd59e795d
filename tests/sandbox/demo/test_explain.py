"""Latest events of a step whose condition was not met."""

from hack.lab.demo.explain import _latest


def test_events_are_told_in_their_order_also_those_that_do_not_say_whom_they_are_about() -> None:
    events = [
        {"deprecatedLastTimestamp": "2026-01-01T00:00:02Z", "reason": "Late", "note": "of nobody"},
        {
            "regarding": {"kind": "Pod", "name": "web"},
            "deprecatedLastTimestamp": "2026-01-01T00:00:01Z",
            "reason": "Early",
        },
    ]
    assert _latest(events) == ["Pod web: Early:", ": Late: of nobody"]
