"""Measured usage of nodes: its sum and its publication."""

import json
from typing import Any

import pytest

from agent.api.names.ocm import USED
from agent.model.measured import add_up, moved, read_used, write_used
from agent.model.requests import amounts

Raw = dict[str, Any]


def node(name: str, *, unschedulable: bool = False) -> Raw:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": allocatable},
    }


def metrics(name: str, **usage: str) -> bytes:
    return json.dumps({"metadata": {"name": name}, "timestamp": "2026-01-01T12:00:00Z", "usage": usage}).encode()


def test_what_is_used_is_the_sum_over_nodes_that_take_pods() -> None:
    nodes = [node("a"), node("b"), node("cordoned", unschedulable=True)]
    told = [metrics(name, cpu="250m", memory="1Gi") for name in ("a", "b", "cordoned", "virtual")]
    assert add_up(nodes, told) == amounts({"cpu": "500m", "memory": "2Gi"})


def test_a_node_of_which_nothing_is_measured_is_not_idle() -> None:
    assert add_up([node("a"), node("b")], [metrics("a", cpu="1", memory="1Gi")]) == amounts(
        {"cpu": "5", "memory": "9Gi"}
    )
    assert add_up([], []) == {"cpu": 0, "memory": 0}


WHOLE = amounts({"cpu": "100", "memory": "100Gi"})


@pytest.mark.parametrize(
    ("cpu", "memory", "want"),
    [
        pytest.param("10", "10Gi", False, id="nothing has moved"),
        pytest.param("11900m", "8200Mi", False, id="less than 2 % of what there is"),
        pytest.param("12", "10Gi", True, id="cpu by 2 %"),
        pytest.param("10", "7Gi", True, id="memory down by 3 %"),
    ],
)
def test_what_is_used_is_told_when_it_moved_by_2_percent_of_what_there_is(cpu: str, memory: str, want: bool) -> None:
    told = amounts({"cpu": "10", "memory": "10Gi"})
    assert moved(told, amounts({"cpu": cpu, "memory": memory}), WHOLE) is want


def test_the_first_measurement_is_told() -> None:
    assert moved(None, {"cpu": 0, "memory": 0}, WHOLE)


def test_what_is_written_can_be_read() -> None:
    text = write_used(amounts({"cpu": "2137234567n", "memory": "1234567Ki"}))
    assert json.loads(text) == {"cpu": "2138m", "memory": "1206Mi"}
    assert read_used({USED: text}) == amounts({"cpu": "2138m", "memory": "1206Mi"})


@pytest.mark.parametrize("text", [None, "", "[]", '{"cpu": 3}', '{"cpu": "lots"}', "{" * 10_000])
def test_nothing_is_used_where_nothing_is_told_that_can_be_read(text: str | None) -> None:
    assert read_used({USED: text} if text is not None else {}) is None
