"""An account as text."""

from collections.abc import Iterator

from agent.cli.explaining.account import Account, Bound
from agent.cli.output import Table, as_table


def as_text(account: Account, *, terminal: bool) -> str:
    """For people."""
    blocks = ["\n".join(_facts(account))]
    for title, table in _tables(account):
        blocks.append(f"{title}\n{as_table(table, terminal=terminal)}")
    if account.notes:
        blocks.append("\n".join(f"Note: {note}" for note in account.notes))
    return "\n\n".join(blocks)


def _facts(account: Account) -> Iterator[str]:
    yield f"Pod {account.namespace}/{account.name}"
    pairs = [
        ("Phase", account.phase),
        ("Mode", account.mode),
        ("Group", account.group),
        ("Claimed by", account.claim),
        ("Bound to", _bound(account.bound) if account.bound else ""),
        ("Waits for", account.waits_for),
        ("It says", account.told if account.told not in account.waits_for else ""),
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


def _tables(account: Account) -> Iterator[tuple[str, Table]]:
    if account.targets:
        scores = sorted({name for line in account.targets for name in line.scores})
        weighed = (f"{name.upper().replace('_', ' ')} x{account.weights[name]:g}" for name in scores)
        heads = ["TARGET", "MAY TAKE IT", *weighed, "TOTAL", "CANDIDATE"]
        rows = [
            [
                line.target,
                f"no, {line.verdict}" if line.verdict else "yes",
                *(_number(line.scores.get(name)) for name in scores),
                _number(line.total),
                line.candidate or "-",
            ]
            for line in account.targets
        ]
        tried = "would be tried now" if account.bound else "are tried"
        told = "each score is from 0 to 100, and the total their sum, each times its weight (x)"
        yield f"Targets, as they {tried}; {told}:", (heads, rows)
    if account.attempts:
        rows = [[tried.target, str(tried.count), tried.at or "?", tried.reason] for tried in account.attempts]
        yield "Attempts:", (["TARGET", "TIMES", "LAST", "REASON"], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"
