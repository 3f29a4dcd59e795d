"""Scores of usage, by name."""

from fractions import Fraction

import pytest

from agent.model.requests import amounts
from agent.ranking.placing.usage_scores import scaled, usage_scores, within
from agent.ranking.snapshot import Free, Shape
from agent.settings import parse

UPSTREAM = {f"{short}{scope}Available" for short in ("cpu", "mem", "gpu", "tpu") for scope in ("Node", "Cluster")}
SEED = {"cpuAvailable", "memAvailable"}
RATIOS = {f"{short}{scope}Ratio" for short in ("cpu", "mem") for scope in ("Node", "Cluster")}
IDLE = {"cpuClusterIdle", "memClusterIdle"}


def shape(
    allocatable: dict[str, str], *free: dict[str, str], count: int = 0, unschedulable: bool = False, told: bool = True
) -> Shape:
    left = tuple(Free(amounts(each)) for each in free)
    return Shape({}, (), unschedulable, amounts(allocatable), count or len(free), left if told else None)


def scores(*shapes: Shape, used: dict[str, str] | None = None, **maxima: str) -> dict[str, int]:
    settings = parse([f"--score-max={name}={amount}" for name, amount in maxima.items()])
    return usage_scores(shapes, amounts(used) if used is not None else None, settings.score_maxima)


TWO = shape({"cpu": "16", "memory": "64Gi"}, {"cpu": "12", "memory": "16Gi"}, {"cpu": "4", "memory": "48Gi"})


def test_every_score_is_there_where_everything_is_told() -> None:
    assert scores(TWO, used={"cpu": "8", "memory": "32Gi"}).keys() == UPSTREAM | SEED | RATIOS | IDLE


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("cpuNodeAvailable", -76, id="200 x 12 / 100 - 100, of the node with most of it"),
        pytest.param(
            "memNodeAvailable", -90, id="200 x 48 / 1024 - 100 is -90.6, cut off toward zero; of another node"
        ),
        pytest.param("cpuClusterAvailable", -68, id="200 x 16 / 100 - 100"),
        pytest.param("memClusterAvailable", -87, id="200 x 64 / 1024 - 100 is -87.5"),
        pytest.param("gpuNodeAvailable", -100, id="no GPU, as upstream says it"),
        pytest.param("tpuClusterAvailable", -100, id="no TPU"),
        pytest.param("cpuAvailable", 16, id="100 x 16 / 100, the older form"),
        pytest.param("memAvailable", 6, id="100 x 64 / 1024 is 6.25"),
        pytest.param("cpuNodeRatio", 50, id="12 of 16"),
        pytest.param("memNodeRatio", 50, id="48 of 64"),
        pytest.param("cpuClusterRatio", 0, id="16 of 32"),
        pytest.param("memClusterRatio", 0, id="64 of 128"),
        pytest.param("cpuClusterIdle", 50, id="24 of 32 are not used"),
        pytest.param("memClusterIdle", 81, id="116 of 128 are not used: 81.25"),
    ],
)
def test_a_score_is_what_its_formula_says(name: str, want: int) -> None:
    assert scores(TWO, used={"cpu": "8", "memory": "12Gi"})[name] == want


def test_without_measurements_nothing_is_said_of_what_is_idle() -> None:
    assert scores(TWO).keys() == UPSTREAM | SEED | RATIOS


def test_of_a_cluster_that_tells_its_best_nodes_only_the_scores_of_nodes_are_known() -> None:
    found = scores(shape({"cpu": "16"}, {"cpu": "12"}, count=50), used={"cpu": "400", "memory": "0"})
    assert found.keys() == {name for name in UPSTREAM | RATIOS if "Node" in name} | IDLE
    assert (found["cpuNodeAvailable"], found["cpuClusterIdle"]) == (-76, 0)


@pytest.mark.parametrize("shapes", [(), (shape({"cpu": "4"}, count=1, told=False),)], ids=["no nodes", "only shapes"])
def test_of_a_cluster_that_does_not_tell_what_is_free_there_are_no_scores(shapes: tuple[Shape, ...]) -> None:
    assert scores(*shapes) == {}


def test_what_is_cordoned_is_not_available() -> None:
    cordoned = shape({"cpu": "64"}, {"cpu": "64"}, unschedulable=True)
    found = scores(cordoned, shape({"cpu": "8"}, {"cpu": "2"}))
    assert (found["cpuNodeAvailable"], found["cpuClusterAvailable"]) == (-96, -96)
    assert (found["cpuNodeRatio"], found["cpuClusterRatio"]) == (-50, -50)


def test_where_all_nodes_are_cordoned_nothing_is_available() -> None:
    found = scores(shape({"cpu": "64"}, {"cpu": "64"}, unschedulable=True))
    assert found.keys() == UPSTREAM | SEED | RATIOS
    assert {found[name] for name in UPSTREAM | RATIOS} == {-100}
    assert {found[name] for name in SEED} == {0}


def test_memory_above_one_mebibyte_is_not_all_the_same() -> None:
    """The upstream code divides by 1024 and multiplies again, so that every cluster scores 100."""
    small, large = (scores(shape({"memory": size}, {"memory": size})) for size in ("2Gi", "512Gi"))
    assert (small["memNodeAvailable"], large["memNodeAvailable"]) == (-99, 0)
    assert scores(shape({"memory": "2Ti"}, {"memory": "2Ti"}))["memClusterAvailable"] == 100


def test_gpus_and_tpus_count_by_the_names_that_nodes_have_for_them() -> None:
    found = scores(
        shape({"nvidia.com/gpu": "8", "google.com/tpu": "4"}, {"nvidia.com/gpu": "5", "google.com/tpu": "4"})
    )
    assert (found["gpuNodeAvailable"], found["tpuNodeAvailable"]) == (-50, -60)


def test_maxima_are_for_the_administrator_to_choose() -> None:
    found = scores(TWO, cpu="20", memory="128Gi")
    assert (found["cpuNodeAvailable"], found["memClusterAvailable"], found["cpuAvailable"]) == (20, 0, 80)


def test_the_more_is_free_the_higher_is_the_score_and_it_stays_within_bounds() -> None:
    found = [scaled(free, 7) for free in range(-1, 10)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (-100, 100)
    assert scaled(0, 0) == -100
    assert [within(Fraction(number, 2)) for number in (-201, -199, -1, 1, 199, 201)] == [-100, -99, 0, 0, 99, 100]
