from hypothesis import given
from hypothesis import strategies as st

from agent.clusters.health.latency_monitor import LatencyMonitor
from agent.kube.responsiveness import Pace


def pace(average: float, latest: float | None = None) -> Pace:
    found = Pace()
    found.average = average
    found.latest = average if latest is None else latest
    return found


def after(latency: LatencyMonitor, *looks: tuple[float, float]) -> list[bool]:
    changes = [latency.look(pace(average), local) for average, local in looks]
    assert sum(changes) <= len(looks)
    return changes


def test_two_late_answers_in_a_row_make_a_target_slow() -> None:
    latency = LatencyMonitor(0.5)
    assert after(latency, (0.9, 0.01), (0.9, 0.01)) == [False, True]
    assert latency.slow


def test_one_late_answer_means_nothing() -> None:
    latency = LatencyMonitor(0.5)
    after(latency, (0.9, 0.01), (0.1, 0.01), (0.9, 0.01), (0.1, 0.01))
    assert not latency.slow


def test_a_target_is_not_slow_when_our_own_cluster_is_as_slow() -> None:
    latency = LatencyMonitor(0.5)
    after(latency, *[(0.9, 0.4)] * 5)
    assert not latency.slow


def test_it_is_prompt_again_only_well_below_the_limit() -> None:
    latency = LatencyMonitor(0.5, slow=True)
    after(latency, *[(0.4, 0.01)] * 5)
    assert latency.slow
    after(latency, *[(0.2, 0.01)] * 2)
    assert not latency.slow


def test_it_stays_slow_while_its_answers_are_late_though_the_average_has_yet_to_rise() -> None:
    latency = LatencyMonitor(0.5, slow=True)
    first_answer = pace(average=0.3, latest=1.0)
    assert not any(latency.look(first_answer, 0.16) for _ in range(5))
    assert latency.slow


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=30))
def test_whatever_was_two_prompt_answers_in_the_end_close_the_circuit(looks: list[tuple[float, float]]) -> None:
    latency = LatencyMonitor(0.5)
    after(latency, *looks, (0.0, 0.0), (0.0, 0.0))
    assert not latency.slow
