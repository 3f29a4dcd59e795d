import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import links
from agent.model.free_capacity import Taken
from agent.model.knownnodes import steady
from agent.model.nodeshapes import SHAPES_LIMIT, read_counted
from agent.model.quantity import parse
from agent.model.requests import amounts
from agent.model.summary import DETAILS, Detail, summarise, survey
from agent.model.summary import summary as summary_of

SHAPES = "multicluster/node-shapes"


def node(labels: dict[str, str] | None = None, cpu: str = "2", memory: str = "4Gi", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "n", "labels": labels or {}},
        "spec": spec,
        "status": {
            "capacity": {"cpu": cpu, "memory": memory, "pods": "110"},
            "allocatable": {"cpu": cpu, "memory": memory},
        },
    }


def shapes(nodes: list[dict[str, Any]]) -> Any:
    return json.loads(summarise(nodes)["metadata"]["annotations"][SHAPES])


def test_amounts_are_added_up_in_canonical_form() -> None:
    summary = summarise([node(cpu="1900m", memory="3Gi"), node(cpu="1100m", memory="1Gi")])
    assert summary["capacity"] == {"cpu": "3", "memory": "4Gi", "pods": "220"}
    assert summary["allocatable"] == {"cpu": "3", "memory": "4Gi"}


def test_a_resource_that_only_one_node_has_is_in_the_sum() -> None:
    gpu = node()
    gpu["status"]["allocatable"]["nvidia.com/gpu"] = "8"
    assert summarise([node(), gpu, node()])["allocatable"]["nvidia.com/gpu"] == "8"


def test_the_summary_is_the_singleton_without_a_version() -> None:
    summary = summarise([])
    assert summary == {
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "ClusterSummary",
        "metadata": {"name": "singleton", "labels": {}, "annotations": {SHAPES: "[]"}},
        "capacity": {},
        "allocatable": {},
    }


def test_virtual_nodes_do_not_count() -> None:
    virtual = node({"virtual-kubelet.io/provider": "admiralty", "a": "b"}, cpu="1000")
    assert summarise([node({"a": "c"}), virtual]) == summarise([node({"a": "c"})])


def test_virtual_nodes_of_other_providers_count() -> None:
    assert summarise([node({"virtual-kubelet.io/provider": "azure"})])["capacity"]["cpu"] == "2"


def test_a_label_is_common_if_all_nodes_that_have_it_agree() -> None:
    labels = summarise([node({"region": "eu", "zone": "a"}), node({"region": "eu", "zone": "b"}), node({"gpu": "yes"})])
    assert labels["metadata"]["labels"] == {"region": "eu", "gpu": "yes"}


def test_a_node_that_has_just_registered_has_no_status_yet() -> None:
    assert summarise([{"metadata": {"name": "n"}}, node()])["capacity"]["cpu"] == "2"


def test_equal_nodes_are_one_shape_the_commonest_first() -> None:
    small = node({"region": "eu", "size": "s", "kubernetes.io/hostname": "a"})
    other = node({"region": "eu", "size": "s", "kubernetes.io/hostname": "b"})
    large = node({"region": "eu", "size": "l"}, cpu="64")
    assert shapes([large, small, other]) == [
        {
            "labels": {"size": "s"},
            "taints": [],
            "unschedulable": False,
            "allocatable": {"cpu": "2", "memory": "4Gi"},
            "count": 2,
        },
        {
            "labels": {"size": "l"},
            "taints": [],
            "unschedulable": False,
            "allocatable": {"cpu": "64", "memory": "4Gi"},
            "count": 1,
        },
    ]


def test_a_label_that_only_some_nodes_have_is_part_of_their_shape() -> None:
    assert [shape["labels"] for shape in shapes([node({"gpu": "yes"}), node(), node()])] == [{}, {"gpu": "yes"}]


