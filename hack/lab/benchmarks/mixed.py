"""Mixed benchmark: small pods alone, then the same pods next to existing pods that do not fit on any node."""

from collections.abc import Sequence
from statistics import mean
from typing import Any

from agent.api.conditions import find_condition
from agent.api.kinds import PODS
from agent.cli.progress import Progress
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import mixed_budgets
from hack.lab.benchmarks.burst import CLUSTERS, NODES_EACH, pods_per_node, prepare
from hack.lab.benchmarks.lab import Lab, open_lab, until
from hack.lab.benchmarks.manifests import APP, DEPLOYMENTS, deployment
from hack.lab.benchmarks.run import Load, Run, run
from hack.lab.sandbox.manifests import NAMESPACE

SMALL = 200
BIG = 50
ROUNDS = 2
"""Rounds of both measurements in turn, so that other load on the machine affects both."""
_BIG = "big"
_BIG_CPU = "1000"
_SMALL_CPU = "10m"


async def mixed(small: int, big: int, *, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    alone: list[Run] = []
    beside: list[Run] = []
    async with open_lab(CLUSTERS, NODES_EACH, pods_per_node(small), progress) as lab:
        await prepare(lab)
        for _ in range(ROUNDS):
            alone.append(await run(lab, Load("alone", NAMESPACE, small, elected=True, cpu=_SMALL_CPU)))
            await _fill(lab, big)
            beside.append(await run(lab, Load("beside", NAMESPACE, small, elected=True, cpu=_SMALL_CPU)))
            await _clear(lab)
    budgets = mixed_budgets(alone, beside)
    note = "" if (small, big) == (SMALL, BIG) else f"the budget is meant for {SMALL} pods beside {BIG}"
    lines = [
        *_comparison(alone, beside, big),
        *report.budget_lines(budgets, note),
        *report.disturbance([each.creation for each in (*alone, *beside)]),
    ]
    figures = {
        "benchmark": "mixed",
        "pods": small,
        "big": big,
        "alone": [report.run_figures(each) for each in alone],
        "beside": [report.run_figures(each) for each in beside],
        "budgets": report.budget_figures(budgets),
    }
    return lines, figures


async def _fill(lab: Lab, big: int) -> None:
    """Create the pods that do not fit, and wait until each has the condition PodScheduled=False."""
    await lab.source.create(DEPLOYMENTS, deployment(_BIG, NAMESPACE, big, elected=True, cpu=_BIG_CPU))

    async def told() -> bool:
        pods = await lab.source.list(PODS, NAMESPACE, labels=f"{APP}={_BIG}")
        conditions = [find_condition(pod.get("status", {}).get("conditions"), "PodScheduled") for pod in pods]
        return bool(sum(found["status"] == "False" for found in conditions if found) == big)

    await until(f"{big} pods say that they fit nowhere", told)


async def _clear(lab: Lab) -> None:
    await lab.source.delete(DEPLOYMENTS, _BIG, NAMESPACE, propagation="Background")

    async def gone() -> bool:
        return not await lab.source.list(PODS, NAMESPACE, labels=f"{APP}={_BIG}")

    await until("the pods that fit nowhere are gone", gone)


def _comparison(alone: Sequence[Run], beside: Sequence[Run], big: int) -> list[str]:
    rows = [[f"{alone[0].pods} small pods, mean of {len(alone)} runs", "alone", f"beside {big}", "ratio"]]
    for name, pairs in (
        (
            "creation to Running p50",
            [(each.start.p50, other.start.p50) for each, other in zip(alone, beside, strict=True)],
        ),
        (
            "creation to Running p99",
            [(each.start.p99, other.start.p99) for each, other in zip(alone, beside, strict=True)],
        ),
        ("all Running", [(each.running, other.running) for each, other in zip(alone, beside, strict=True)]),
    ):
        first, second = mean(pair[0] for pair in pairs), mean(pair[1] for pair in pairs)
        rows.append([name, f"{first:.2f} s", f"{second:.2f} s", f"{second / first:.2f} x"])
    return ["", *report.table(rows)]
