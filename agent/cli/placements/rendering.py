"""An explanation of a Placement as text for a terminal. Pure."""

from collections.abc import Iterator
from datetime import datetime

from agent.base.clock import parse
from agent.cli.fleet.units import NOTHING
from agent.cli.output import as_table
from agent.cli.placements.explanation import PlacementExplanation, Verdict, scores_told


def as_text(explanation: PlacementExplanation, now: datetime, *, terminal: bool) -> str:
    """Return heading, table of all clusters, and notes."""
    blocks = ["\n".join(_heading(explanation, now))]
    if explanation.clusters:
        blocks.append(_table(explanation, now, terminal=terminal))
    if explanation.notes:
        blocks.append("\n".join(f"Note: {note}" for note in explanation.notes))
    return "\n\n".join(blocks)


def _heading(explanation: PlacementExplanation, now: datetime) -> Iterator[str]:
    decided = sum(each.decided for each in explanation.clusters)
    total = len(explanation.clusters)
    of = f"{decided} of {total} cluster{'' if total == 1 else 's'}"
    where = f" of {explanation.file}, which is not applied" if explanation.file else ""
    at = f"     decided {_time(explanation.decided_at, now)}" if explanation.decided_at else ""
    yield f"Placement {explanation.namespace}/{explanation.name}{where}: {of}, {_satisfied(explanation)}{at}"
    if explanation.misconfigured:
        kept = "; the last decisions stay" if decided else ""
        yield f"  Misconfigured: {explanation.misconfigured}{kept}"
    elif explanation.satisfied is False:
        yield f"  {explanation.reason}: {explanation.message}"
    if explanation.again_at:
        yield f"  Looked at again at {_time(explanation.again_at, now)}, when a toleration or a score expires"


def _satisfied(explanation: PlacementExplanation) -> str:
    if explanation.misconfigured:
        return "misconfigured"
    if explanation.satisfied is None:
        return "nobody has evaluated it yet"
    return "satisfied" if explanation.satisfied else "not satisfied"


def _table(explanation: PlacementExplanation, now: datetime, *, terminal: bool) -> str:
    grouped = any(each.group for each in explanation.clusters)
    heads = ["CLUSTER", "DECIDED", *(["GROUP"] if grouped else []), "SCORE", "WHY"]
    rows = [
        [
            each.cluster,
            "yes" if each.decided else "no",
            *([each.group or NOTHING] if grouped else []),
            NOTHING if each.score is None else str(each.score),
            _why(each, now),
        ]
        for each in explanation.clusters
    ]
    return as_table((heads, rows), terminal=terminal)


def _why(verdict: Verdict, now: datetime) -> str:
    if not verdict.decided:
        return verdict.refusal
    names = list(scores_told(verdict.reason))
    short = [name.rpartition("/")[2] for name in names]
    parts = []
    for part in verdict.reason.split(", "):
        name, space, rest = part.partition(" ")
        until = verdict.valid_until.get(name)
        # Names are shortened if they stay unique.
        if name in names and short.count(name.rpartition("/")[2]) == 1:
            name = name.rpartition("/")[2]
        parts.append(f"{name}{space}{rest}{f' (valid until {_time(until, now)})' if until else ''}")
    stays = f"would not be decided now: {verdict.refusal}" if verdict.refusal else ""
    return "; ".join(each for each in (", ".join(parts), stays) if each)


def _time(text: str, now: datetime) -> str:
    """Format a time in UTC, with the date unless it is today's."""
    found = parse(text)
    return f"{found:%H:%M:%S}" if found.date() == now.date() else f"{found:%Y-%m-%d %H:%M:%S}"
