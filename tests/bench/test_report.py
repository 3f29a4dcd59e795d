"""Output of results."""

import dataclasses
import json
import os
from collections.abc import Callable

import pytest

from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import (
    Budget,
    burst_budgets,
    idle_budgets,
    many_budget,
    mixed_budgets,
    per_pod,
    python_cpu,
    ratios,
    total_cpu,
)
from hack.lab.benchmarks.burst import median
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.latency import Latency
from hack.lab.benchmarks.procfs import Usage
from hack.lab.benchmarks.run import Run
from hack.lab.benchmarks.stats import Spread

CPU = {"cd/agent": 2.0, "us/agent": 1.0, "cd/webhook": 0.5, "cd/etcd": 9.0, "bench/bench": 3.0}
WRITES = {
    "source-agent POST podchaperons 201": 100.0,
    "source-agent PATCH pods 200": 99.0,
    "source-agent PATCH pods 409": 1.0,
    "source-agent POST events 201": 70.0,
    "target-agent PUT leases 200": 5.0,
}
PHASE = Phase(seconds=20.0, cpu=CPU, strangers=1.0, writes=WRITES)
IDLE = {key: Usage(cpu=1.0, rss=50 * 1024, peak=60 * 1024) for key in CPU}
LIVE = {key: Usage(cpu=4.0, rss=50 * 1024 + 1000, peak=80 * 1024) for key in CPU}


def make(running: float, p50: float, p99: float, gone: float) -> Run:
    return Run(
        pods=100,
        running=running,
        start=Spread(p50, p99, p99),
        gone=gone,
        creation=PHASE,
        deletion=PHASE,
        memory_before=IDLE,
        memory=LIVE,
        places={"us": 60, "eu": 40},
    )


PLAIN = make(1.0, 0.5, 1.0, 2.0)
ELECTED = make(2.0, 1.0, 4.0, 5.0)
LATENCY = Latency(
    50,
    sent=Spread(0.015, 0.090, 0.1),
    seen=Spread(0.01, 0.02, 0.03),
    told=Spread(0.004, 0.01, 0.02),
    home=Spread(0.006, 0.01, 0.02),
)


def by_name(budgets: list[Budget]) -> dict[str, Budget]:
    return {budget.name: budget for budget in budgets}


def test_ratios_are_elected_over_plain() -> None:
    assert ratios(PLAIN, ELECTED) == {
        "pods_per_second": 0.5,
        "creation_to_running_p50": 2.0,
        "creation_to_running_p99": 4.0,
        "deletion": 2.5,
        "cpu_to_create": 1.0,
        "cpu_to_delete": 1.0,
    }


def test_of_several_pairs_the_one_in_the_middle_is_told() -> None:
    pairs = [(PLAIN, make(running, 1.0, 4.0, 5.0)) for running in (5.0, 2.0, 4.0)]
    assert median(pairs) is pairs[2]
    assert median(pairs[:2]) is pairs[0]
    assert [line.split() for line in report.pair_lines(pairs[:1])[2:]] == [
        ["1", "100.0", "20.0", "0.20", "x", "4.00", "x", "2.50", "x", f"{5 / (os.cpu_count() or 1):.0f}", "%"]
    ]


def test_with_cores_of_their_own_clusters_are_to_be_faster() -> None:
    name = "pods/s to Running, elected / plain"
    assert by_name(burst_budgets(PLAIN, ELECTED, LATENCY, "cd", own_cores=True))[name].limit == 0.7
    assert by_name(burst_budgets(PLAIN, ELECTED, LATENCY, "cd"))[name].limit == 0.4


def test_python_cpu_is_that_of_agents_and_webhooks() -> None:
    assert python_cpu(PHASE) == 3.5


def test_the_cpu_of_the_clusters_is_without_the_benchmark_itself() -> None:
    assert total_cpu(PHASE) == 12.5


def test_writes_per_pod_are_without_events_and_leases_but_with_those_refused() -> None:
    assert per_pod(PHASE, 100) == 2.0


@pytest.mark.parametrize(
    ("name", "measured", "kept"),
    [
        ("pods/s to Running, elected / plain", 0.5, True),
        ("p99 creation to Running, elected / plain", 4.0, False),
        ("API writes per pod to create", 2.0, True),
        ("API writes per pod to delete", 2.0, True),
        ("CPU of agents and webhooks / all CPU of the plain run", 0.28, True),
        ("source agent RSS for each pod", 10.0, True),
        ("status latency p50, idle", 15.0, True),
        ("status latency p99, idle", 90.0, False),
        ("deletion, elected / plain", 2.5, True),
    ],
)
def test_every_budget_of_a_burst_gets_its_verdict(name: str, measured: float, kept: bool) -> None:
    budget = by_name(burst_budgets(PLAIN, ELECTED, LATENCY, "cd"))[name]
    assert budget.measured == pytest.approx(measured)
    assert budget.kept is kept


