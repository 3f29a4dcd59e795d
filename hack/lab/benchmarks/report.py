"""Results as text and as one JSON object. Pure."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import msgspec

from hack.lab.benchmarks import counters
from hack.lab.benchmarks.budgets import Budget, per_pod, python_cpu, ratios, total_cpu
from hack.lab.benchmarks.lab import OURS, Phase
from hack.lab.benchmarks.latency import Latency
from hack.lab.benchmarks.run import Run
from hack.lab.benchmarks.stillness import Standstill

_DIGITS = 4
_SHOWN = 5
"""Standstills that are shown."""
DISTURBED = 0.1
"""Largest share of the machine's processors that other programs may use."""


def comparison(plain: Run, elected: Run, ratios: Mapping[str, float]) -> list[str]:
    """Return a table that compares the speeds of both runs."""
    rows = [["", "plain", "elected", "ratio"]]
    rows += [
        ["pods/s to Running", f"{plain.rate:.1f}", f"{elected.rate:.1f}", _ratio(ratios["pods_per_second"])],
        _times("creation to Running p50", plain.start.p50, elected.start.p50, ratios["creation_to_running_p50"]),
        _times("creation to Running p99", plain.start.p99, elected.start.p99, ratios["creation_to_running_p99"]),
        _times("deletion", plain.gone, elected.gone, ratios["deletion"]),
    ]
    for name, key, first, second in (
        ("CPU of all clusters to create", "cpu_to_create", plain.creation, elected.creation),
        ("CPU of all clusters to delete", "cpu_to_delete", plain.deletion, elected.deletion),
    ):
        rows.append(_times(name, total_cpu(first), total_cpu(second), ratios[key]))
    where = ", ".join(f"{count} in {name}" for name, count in elected.places.items())
    notes = [
        "measured by one watch and the local clock: pods/s from the request that creates the Deployment to the last",
        "pod seen Running, a pod's time from its first sight, deletion until nothing is left in any cluster",
        f"delegates: {where}",
    ]
    return ["", *table(rows), *(f"  {note}" for note in notes)]


def pair_lines(pairs: Sequence[tuple[Run, Run]]) -> list[str]:
    """Return a table of all pairs of runs, with the CPU share of other programs. Later tables show the median pair."""
    rows = [["pair", "pods/s, plain", "elected", "ratio", "p99", "deletion", "others took"]]
    for number, (plain, elected) in enumerate(pairs, 1):
        ratio = ratios(plain, elected)
        rates = (f"{plain.rate:.1f}", f"{elected.rate:.1f}")
        found = [_ratio(ratio[key]) for key in ("pods_per_second", "creation_to_running_p99", "deletion")]
        rows.append([str(number), *rates, *found, f"{disturbed(phases_of(plain, elected)) * 100:.0f} %"])
    return ["", *table(rows)]


def phases_of(plain: Run, elected: Run) -> tuple[Phase, ...]:
    """Return all phases of both runs, in order of time."""
    return plain.creation, plain.deletion, elected.creation, elected.deletion


def processors(plain: Run, elected: Run) -> list[str]:
    """Return a table of the CPU seconds of every process by phase, and of the memory of agents and webhooks."""
    rows = [["CPU seconds", "plain create", "plain delete", "elected create", "elected delete", "peak RSS"]]
    phases = phases_of(plain, elected)
    for key in sorted(elected.memory, key=lambda key: (key.rpartition("/")[2], key)):
        peak = f"{elected.memory[key].peak / 1024:.0f} MiB" if key.rpartition("/")[2] in OURS else ""
        rows.append([key, *(f"{phase.cpu[key]:.2f}" for phase in phases), peak])
    rows.append(["all", *(f"{sum(phase.cpu.values()):.2f}" for phase in phases), ""])
    rows.append(["agents and webhooks", *(f"{python_cpu(phase):.2f}" for phase in phases), ""])
    rows.append(["strangers on this machine", *(f"{phase.strangers:.2f}" for phase in phases), ""])
    rows.append(["wall", *(f"{phase.seconds:.2f}" for phase in phases), ""])
    return ["", *table(rows)]


def writes(elected: Run) -> list[str]:
    """Return a table of the writes of agents and webhooks per pod, by client, resource and phase."""
    phases = (elected.creation.writes, elected.deletion.writes)
    create, delete = (counters.by_resource(found) for found in phases)
    rows = [["API writes per pod", "create", "delete"]]
    for key in sorted(create.keys() | delete.keys()):
        apart = " (apart)" if counters.resource(key) in counters.APART else ""
        rows.append([key + apart, *(f"{found.get(key, 0.0) / elected.pods:.3f}" for found in (create, delete))])
    for name, figures in (
        ("all that count", [per_pod(phase, elected.pods) for phase in (elected.creation, elected.deletion)]),
        ("refused or lost among them", [counters.failed(found) / elected.pods for found in phases]),
    ):
        rows.append([name, *(f"{figure:.3f}" for figure in figures)])
    return ["", *table(rows)]


