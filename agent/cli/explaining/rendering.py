"""An explanation as text for a terminal."""

from collections.abc import Iterator

from agent.cli.explaining.lines import Bound, Explanation
from agent.cli.output import Table, as_table


def as_text(explanation: Explanation, *, terminal: bool) -> str:
    """Render an explanation as text with tables."""
    blocks = ["\n".join(_facts(explanation))]
    for title, table in _tables(explanation):
        blocks.append(f"{title}\n{as_table(table, terminal=terminal)}")
    if explanation.notes:
        blocks.append("\n".join(f"Note: {note}" for note in explanation.notes))
    return "\n\n".join(blocks)


def _facts(explanation: Explanation) -> Iterator[str]:
    yield f"Pod {explanation.namespace}/{explanation.name}"
    pairs = [
        ("Phase", explanation.phase),
        ("Mode", explanation.mode),
        ("Group", explanation.group),
        ("Follows", explanation.follows),
        ("Chosen", explanation.chosen),
        ("Claims", explanation.claims),
        ("Moves", explanation.moves),
        ("Replaces", explanation.replaces),
        ("Claimed by", explanation.claim),
        ("Bound to", _bound(explanation.bound) if explanation.bound else ""),
        ("Waits for", explanation.waits_for),
        ("It says", explanation.told if explanation.told not in explanation.waits_for else ""),
    ]
    for name, value in pairs:
        if value:
            yield f"  {name + ':':<12}{value}"


def _bound(bound: Bound) -> str:
    if not bound.target:
        return f"node {bound.node}"
    where = f"{bound.target} (virtual node {bound.node})"
    if not bound.delegate:
        return f"{where}; its delegate cannot be seen"
    node = bound.delegate_node or "no node yet"
    return f"{where}; delegate {bound.delegate} on {node}, {bound.delegate_phase or 'no phase yet'}"


def _tables(explanation: Explanation) -> Iterator[tuple[str, Table]]:
    if explanation.targets:
        scores = sorted({name for line in explanation.targets for name in line.scores})
        weighed = (f"{name.upper().replace('_', ' ')} x{explanation.weights[name]:g}" for name in scores)
        heads = ["TARGET", "MAY TAKE IT", *weighed, "TOTAL", "CANDIDATE"]
        rows = [
            [
                line.target,
                f"no, {line.verdict}" if line.verdict else "yes",
                *(_number(line.scores.get(name)) for name in scores),
                _number(line.total),
                line.candidate or "-",
            ]
            for line in explanation.targets
        ]
        tried = "would be tried now" if explanation.bound else "are tried"
        told = "each score is from 0 to 100, and the total their sum, each times its weight (x)"
        yield f"Targets, as they {tried}; {told}:", (heads, rows)
    if explanation.attempts:
        rows = [[tried.target, str(tried.count), tried.at or "?", tried.reason] for tried in explanation.attempts]
        yield "Attempts:", (["TARGET", "TIMES", "LAST", "REASON"], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
