from hypothesis import given
from hypothesis import strategies as st

from agent.clusters.circuit import Circuit


def after(circuit: Circuit, *looks: tuple[float, float]) -> list[bool]:
    changes = [circuit.look(*look) for look in looks]
    assert sum(changes) <= len(looks)
    return changes


def test_two_late_answers_in_a_row_make_a_target_slow() -> None:
    circuit = Circuit(0.5)
    assert after(circuit, (0.9, 0.01), (0.9, 0.01)) == [False, True]
    assert circuit.slow


def test_one_late_answer_means_nothing() -> None:
    circuit = Circuit(0.5)
    after(circuit, (0.9, 0.01), (0.1, 0.01), (0.9, 0.01), (0.1, 0.01))
    assert not circuit.slow


def test_a_target_is_not_slow_when_our_own_cluster_is_as_slow() -> None:
    circuit = Circuit(0.5)
    after(circuit, *[(0.9, 0.4)] * 5)
    assert not circuit.slow


def test_it_is_prompt_again_only_well_below_the_limit() -> None:
    circuit = Circuit(0.5, slow=True)
    after(circuit, *[(0.4, 0.01)] * 5)
    assert circuit.slow
    after(circuit, *[(0.2, 0.01)] * 2)
    assert not circuit.slow


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1)), max_size=30))
def test_whatever_was_two_prompt_answers_in_the_end_close_the_circuit(looks: list[tuple[float, float]]) -> None:
    circuit = Circuit(0.5)
    after(circuit, *looks, (0.0, 0.0), (0.0, 0.0))
    assert not circuit.slow