def latency_lines(latency: Latency) -> list[str]:
    """Return a table of the latencies of a status change in the idle system."""
    rows = [[f"status latency, idle ({latency.tries} tries)", "p50", "p99", "longest"]]
    for name, spread in (
        ("from sending the change", latency.sent),
        ("from seeing it on the delegate", latency.seen),
        ("  until it is on the PodChaperon", latency.told),
        ("  from there to the proxy pod", latency.home),
    ):
        rows.append([name, *(f"{value * 1000:.1f} ms" for value in (spread.p50, spread.p99, spread.longest))])
    return ["", *table(rows)]


def idle_lines(phase: Phase, targets: int) -> list[str]:
    """Return a table of CPU time and writes of an idle system."""
    rows = [[f"idle, {targets} targets, {phase.seconds:.0f} s", "CPU", "of one core"]]
    for key, seconds in sorted(phase.cpu.items()):
        if key.rpartition("/")[2] in OURS:
            rows.append([key, f"{seconds:.2f} s", f"{seconds / phase.seconds * 100:.2f} %"])
    rows.append(["API writes", "", ""])
    rows += [[f"  {key}", f"{count:.0f}", ""] for key, count in counters.by_resource(phase.writes).items()]
    return ["", *table(rows)]


def standstill_lines(what: str, found: Sequence[Standstill]) -> list[str]:
    """Return the longest standstills of the event loop, with what caused them."""
    lines = ["", f"standstills, {what}: {len(found)}"]
    for each in found[:_SHOWN]:
        collecting = f"garbage collector {each.collecting * 1000:.0f} ms; " if each.collecting else ""
        lines.append(f"  {each.seconds * 1000:.0f} ms: {collecting}{each.where or 'no stack was sampled'}")
    return lines


def disturbance(phases: Iterable[Phase]) -> list[str]:
    """Return a warning if other programs used enough CPU to make the figures unreliable."""
    share = disturbed(phases)
    if share < DISTURBED:
        return []
    return [
        "",
        f"CAUTION: other programs took up to {share * 100:.0f} % of this machine in a phase:",
        "run it again on a quiet machine before you believe the figures",
    ]


def disturbed(phases: Iterable[Phase]) -> float:
    """Return the share of the machine's processors that other programs used, in the phase in which it was largest."""
    return max(phase.strangers / (phase.seconds * (os.cpu_count() or 1)) for phase in phases)


def budget_lines(budgets: Iterable[Budget], note: str = "") -> list[str]:
    """Return a table of the limits and verdicts."""
    rows = [["budget", "measured", "limit", ""]]
    for budget in budgets:
        limit = f"{'>=' if budget.at == 'least' else '<='} {budget.limit:g} {budget.unit}".rstrip()
        measured = f"{budget.measured:.2f} {budget.unit}".rstrip()
        rows.append([budget.name, measured, limit, "pass" if budget.kept else "FAIL"])
    return ["", *table(rows), *([f"  {note}"] if note else [])]


def json_line(result: Mapping[str, Any]) -> str:
    """Return one JSON object on one line, with numbers rounded to four decimals."""
    return msgspec.json.encode(_rounded(msgspec.to_builtins(result))).decode()


def run_figures(run: Run) -> dict[str, Any]:
    """Return a run as JSON values: seconds, pods per second, MiB."""
    return {
        "pods": run.pods,
        "pods_per_second": run.rate,
        "seconds_to_running": run.running,
        "creation_to_running": asdict(run.start),
        "deletion_seconds": run.gone,
        "places": run.places,
        "creation": _phase_figures(run.creation, run.pods),
        "deletion": _phase_figures(run.deletion, run.pods),
        "memory_mib": {
            key: {"rss": usage.rss / 1024, "peak": usage.peak / 1024}
            for key, usage in run.memory.items()
            if key.rpartition("/")[2] in OURS
        },
    }


def budget_figures(budgets: Iterable[Budget]) -> list[dict[str, Any]]:
    """Return limits as JSON values."""
    return [asdict(budget) | {"kept": budget.kept} for budget in budgets]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned columns: the first to the left, the next ones to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join([first.ljust(widths[0]), *cells]).rstrip())
    return lines


def _phase_figures(phase: Phase, pods: int) -> dict[str, Any]:
    return {
        "seconds": phase.seconds,
        "strangers_cpu_seconds": phase.strangers,
        "cpu_seconds": phase.cpu,
        "python_cpu_ms_per_pod": python_cpu(phase) / pods * 1000,
        "writes_per_pod": per_pod(phase, pods),
        "writes": phase.writes,
    }


def _times(name: str, plain: float, elected: float, ratio: float) -> list[str]:
    return [name, f"{plain:.2f} s", f"{elected:.2f} s", _ratio(ratio)]


def _ratio(value: float) -> str:
    return f"{value:.2f} x"


def _rounded(value: Any) -> Any:
    match value:
        case float():
            return round(value, _DIGITS)
        case dict():
            return {key: _rounded(item) for key, item in value.items()}
        case list():
            return [_rounded(item) for item in value]
        case _:
            return value