def test_of_mode_reserve_only_the_speed_is_promised() -> None:
    budgets = by_name(burst_budgets(PLAIN, make(4.0, 1.0, 9.0, 5.0), LATENCY, "cd", "reserve"))
    assert budgets["pods/s to Running, elected / plain"].kept
    assert not [name for name in budgets if "p99 creation" in name or "writes" in name]


@pytest.mark.parametrize(("running", "kept"), [(21.0, True), (25.0, False)])
def test_ten_times_as_many_pods_are_to_be_as_fast(running: float, kept: bool) -> None:
    many = dataclasses.replace(make(running, 0.5, 1.0, 2.0), pods=1000)
    assert many_budget(ELECTED, many).kept is kept


def test_ten_thousand_pods_may_need_more_memory() -> None:
    name = "source agent RSS, all pods live"
    many = dataclasses.replace(ELECTED, pods=10_000)
    assert by_name(burst_budgets(PLAIN, many, LATENCY, "cd"))[name].limit == 400.0
    assert by_name(burst_budgets(PLAIN, ELECTED, LATENCY, "cd"))[name].limit == 150.0


@pytest.mark.parametrize(("p99", "kept"), [(1.2, True), (1.3, False)])
def test_what_pods_that_fit_nowhere_may_cost_the_others(p99: float, kept: bool) -> None:
    (budget,) = mixed_budgets([make(1.0, 0.5, 0.9, 2.0), make(1.0, 0.5, 1.1, 2.0)], [make(1.0, 0.5, p99, 2.0)] * 2)
    assert budget.measured == pytest.approx(p99)
    assert budget.kept is kept


def test_an_idle_agent_may_write_leases_only() -> None:
    budgets = by_name(idle_budgets(PHASE, "cd", 20, 0.05))
    assert budgets["source agent CPU, 20 targets, of one core"].measured == pytest.approx(10.0)
    assert budgets["API writes other than leases"].measured == 270.0
    quiet = Phase(30.0, {"cd/agent": 0.3}, 0.0, {"source-agent PUT leases 200": 60.0})
    quiet.writes["source-agent POST selfsubjectaccessreviews 201"] = 28.0
    assert all(budget.kept for budget in idle_budgets(quiet, "cd", 20, 0.05))


@pytest.mark.parametrize(("targets", "kept"), [(20, False), (100, True)])
def test_many_targets_may_cost_more(targets: int, kept: bool) -> None:
    busy = Phase(30.0, {"cd/agent": 1.2}, 0.0, {})
    assert [budget.kept for budget in idle_budgets(busy, "cd", targets, 0.2)] == [False, kept, True]


@pytest.mark.parametrize(("at", "kept"), [("least", True), ("most", True)])
def test_a_budget_that_is_just_met_is_kept(at: str, kept: bool) -> None:
    assert Budget("x", 3.0, "least" if at == "least" else "most", 3.0, "").kept is kept


def test_the_json_is_one_line_of_rounded_figures() -> None:
    line = report.json_line(
        {"plain": report.run_figures(PLAIN), "budgets": report.budget_figures([Budget("x", 1 / 3, "most", 1.0, "s")])}
    )
    assert "\n" not in line
    found = json.loads(line)
    assert found["budgets"] == [
        {"name": "x", "measured": 0.3333, "at": "most", "limit": 1.0, "unit": "s", "kept": True}
    ]
    assert found["plain"]["pods_per_second"] == 100.0
    assert found["plain"]["creation"]["writes_per_pod"] == 2.0
    assert found["plain"]["memory_mib"]["cd/agent"]["peak"] == 80.0
    assert "cd/etcd" not in found["plain"]["memory_mib"]


def test_columns_are_in_line() -> None:
    assert report.table([["", "a"], ["name", "1.5"], ["n", "22.5"]]) == ["         a", "name   1.5", "n     22.5"]


def text(lines: list[str]) -> str:
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("make_lines", "wanted"),
    [
        (lambda: report.comparison(PLAIN, ELECTED, ratios(PLAIN, ELECTED)), "60 in us, 40 in eu"),
        (lambda: report.comparison(PLAIN, ELECTED, ratios(PLAIN, ELECTED)), "0.50 x"),
        (lambda: report.processors(PLAIN, ELECTED), "80 MiB"),
        (lambda: report.writes(ELECTED), "source-agent POST events (apart)"),
        (lambda: report.latency_lines(LATENCY), "90.0 ms"),
        (lambda: report.idle_lines(PHASE, 20), "10.00 %"),
        (lambda: report.budget_lines([Budget("x", 2.0, "most", 1.0, "")], "a note"), "FAIL\n  a note"),
    ],
    ids=["places", "ratios", "memory", "writes apart", "latency", "idle CPU", "verdict and note"],
)
def test_the_text_tells(make_lines: Callable[[], list[str]], wanted: str) -> None:
    assert wanted in text(make_lines())


def test_strangers_on_the_machine_are_told_only_when_they_matter() -> None:
    busy = Phase(10.0, CPU, 10_000.0, {})
    assert report.disturbance([Phase(10.0, CPU, 0.0, {})]) == []
    assert "CAUTION" in text(report.disturbance([PHASE, busy]))
