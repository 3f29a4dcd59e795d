"""The failover benchmark: its verdict and a run."""

import pytest

from agent.cli.progress import default
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.failover import LIMIT_SECONDS, Recovery, failover, failover_budgets, failover_lines

FOUND = Recovery(
    12.0, 42.0, {"high": [3.0, 4.0], "low": [20.0, 59.0]}, {"high": [1.0, 2.0], "low": [4.0, 50.0]}, 9.0, 99.0
)


def test_the_last_pod_counts() -> None:
    (kept,) = failover_budgets(FOUND)
    assert (kept.measured, kept.limit, kept.kept) == (59.0, LIMIT_SECONDS, True)


def test_each_priority_class_is_told() -> None:
    table = [line.split() for line in failover_lines(FOUND)]
    assert ["low", "2", "4.0", "s", "50.0", "s", "20.0", "s", "59.0", "s"] in table


async def test_pods_that_cannot_be_dealt_out_evenly_are_refused() -> None:
    with pytest.raises(BenchError, match="5 pods are not the same number for each of 2 Deployments"):
        await failover(2, 5, default())


@pytest.mark.cluster
@pytest.mark.seldom
async def test_it_runs() -> None:
    lines, figures = await failover(3, 6, default())
    assert sum(map(len, figures["seconds"].values())) == 6
    assert "budget" in "\n".join(lines)
