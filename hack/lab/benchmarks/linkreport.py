"""Report of the links benchmark, with its limits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from hack.lab.benchmarks import counters, report, stats
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.lab import Phase
from hack.lab.benchmarks.stats import Spread

LIMIT_SECONDS, ADDED_SECONDS = 5.0, 0.5
_NOT_STORED = (
    *counters.APART,
    *counters.OWN_REVIEWS,
    "certificatesigningrequests",
    "subjectaccessreviews",
    "tokenreviews",
)
"""Resources whose POST requests store nothing, or that a starting process writes; a resync may send them."""
_TITLES = {
    "created": "Services are created",
    "last": "the last batch of them",
    "touched": "every Target touched",
    "restarted": "started again, and a target's",
    "well": "another batch, all well",
    "dark": "a Target in a black hole",
}

Times = list[float]


@dataclass(frozen=True)
class Work:
    """Work of the source's agent in a phase, and of all other processes."""

    phase: Phase
    cpu: float
    reconciles: dict[str, float]
    """By controller."""

    @property
    def stored(self) -> dict[str, float]:
        """Writes that an API server stores, as `ROLE METHOD RESOURCE`."""
        return stored(self.phase.writes)


@dataclass(frozen=True)
class Found:
    """Results. Times in seconds, from the request that creates a Service."""

    links: int
    targets: int
    programmed: Times
    """Times until the ServiceLink is Programmed, in order of creation."""
    well: tuple[Times, Times]
    """Times of another batch as large as the last one, and of a burst in one namespace. The burst counts until
    callers reach the nearer of two targets.
    """
    dark: tuple[Times, Times]
    """Times of the same batch while a black hole swallows one Target of the burst's namespace."""
    work: Mapping[str, Work]
    """By phase."""


def phases(found: Found) -> dict[str, Work]:
    """Return the work by the title of its phase."""
    return {_TITLES[name]: work for name, work in found.work.items()}


def stored(writes: Mapping[str, float]) -> dict[str, float]:
    """Return the writes that an API server stores, without heartbeats, as `ROLE METHOD RESOURCE`."""
    return {
        key: count for key, count in counters.by_resource(writes).items() if counters.resource(key) not in _NOT_STORED
    }


def link_budgets(found: Found) -> list[Budget]:
    """Return the limits for links."""
    before, dark = (stats.percentile(times, 99) for times in (found.well[0], found.dark[0]))
    touched, restarted = (sum(found.work[name].stored.values()) for name in ("touched", "restarted"))
    return [
        Budget("Service to Programmed, p99", stats.percentile(found.programmed, 99), "most", LIMIT_SECONDS, "s"),
        Budget("writes when every Target is touched", touched, "most", 0.0, ""),
        Budget("writes of an agent that starts again", restarted, "most", 0.0, ""),
        Budget("p99 beside a black hole", dark, "most", LIMIT_SECONDS, "s"),
        Budget("what the black hole adds to it", dark - before, "most", ADDED_SECONDS, "s"),
        Budget("the longest in its own namespace, to the other target", max(found.dark[1]), "most", LIMIT_SECONDS, "s"),
    ]


def link_lines(found: Found, pace: float) -> list[str]:
    """Return tables of the times and of the agent's work."""
    rows = [[f"{found.links} links, {found.targets} Targets, {pace:g} Services a second", "p50", "p99", "longest"]]
    for name, times in (
        ("Service to Programmed", found.programmed),
        (f"{len(found.well[0])} more, while one namespace has a burst", found.well[0]),
        (f"{len(found.dark[0])} more, while a black hole swallows a Target there, too", found.dark[0]),
        (f"the burst of {len(found.well[1])}: until callers here reach one target", found.well[1]),
        ("the same while the other Target is swallowed", found.dark[1]),
    ):
        spread = Spread.of(times)
        rows.append([name, *(f"{each:.2f} s" for each in (spread.p50, spread.p99, spread.longest))])
    work = [["the source's agent", "seconds", "CPU", "strangers", "writes", "reconciliations", "most of them"]]
    for name, each in phases(found).items():
        most = max(each.reconciles, key=lambda controller: each.reconciles[controller], default="")
        counts = sum(each.stored.values()), sum(each.reconciles.values())
        seconds = (each.phase.seconds, each.cpu, each.phase.strangers)
        cells = [*(f"{value:.1f} s" for value in seconds), *(f"{value:.0f}" for value in counts)]
        work.append([name, *cells, f"{most} {each.reconciles.get(most, 0.0):.0f}"])
    return ["", *report.table(rows), "", *report.table(work), "", *_details(found)]


def _details(found: Found) -> list[str]:
    created = found.work["created"]
    links = len(found.programmed) - len(found.well[0]) - len(found.well[1])
    each = [[f"for each of the first {links} links", ""]]
    each += [[key, f"{count / links:.2f}"] for key, count in created.stored.items()]
    each += [
        [f"reconciliations of {controller}", f"{count / links:.1f}"]
        for controller, count in sorted(created.reconciles.items())
        if count >= links
    ]
    idle = [
        [f"{_TITLES[name]}: {key}", f"{count:.0f}"]
        for name in ("touched", "restarted")
        for key, count in found.work[name].stored.items()
    ]
    return [*report.table(each), *(["", *report.table([["writes of a resync", ""], *idle])] if idle else [])]