def test_taints_are_part_of_a_shape_but_not_their_times_and_order() -> None:
    first = {"key": "a", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"}
    second = {"key": "b", "value": "v", "effect": "NoExecute"}
    (shape,) = shapes(
        [node(taints=[first, second]), node(taints=[second, {**first, "timeAdded": "2027-01-01T00:00:00Z"}])]
    )
    assert shape["taints"] == [{"key": "a", "effect": "NoSchedule"}, second]
    assert shape["count"] == 2


def test_cordoned_nodes_are_a_shape_of_their_own() -> None:
    assert [shape["unschedulable"] for shape in shapes([node(unschedulable=True), node(), node()])] == [False, True]


def test_shapes_are_compact_and_left_out_where_they_would_be_too_large() -> None:
    nodes = [node({"rack": f"rack-{number}"}) for number in range(2000)]
    assert " " not in summarise(nodes[:10])["metadata"]["annotations"][SHAPES]
    assert summarise(nodes)["metadata"]["annotations"] == {}
    assert summarise(nodes)["capacity"]["cpu"] == "4k"


NODES = [
    {
        **node({"z": str(number % 3)}, memory=memory),
        "metadata": {"name": f"n{number}", "labels": {"z": str(number % 3)}},
    }
    for number, memory in enumerate(["1000000", "1Gi", "1e6", "2Gi", "3k"])
]


@given(st.permutations(NODES))
def test_the_order_of_nodes_does_not_matter(nodes: list[dict[str, Any]]) -> None:
    assert summarise(nodes) == summarise(NODES)


@given(st.lists(st.sampled_from(["1", "250m", "1Gi", "3Ki", "0", "1e3", "7n"]), min_size=1, max_size=8))
def test_sums_lose_nothing(amounts: list[str]) -> None:
    total = summarise([node(cpu=amount) for amount in amounts])["capacity"]["cpu"]
    assert parse(total).nano == sum(parse(amount).nano for amount in amounts)


@pytest.mark.parametrize("count", [1, 500])
def test_the_annotation_never_exceeds_its_limit(count: int) -> None:
    annotations = summarise([node({"r": str(number)}) for number in range(count)])["metadata"]["annotations"]
    assert len(annotations.get(SHAPES, "").encode()) <= SHAPES_LIMIT


TWO = [node({"zone": "a", "disk": "ssd"}), node({"zone": "a", "disk": "hdd"})]


def test_everything_is_told_unless_asked_otherwise() -> None:
    summary = summarise(TWO)
    assert summary["metadata"]["labels"] == {"zone": "a"}
    assert SHAPES in summary["metadata"]["annotations"]
    assert summarise(TWO, detail="full") == summary


def test_minimal_tells_what_admiralty_tells() -> None:
    summary = summarise(TWO, detail="minimal")
    assert summary["metadata"] == {"name": "singleton", "labels": {"zone": "a"}, "annotations": {}}
    assert summary["allocatable"]["cpu"] == "4"


def test_sums_alone_tell_nothing_about_nodes() -> None:
    summary = summarise(TWO, detail="sums")
    assert summary["metadata"] == {"name": "singleton", "labels": {}, "annotations": {}}
    assert summary["capacity"] == summarise(TWO)["capacity"]


@pytest.mark.parametrize("detail", DETAILS)
def test_properties_of_the_cluster_are_labels_at_every_level(detail: Detail) -> None:
    metadata = summarise(TWO, detail=detail, properties={"tier": "gold", "a": "b"})["metadata"]
    assert {"tier": "gold", "a": "b"}.items() <= metadata["labels"].items()
    assert json.loads(metadata["annotations"]["multicluster/cluster-properties"]) == ["a", "tier"]


def test_a_label_on_which_nodes_agree_counts_more_than_a_property_of_its_name() -> None:
    metadata = summarise(TWO, properties={"zone": "z", "disk": "any"})["metadata"]
    assert metadata["labels"] == {"zone": "a", "disk": "any"}
    assert json.loads(metadata["annotations"]["multicluster/cluster-properties"]) == ["disk"]


def test_the_version_of_the_agent_is_told() -> None:
    assert summarise([], version="0.1.0")["metadata"]["annotations"]["multicluster/agent-version"] == "0.1.0"


@pytest.mark.parametrize("detail", DETAILS)
def test_which_cluster_it_is_is_told_at_every_level(detail: Detail) -> None:
    told = summary_of(survey([], detail), cluster_uid="u1")
    assert told["metadata"]["annotations"]["multicluster/cluster-uid"] == "u1"


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ({"cpu": "4"}, {"cpu": "4"}, False),
        ({"memory": "1000"}, {"memory": "1009"}, False),
        ({"memory": "1000"}, {"memory": "990"}, True),
        ({"memory": "1000"}, {"memory": "1011"}, True),
        ({"gpu": "1"}, {"gpu": "0"}, True),
        ({"gpu": "0"}, {"gpu": "1"}, True),
        ({"gpu": "0"}, {"gpu": "0"}, False),
        ({"cpu": "4"}, {"cpu": "4", "gpu": "0"}, True),
        ({"cpu": "4", "gpu": "0"}, {"cpu": "4"}, True),
        ({"cpu": "100", "gpu": "8"}, {"cpu": "100", "gpu": "7"}, True),
    ],
)
def test_amounts_change_by_one_per_cent_or_not_at_all(old: dict[str, str], new: dict[str, str], changed: bool) -> None:
    assert steady(old, new) == (new if changed else old)


