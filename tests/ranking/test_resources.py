from typing import Any

import pytest

from agent.ranking.extrascore import ExtraScore, InvalidExtraScore
from agent.ranking.resources import best_effort, images, limits, specified
from agent.ranking.snapshot import amounts

Raw = dict[str, Any]


def container(**fields: Any) -> Raw:
    return {"name": "c", **fields}


def test_limits_are_counted_as_requests_are() -> None:
    spec = {
        "containers": [container(resources={"limits": {"cpu": "1"}}), container(resources={"limits": {"cpu": "2"}})],
        "initContainers": [container(resources={"limits": {"cpu": "9"}})],
        "overhead": {"cpu": "1", "memory": "1Gi"},
    }
    assert limits(spec) == amounts({"cpu": "10"})


def test_limits_of_the_pod_as_a_whole_count_instead_of_its_containers() -> None:
    spec = {
        "resources": {"limits": {"cpu": "3"}},
        "containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})],
    }
    assert limits(spec) == amounts({"cpu": "3", "memory": "1Gi"})


def test_images_are_those_of_all_containers() -> None:
    assert images({"containers": [container(image="a"), container()], "initContainers": [container(image="b")]}) == {
        "a",
        "b",
    }


@pytest.mark.parametrize(
    ("spec", "so"),
    [
        ({"containers": [container()]}, True),
        ({"containers": [container(resources={"requests": {"cpu": "0"}})]}, True),
        ({"containers": [container(), container(resources={"limits": {"memory": "1"}})]}, False),
        ({"containers": [container()], "initContainers": [container(resources={"requests": {"cpu": "1"}})]}, False),
        ({"containers": [container()], "resources": {"requests": {"cpu": "1"}}}, False),
    ],
)
def test_best_effort_is_who_asks_for_neither_cpu_nor_memory(spec: Raw, so: bool) -> None:
    assert best_effort(spec) is so


def test_specified_is_what_every_container_tells() -> None:
    full = container(resources={"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1"}})
    assert specified({"containers": [full]}) == {"requests.cpu", "requests.memory", "limits.cpu"}
    assert specified({"containers": [full], "initContainers": [container()]}) == set()


def test_an_extra_score_names_weight_kind_object_and_score() -> None:
    text = "-5:addonplacementscores.v1alpha1.cluster.open-cluster-management.io:usage:cpu"
    group = "cluster.open-cluster-management.io"
    assert ExtraScore.parse(text) == ExtraScore(-5.0, "addonplacementscores", "v1alpha1", group, "usage", "cpu")


@pytest.mark.parametrize(
    "text", ["", "5", "x:a.v1.g:o:s", "0:a.v1.g:o:s", "1:a.v1:o:s", "1:a.v1.g:o", "inf:a.v1.g:o:s"]
)
def test_an_extra_score_that_is_none_says_what_one_looks_like(text: str) -> None:
    with pytest.raises(InvalidExtraScore, match=r"is not WEIGHT:RESOURCE.VERSION.GROUP:OBJECT:SCORE .* such as 5:"):
        ExtraScore.parse(text)
