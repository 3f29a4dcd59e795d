"""The failover benchmark: its verdict and a run."""

import pytest

from agent.cli.progress import default
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.failover import LIMIT_SECONDS, Recovery, failover, failover_budgets, failover_lines
from hack.lab.benchmarks.lab import BENCH, Phase

WORK = Phase(100.0, {"cd/agent": 8.0, "cd/etcd": 1.0, "us/etcd": 2.0, "eu/etcd": 3.0, BENCH: 0.5}, 9.0, {})
FOUND = Recovery(12.0, 42.0, {"high": [3.0, 4.0], "low": [20.0, 59.0]}, {"high": [1.0, 2.0], "low": [4.0, 50.0]}, WORK)


def test_the_last_pod_counts() -> None:
    (kept,) = failover_budgets(FOUND)
    assert (kept.measured, kept.limit, kept.kept) == (59.0, LIMIT_SECONDS, True)


def test_each_priority_class_is_told() -> None:
    table = [line.split() for line in failover_lines(FOUND)]
    assert ["low", "2", "4.0", "s", "50.0", "s", "20.0", "s", "59.0", "s"] in table


def test_cpu_is_told_by_process_and_place() -> None:
    table = [line.split() for line in failover_lines(FOUND)]
    assert ["agent", "(source)", "8.0", "2000"] in table
    assert ["rest", "(source)", "1.0", "250"] in table
    assert ["rest", "(targets)", "5.0", "1250"] in table


async def test_pods_that_cannot_be_dealt_out_evenly_are_refused() -> None:
    with pytest.raises(BenchError, match="5 pods are not the same number for each of 2 Deployments"):
        await failover(2, 5, default())


@pytest.mark.cluster
@pytest.mark.seldom
async def test_it_runs() -> None:
    lines, figures = await failover(3, 6, default())
    assert sum(map(len, figures["seconds"].values())) == 6
    assert "budget" in "\n".join(lines)
