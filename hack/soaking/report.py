"""What came of a soak, as lines and as figures. Pure."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

from hack.benchmarks.report import table
from hack.benchmarks.stats import Spread
from hack.soaking.figures import Figures
from hack.soaking.judge import Violation, leading
from hack.soaking.lives import History
from hack.soaking.soak import Result

_SHOWN_LINES = 12
_SHOWN_VIOLATIONS = 20


def lines(result: Result) -> list[str]:
    """For people."""
    return [
        *_faults(result),
        *_pods(result),
        *_memory(result.figures),
        *_verdict(result.violations),
    ]


def figures(result: Result) -> dict[str, Any]:
    """For machines."""
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
        "memory_mib": {name: _span(series) for name, series in result.figures.memory.items()},
        "violations": [{"rule": each.rule, "what": each.what, "lines": each.lines} for each in result.violations],
    }


def counted(history: History) -> dict[str, Any]:
    """How many pods there were, and how long they took to run, in seconds."""
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


def _memory(found: Figures) -> Iterator[str]:
    rows = [["memory, MiB", "first", "middle", "last", "most"]]
    for name, series in sorted(found.memory.items()):
        span = _span(series)
        rows.append([name, *(f"{span[key]:.0f}" for key in ("first", "middle", "last", "most"))])
    yield ""
    yield from table(rows)


def _span(series: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Means of the three thirds of the time, and the most."""
    values = [value for _, value in series]
    third = max(1, len(values) // 3)
    return {
        "first": mean(values[:third]),
        "middle": mean(values[third : 2 * third] or values),
        "last": mean(values[-third:]),
        "most": max(values),
    }


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
