import json

import pytest

from hack.lab.benchmarks.__main__ import main
from hack.lab.benchmarks.place import KINDS, place

EACH = len(KINDS) + 3
"""Rows per number of targets: one per kind, and three for differing pods, pods with a Placement, and pods that
name targets."""


@pytest.mark.full("Measures for ten seconds what no promise depends on.")
def test_the_ranking_of_every_kind_of_pods_is_measured_over_100_and_1000_targets() -> None:
    lines, figures = place(2)
    assert [row["targets"] for row in figures["rankings"]] == [100] * EACH + [1000] * EACH
    assert all(0 < row["p50_ms"] <= row["p99_ms"] for row in figures["rankings"])
    assert [budget["limit"] for budget in figures["budgets"]] == [1.0, 1.2, 2.0, 5.0]
    assert sum("at most" in line for line in lines) == 4


def test_the_benchmark_needs_no_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["place", "--pods", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["benchmark"] == "place"
