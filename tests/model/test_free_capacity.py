"""Free capacity of nodes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.model.free_capacity import FEW, Left, Taken, collapse, few, left, resources, undominated
from agent.model.nodeshapes import entries
from agent.model.requests import amounts

MI = 1 << 20
ALLOCATABLE = {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2", "hugepages-2Mi": "0"}


def told(*pods: dict[str, str], **allocatable: str) -> list[dict[str, Any]]:
    """Return the published capacity of one node per pod, each with that pod alone."""
    there = amounts(allocatable or ALLOCATABLE)
    order = resources(there)
    counts = collapse(left(order, there, Taken(amounts(pod))) for pod in pods)
    return entries(order, counts, counts)


def test_what_pods_request_is_not_free() -> None:
    assert told({"cpu": "500m", "memory": "1Gi", "pods": "1", "nvidia.com/gpu": "1"}) == [
        {"amounts": {"cpu": "3500m", "memory": "7Gi", "pods": "109", "nvidia.com/gpu": "1"}}
    ]


@pytest.mark.parametrize(
    ("pod", "resource", "want"),
    [
        ({"cpu": "1m"}, "cpu", "3990m"),
        ({"cpu": "10m"}, "cpu", "3990m"),
        ({"cpu": "11m"}, "cpu", "3980m"),
        ({"memory": "1"}, "memory", "8191Mi"),
        ({"memory": "1Mi"}, "memory", "8191Mi"),
        ({"pods": "1"}, "pods", "109"),
    ],
)
def test_amounts_are_rounded_down(pod: dict[str, str], resource: str, want: str) -> None:
    assert told(pod)[0]["amounts"][resource] == want


def test_what_is_used_up_or_overcommitted_is_not_named() -> None:
    assert told({"cpu": "5", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"}) == [{"amounts": {}}]


def test_what_pods_request_and_the_node_does_not_have_does_not_matter() -> None:
    assert told({"example.com/x": "5"}, cpu="1") == [{"amounts": {"cpu": "1"}}]


def test_nodes_with_the_same_left_are_one_entry_and_the_most_free_comes_first() -> None:
    one, two = {"cpu": "1"}, {"cpu": "2"}
    assert told(two, one, {"cpu": "1001m"}, one, {"cpu": "1", "memory": "1Gi"}, cpu="4", memory="4Gi") == [
        {"amounts": {"cpu": "3", "memory": "4Gi"}, "count": 2},
        {"amounts": {"cpu": "3", "memory": "3Gi"}},
        {"amounts": {"cpu": "2990m", "memory": "4Gi"}},
        {"amounts": {"cpu": "2", "memory": "4Gi"}},
    ]


def test_ports_in_use_tell_nodes_apart() -> None:
    there = amounts({"cpu": "1"})
    taken = Taken(ports=dict.fromkeys(["UDP/53", "TCP/80"], 1))  # type: ignore[arg-type]
    nodes = [left(("cpu",), there, taken), left(("cpu",), there, Taken())]
    counts = collapse(nodes)
    assert entries(("cpu",), counts, counts) == [
        {"amounts": {"cpu": "1"}},
        {"amounts": {"cpu": "1"}, "ports": ["TCP/80", "UDP/53"]},
    ]
    assert undominated(counts) == [nodes[1]]


LEFTS = st.builds(
    Left,
    st.tuples(*[st.integers(0, 4)] * 3),
    st.sets(st.sampled_from(["TCP/1", "TCP/2", "UDP/1"])).map(lambda ports: tuple(sorted(ports))),
)


def fits(pod: Left, node: Left) -> bool:
    return all(a >= b for a, b in zip(node.amounts, pod.amounts, strict=True)) and not set(pod.ports) & set(node.ports)


@given(st.lists(LEFTS, max_size=40), st.lists(LEFTS, max_size=20))
def test_dominated_nodes_never_decide_whether_a_pod_fits(nodes: list[Left], pods: list[Left]) -> None:
    kept = undominated(collapse(nodes))
    assert set(kept) <= set(nodes)
    for pod in pods:
        assert any(fits(pod, node) for node in kept) == any(fits(pod, node) for node in nodes)


@given(st.lists(LEFTS, max_size=40))
def test_no_entry_that_is_kept_makes_another_superfluous(nodes: list[Left]) -> None:
    kept = undominated(collapse(nodes))
    for one in kept:
        others = [other for other in kept if other is not one]
        assert not any(
            all(a >= b for a, b in zip(other.amounts, one.amounts, strict=True)) and set(other.ports) <= set(one.ports)
            for other in others
        )


def test_a_few_are_the_best_of_each_resource_and_then_the_first() -> None:
    nodes = [Left((100 - number, number), ()) for number in range(60)]
    assert few(nodes) == [*nodes[: FEW - 1], nodes[-1]]
    assert few(nodes[:3]) == nodes[:3]
    assert few([]) == []


QUANTITIES = st.integers(0, 9 * 10**9 * MI)
RESOURCES = st.dictionaries(st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", "gpu"]), QUANTITIES)


@given(st.lists(st.tuples(RESOURCES, RESOURCES), min_size=1, max_size=8))
def test_never_more_is_free_than_what_is_left(nodes: list[tuple[dict[str, int], dict[str, int]]]) -> None:
    for allocatable, taken in nodes:
        order = resources(allocatable)
        counts = collapse([left(order, allocatable, Taken(taken))])
        (entry,) = entries(order, counts, counts)
        for name, there in allocatable.items():
            exact = max(0, there - taken.get(name, 0))
            said = amounts(entry["amounts"]).get(name, 0)
            assert exact - 10**9 * MI < said <= exact
        assert entry["amounts"].keys() <= allocatable.keys()
