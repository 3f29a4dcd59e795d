"""Report of a soak, as text and as JSON. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.report import DISTURBED, budget_lines, table
from hack.lab.benchmarks.stats import Spread, percentile
from hack.lab.soak.figures import Figures, thirds
from hack.lab.soak.judge import Violation, leading
from hack.lab.soak.lives import History
from hack.lab.soak.load import Found
from hack.lab.soak.soak import Result

_SHOWN_LINES = 12
_SHOWN_VIOLATIONS = 20


def lines(result: Result) -> list[str]:
    """Return the report as text."""
    return [
        *_faults(result),
        *_pods(result),
        *memory(result.figures),
        *_verdict(result.violations),
    ]


def figures(result: Result) -> dict[str, Any]:
    """Return the report as JSON values."""
    counts = counted(result.history)
    head = result.plan.head
    return {
        "seed": head.seed,
        "minutes": head.minutes,
        "pods": head.pods,
        "faults": dict(Counter(f"{each.what} {each.process}" for each in result.outages)),
        "well_seconds": result.well,
        "empty_seconds": result.empty,
        **counts,
        "cpu_seconds": result.figures.cpu,
        "memory_mib": {name: thirds(series) for name, series in result.figures.memory.items()},
        "violations": [{"rule": each.rule, "what": each.what, "lines": each.lines} for each in result.violations],
    }


def counted(history: History) -> dict[str, Any]:
    """Count the pods, and return how long they took to run, in seconds."""
    proxies = history.proxies().values()
    delegates = [each for found in history.delegates().values() for each in found]
    starts = [each.ran.latest - each.born.latest for each in proxies if each.ran is not None]
    gaps = {
        cluster: max((later[0] - earlier[0] for earlier, later in pairwise(found)), default=0.0)
        for cluster, found in leading(history).items()
    }
    return {
        "pods_created": len(proxies),
        "pods_deleted": sum(each.gone is not None for each in proxies),
        "delegates_created": len(delegates),
        "delegates_finished": sum(bool(each.phase) for each in delegates),
        "created_to_running": Spread.of(starts).__dict__ if starts else {},
        "longest_without_leader": gaps,
    }


def load_lines(found: Found, figures: Figures, budgets: Sequence[Budget]) -> list[str]:
    """Return the report of a load test as text."""
    rows = [
        ["load", ""],
        ["until all pods ran", f"{found.filled:.0f} s"],
        ["pods replaced", str(found.replaced)],
        ["statuses that came home", str(len(found.feedback))],
        *([f"feedback, {key}", f"{value * 1000:.0f} ms"] for key, value in Spread.of(found.feedback).__dict__.items()),
        ["keys in queues, p50", f"{percentile(found.queued, 50):.0f}"],
        ["keys in queues, most", f"{max(found.queued):.0f}"],
        ["CPU of all processes", f"{sum(figures.cpu.values()):.0f} s"],
    ]
    return ["", *table(rows), *memory(figures), *budget_lines(budgets)]


def _faults(result: Result) -> Iterator[str]:
    clusters = sorted({each.cluster for each in result.outages})
    rows = [["faults", *clusters, "longest"]]
    for what in sorted({(each.process, each.what) for each in result.outages}):
        mine = [each for each in result.outages if (each.process, each.what) == what]
        counts = [str(sum(each.cluster == cluster for each in mine)) for cluster in clusters]
        rows.append([" ".join(what), *counts, f"{max(each.ended - each.began for each in mine):.1f} s"])
    yield ""
    yield from table(rows)


def _pods(result: Result) -> Iterator[str]:
    found = counted(result.history)
    rows = [
        ["pods", ""],
        ["proxy pods created", str(found["pods_created"])],
        ["proxy pods deleted", str(found["pods_deleted"])],
        ["delegates created", str(found["delegates_created"])],
        ["delegates finished", str(found["delegates_finished"])],
    ]
    rows += [[f"creation to Running, {key}", f"{value:.1f} s"] for key, value in found["created_to_running"].items()]
    rows += [
        [f"longest without a leader, {key}", f"{each:.1f} s"] for key, each in found["longest_without_leader"].items()
    ]
    rows += [
        ["last fault to all well", f"{result.well:.1f} s"],
        ["deletion of all to nothing left", f"{result.empty:.1f} s"],
        ["CPU of all processes", f"{sum(result.figures.cpu.values()):.0f} s"],
    ]
    yield ""
    yield from table(rows)


def memory(found: Figures) -> Iterator[str]:
    """Yield lines about the memory of agents and webhooks, and about other load on the machine."""
    rows = [["memory, MiB", "first", "middle", "last", "most"]]
    for name, series in sorted(found.memory.items()):
        span = thirds(series)
        rows.append([name, *(f"{span[key]:.0f}" for key in ("first", "middle", "last", "most"))])
    yield ""
    yield from table(rows)
    if found.strangers >= DISTURBED:
        yield ""
        yield f"other programs took {found.strangers * 100:.0f} % of this machine: what takes time took longer"


def _verdict(violations: Sequence[Violation]) -> Iterator[str]:
    yield ""
    if not violations:
        yield "no violation"
        return
    yield f"{len(violations)} violations:"
    for rule, count in Counter(each.rule for each in violations).most_common():
        yield f"  {count:4}  {rule}"
    for each in violations[:_SHOWN_VIOLATIONS]:
        yield ""
        yield f"{each.rule}: {each.what}"
        for line in each.lines[:_SHOWN_LINES]:
            yield f"    {line}"
        if len(each.lines) > _SHOWN_LINES:
            yield f"    ... {len(each.lines) - _SHOWN_LINES} more"
