"""Limits for the results of benchmarks (docs/reference/scaling.md). Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Literal

from hack.lab.benchmarks import counters
from hack.lab.benchmarks.lab import BENCH, OURS, Phase
from hack.lab.benchmarks.latency import Latency
from hack.lab.benchmarks.procfs import Usage
from hack.lab.benchmarks.run import Run
from hack.lab.benchmarks.stats import Spread

_KIB_PER_MIB = 1024
_FEW_TARGETS, _SOME_TARGETS = 20, 100
_SHARE = 15.0
"""Most CPU of an agent with 1,000 targets, in per cent of a core."""
MEANT = 1000
"""Number of pods of a burst for which the limits apply."""


@dataclass(frozen=True)
class Budget:
    """A limit: the largest (`most`) or smallest (`least`) allowed value of a measurement."""

    name: str
    measured: float
    at: Literal["least", "most"]
    limit: float
    unit: str

    @property
    def kept(self) -> bool:
        """Whether the measured value is within the limit."""
        return self.measured >= self.limit if self.at == "least" else self.measured <= self.limit


def ratios(plain: Run, elected: Run) -> dict[str, float]:
    """Return the ratios of the elected run to the plain run."""
    return {
        "pods_per_second": elected.rate / plain.rate,
        "creation_to_running_p50": elected.start.p50 / plain.start.p50,
        "creation_to_running_p99": elected.start.p99 / plain.start.p99,
        "deletion": elected.gone / plain.gone,
        "cpu_to_create": total_cpu(elected.creation) / total_cpu(plain.creation),
        "cpu_to_delete": total_cpu(elected.deletion) / total_cpu(plain.deletion),
    }


def burst_budgets(
    plain: Run, elected: Run, latency: Latency, source: str, mode: str = "ranked", *, own_cores: bool = False
) -> list[Budget]:
    """Return the limits of a burst; they apply to 1,000 pods."""
    ratio = ratios(plain, elected)
    agent = f"{source}/agent"
    live, idle = elected.memory[agent].rss, elected.memory_before[agent].rss
    ours = python_cpu(elected.creation) / total_cpu(plain.creation)
    return [
        *(_reserve_budgets(ratio) if mode == "reserve" else _ranked_budgets(ratio, elected, own_cores=own_cores)),
        Budget("CPU of agents and webhooks / all CPU of the plain run", ours, "most", 0.45, ""),
        Budget("source agent RSS, all pods live", live / _KIB_PER_MIB, "most", _rss_limit(elected.pods), "MiB"),
        Budget("source agent RSS for each pod", (live - idle) / elected.pods, "most", 10.0, "KiB"),
        Budget("status latency p50, idle", latency.sent.p50 * 1000, "most", 15.0, "ms"),
        Budget("status latency p99, idle", latency.sent.p99 * 1000, "most", 40.0, "ms"),
        Budget("deletion, elected / plain", ratio["deletion"], "most", 2.5, ""),
    ]


def many_budget(few: Run, many: Run) -> Budget:
    """Return the limit for the speed of a much larger burst, relative to the smaller one."""
    return Budget(f"pods/s of {many.pods:,} / of {few.pods:,}", many.rate / few.rate, "least", 0.9, "")


def _rss_limit(pods: int) -> float:
    return 150.0 if pods <= MEANT else 400.0


def _ranked_budgets(ratio: Mapping[str, float], elected: Run, *, own_cores: bool) -> list[Budget]:
    speed = 0.7 if own_cores else 0.4
    return [
        Budget("pods/s to Running, elected / plain", ratio["pods_per_second"], "least", speed, ""),
        Budget("p99 creation to Running, elected / plain", ratio["creation_to_running_p99"], "most", 3.0, ""),
        Budget("API writes per pod to create", per_pod(elected.creation, elected.pods), "most", 6.5, ""),
        Budget("API writes per pod to delete", per_pod(elected.deletion, elected.pods), "most", 3.0, ""),
    ]


def _reserve_budgets(ratio: Mapping[str, float]) -> list[Budget]:
    """Return the limits of mode reserve: only of the speed, since a candidate in every target costs more."""
    return [Budget("pods/s to Running, elected / plain", ratio["pods_per_second"], "least", 0.22, "")]


def mixed_budgets(alone: Sequence[Run], beside: Sequence[Run]) -> list[Budget]:
    """Return the limit for the delay of small pods by unschedulable pods: the ratio of their mean p99 over
    several runs.
    """
    ratio = mean(run.start.p99 for run in beside) / mean(run.start.p99 for run in alone)
    return [Budget("p99 creation to Running of the small pods, beside / alone", ratio, "most", 1.2, "")]


def idle_budgets(phase: Phase, source: str, targets: int, still: float) -> list[Budget]:
    """Return the limits of a source's agent with `targets` idle targets; they apply to 20, 100 and 1,000.

    :param still: CPU seconds of the longest standstill of its event loop
    """
    percent = phase.cpu[f"{source}/agent"] / phase.seconds * 100
    limit = 2.0 if targets <= _FEW_TARGETS else 5.0 if targets <= _SOME_TARGETS else _SHARE
    return [
        _stillness("idle", still),
        Budget(f"source agent CPU, {targets} targets, of one core", percent, "most", limit, "%"),
        Budget("API writes other than leases", float(_other_than_leases(phase.writes)), "most", 0.0, ""),
    ]


def silent_budgets(silent: tuple[Phase, float], back: tuple[Phase, float], source: str, targets: int) -> list[Budget]:
    """Return the limits of a source's agent whose targets all stop answering and recover.

    Both arguments contain a phase and the CPU seconds of its longest standstill.
    """
    percent = silent[0].cpu[f"{source}/agent"] / silent[0].seconds * 100
    return [
        Budget(f"source agent CPU, {targets} silent targets, of one core", percent, "most", _SHARE, "%"),
        _stillness("silent", silent[1]),
        _stillness("coming back", back[1]),
    ]


def _stillness(what: str, seconds: float) -> Budget:
    return Budget(f"longest standstill of the event loop, {what}", seconds * 1000, "most", 100.0, "ms")


def nodes_budgets(count: int, usage: Usage, told: Spread) -> list[Budget]:
    """Return the limits of the agent of a target with many nodes; they apply to 5,000."""
    return [
        Budget(f"target agent RSS, {count:,} nodes", usage.rss / _KIB_PER_MIB, "most", 250.0, "MiB"),
        Budget("a change of a node until the summary tells it, p99", told.p99, "most", 1.0, "s"),
    ]


def per_pod(phase: Phase, pods: int) -> float:
    """Return the writes of agents and webhooks per pod, without events and leases."""
    return counters.counted(phase.writes) / pods


def python_cpu(phase: Phase) -> float:
    """Return the CPU seconds of all agents and webhooks."""
    return sum(seconds for key, seconds in phase.cpu.items() if key.rpartition("/")[2] in OURS)


def total_cpu(phase: Phase) -> float:
    """Return the CPU seconds of all processes of the clusters; these decide the speed on saturated processors."""
    return sum(seconds for key, seconds in phase.cpu.items() if key != BENCH)


def _other_than_leases(writes: Mapping[str, float]) -> float:
    apart = ("leases", *counters.OWN_REVIEWS)
    return sum(count for key, count in writes.items() if counters.resource(key) not in apart)