def test_amounts_of_a_node_not_told_before_are_told() -> None:
    assert steady(None, {"cpu": "1"}) == {"cpu": "1"}


def named(name: str, labels: dict[str, str] | None = None, cpu: str = "4", **spec: Any) -> dict[str, Any]:
    made = node(labels, cpu=cpu, **spec)
    made["metadata"]["name"] = name
    return made


def free(nodes: list[dict[str, Any]], taken: dict[str, dict[str, str]]) -> list[list[dict[str, Any]]]:
    """Return the free entries of each shape."""
    pods = {name: Taken(amounts(wanted)) for name, wanted in taken.items()}
    told = summarise(nodes, taken=pods)["metadata"]["annotations"].get(SHAPES, "[]")
    return [shape.get("free") for shape in json.loads(told)]


def test_free_capacity_is_told_by_shape_and_shapes_do_not_depend_on_it() -> None:
    nodes = [named("a"), named("b"), named("c", {"gpu": "yes"})]
    taken = {"a": {"cpu": "1"}, "c": {"cpu": "500m", "memory": "1Gi"}, "unknown": {"cpu": "1"}}
    assert free(nodes, taken) == [
        [{"amounts": {"cpu": "4", "memory": "4Gi"}}, {"amounts": {"cpu": "3", "memory": "4Gi"}}],
        [{"amounts": {"cpu": "3500m", "memory": "3Gi"}}],
    ]
    full = json.loads(summarise(nodes, taken={})["metadata"]["annotations"][SHAPES])
    assert [{key: shape[key] for key in shape if key != "free"} for shape in full] == shapes(nodes)


def test_nothing_is_said_of_what_is_free_where_it_is_not_known_or_less_is_told() -> None:
    assert "free" not in shapes([named("a")])[0]
    assert summarise(TWO, detail="minimal", taken={}) == summarise(TWO, detail="minimal")


def test_delegates_are_counted_by_source_where_it_is_told_what_is_free() -> None:
    annotations = summarise(TWO, taken={}, delegates={"u1": 3})["metadata"]["annotations"]
    assert (read_counted(annotations, "u1"), read_counted(annotations, "u2")) == (3, 0)
    assert read_counted(summarise(TWO, taken={})["metadata"]["annotations"], "u1") == 0
    for silent in (summarise(TWO), summarise(TWO, detail="minimal", taken={}, delegates={"u1": 3})):
        assert read_counted(silent["metadata"]["annotations"], "u1") is None
    assert read_counted({names.ANNOTATION_COUNTED: "many"}, "u1") is None
    assert read_counted(None, "u1") is None


