"""Criteria that must hold under load."""

import pytest

from hack.lab.sandbox import Sandbox
from hack.lab.soak import report
from hack.lab.soak.figures import Figures, thirds
from hack.lab.soak.load import Found, budgets


def figures(*memory: float) -> Figures:
    found = Figures(Sandbox("/nowhere", ["cd"]))
    found.memory["cd/agent"] = [(float(second), each) for second, each in enumerate(memory)]
    return found


@pytest.mark.parametrize(
    ("found", "memory", "want"),
    [
        (Found(feedback=[0.1] * 99 + [5.0]), (50, 60, 61), []),
        (Found(feedback=[0.1]), (50, 60, 70), ["memory of cd/agent, last third / second"]),
        (Found(feedback=[0.1], left=2), (50, 60, 61), ["keys in queues in the end"]),
        (Found(feedback=[0.1, 1.2]), (50, 60, 61), ["status feedback p99"]),
        (Found(feedback=[0.1], lost=1), (50, 60, 61), ["statuses that did not come home"]),
    ],
    ids=["all is well", "memory grows", "a queue is stuck", "feedback is slow", "a status is lost"],
)
def test_what_does_not_hold_is_told(found: Found, memory: tuple[float, ...], want: list[str]) -> None:
    assert [budget.name for budget in budgets(found, figures(*memory)) if not budget.kept] == want


def test_the_report_has_it_all() -> None:
    found = Found(feedback=[0.1, 0.2], queued=[0.0, 3.0], replaced=7, filled=12.0)
    told = report.load_lines(found, figures(50, 60, 61), budgets(found, figures(50, 60, 61)))
    text = [each.split() for each in told]
    assert ["pods", "replaced", "7"] in text
    assert ["feedback,", "longest", "200", "ms"] in text
    assert ["keys", "in", "queues,", "most", "3"] in text


def test_a_series_is_told_in_thirds() -> None:
    assert thirds([(float(each), float(each)) for each in range(9)]) == {"first": 1, "middle": 4, "last": 7, "most": 8}
    assert thirds([(0.0, 5.0)]) == {"first": 5, "middle": 5, "last": 5, "most": 5}