def test_virtual_nodes_have_nothing_free() -> None:
    virtual = named("v", {"virtual-kubelet.io/provider": "admiralty"}, cpu="1000")
    assert free([virtual, named("a")], {"v": {"cpu": "1"}}) == [[{"amounts": {"cpu": "4", "memory": "4Gi"}}]]


@pytest.mark.parametrize(
    ("nodes", "racks", "entries"),
    [
        pytest.param(200, 1, 200, id="all of them"),
        pytest.param(2000, 1, 1000, id="only what no other dominates"),
        pytest.param(4000, 4, 16, id="the best few"),
        pytest.param(300, 300, None, id="none"),
    ],
)
def test_what_is_free_is_told_as_far_as_there_is_room(nodes: int, racks: int, entries: int | None) -> None:
    """Half of the nodes trade cpu for memory, the other half have less of both."""
    fleet = [named(f"n{number}", {"rack": f"{number % racks:090d}"}, cpu="64") for number in range(nodes)]
    half = nodes // 2
    taken = {}
    for number in range(nodes):
        cpu, memory = 10 * (number % half), 4000 - 2 * (number % half)
        extra = 1 if number >= half else 0
        taken[f"n{number}"] = {"cpu": f"{cpu + 10 * extra}m", "memory": f"{memory + extra}Mi"}
    told = summarise(fleet, taken={name: Taken(amounts(wanted)) for name, wanted in taken.items()})
    text = told["metadata"]["annotations"][SHAPES]
    assert len(text) <= SHAPES_LIMIT
    assert {len(found) if found is not None else None for found in free(fleet, taken)} == {entries}


def test_shapes_too_large_by_themselves_are_left_out_with_what_is_free() -> None:
    fleet = [named(f"n{number}", {"rack": f"rack-{number}"}) for number in range(2000)]
    assert summarise(fleet, taken={})["metadata"]["annotations"] == {}


@given(st.permutations(NODES), st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), st.integers(0, 9 * 10**9)))
def test_the_order_of_nodes_does_not_matter_for_what_is_free(
    nodes: list[dict[str, Any]], taken: dict[str, int]
) -> None:
    pods = {name: Taken({"cpu": cpu}) for name, cpu in taken.items()}
    assert summarise(nodes, taken=pods) == summarise(NODES, taken=pods)


@given(st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 9_000)), min_size=1, max_size=12))
def test_the_sum_of_what_is_free_is_never_more_than_what_is_left(nodes: list[tuple[int, int]]) -> None:
    fleet = [named(f"n{number}", cpu=f"{cpu}m") for number, (cpu, _) in enumerate(nodes)]
    taken = {f"n{number}": {"cpu": f"{pods}m"} for number, (_, pods) in enumerate(nodes)}
    told = [entry for found in free(fleet, taken) for entry in found]
    assert sum(entry.get("count", 1) for entry in told) == len(nodes)
    said = sum(amounts(entry["amounts"]).get("cpu", 0) * entry.get("count", 1) for entry in told)
    assert said <= sum(max(0, cpu - pods) for cpu, pods in nodes) * 10**6


@pytest.mark.parametrize("detail", DETAILS)
def test_pod_networks_are_told_at_the_highest_level_of_detail(detail: Detail) -> None:
    nodes = [node(podCIDRs=["10.1.0.0/24"]), node(podCIDRs=["10.1.1.0/24"])]
    told = summary_of(survey(nodes, detail), agent=("10.1.1.9", 8080))["metadata"]["annotations"]
    networks = '{"health":"10.1.1.9:8080","pods":["10.1.0.0/23"]}'
    assert told.get(links.ANNOTATION_NETWORKS) == (networks if detail == "full" else None)
