"""Moves that are under way or blocked, as lines of a table. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from agent.api import names
from agent.api.names import moves
from agent.base.clock import stamp
from agent.cli.fleet.lines import moment
from agent.cli.fleet.units import NOTHING, since
from agent.cli.output import Table
from agent.kube.store import Object
from agent.model import replacement
from agent.model.podstate import ENDED
from agent.moves.mover.facts import Facts, facts_of, is_replacement
from agent.moves.mover.plan import CAUSES

ENDING, MOVING, DONE = "Ending", "Moving", "Done"
_MARKS = tuple(f'"{key}"'.encode() for key in (moves.CONDITION, moves.ANNOTATION_REPLACED_BY))
_SILENT = "its target does not answer"
_TOLD = {
    **{words: cause for cause, words in CAUSES.items()},
    "its target ": "Targets",
    "its cluster ": "Placement",
    "it prefers ": "FailBack",
}
"""Causes by the first words of the pods' condition messages."""


@dataclass(frozen=True)
class MoveLine:
    """A pod that is to leave its target."""

    namespace: str
    pod: str
    source: str
    """Current target."""
    to: str
    """Target of its replacement, empty until it has one."""
    cause: str
    phase: str
    """Reason of its condition Placed; Ending once it has been deleted."""
    since: str
    """RFC 3339 time at which the phase, or else the move, began."""
    replacement: str
    message: str


def titles_of(targets: Iterable[Object]) -> dict[str, str]:
    """Return the titles of targets by virtual node."""
    return {names.virtual_node(*target.key): target.name for target in targets}


def move_lines(pods: Sequence[Object], titles: Mapping[str, str], namespace: str | None = None) -> list[MoveLine]:
    """Return a line for every proxy pod of a namespace (None: all) that moves, or should move."""
    meant = [pod for pod in pods if namespace in (None, pod.namespace)]
    by_uid = {pod.uid: pod for pod in meant}
    replacing = {pod.hot_annotations.replaces: pod for pod in meant if is_replacement(pod)}
    lines = []
    for pod in meant:
        new = replacing.get(pod.uid) or by_uid.get(pod.hot_annotations.replaced_by)
        if is_replacement(pod):
            if pod.hot_annotations.replaces not in by_uid:
                lines.append(_left_over(pod, titles))
        elif (new is not None or any(mark in pod.raw for mark in _MARKS)) and pod.phase not in ENDED:
            line = _line(pod, new, titles)
            lines += [line] if line is not None else []
    return sorted(lines, key=lambda line: (line.namespace, line.pod))


def _line(pod: Object, new: Object | None, titles: Mapping[str, str]) -> MoveLine | None:
    facts = facts_of(pod)
    if not facts.told and new is None:
        return None
    placed = facts.condition(moves.CONDITION) if facts.told else None
    moved = replacement.moved(new.annotations) if new is not None else None
    message = (placed.message or "") if placed is not None else ""
    began = placed.last_transition_time if placed is not None else None
    return MoveLine(
        namespace=pod.namespace,
        pod=pod.name,
        source=titles.get(pod.node_name, pod.node_name),
        to=titles.get(new.node_name, new.node_name) if new is not None else "",
        cause=(moved.cause if moved is not None else "") or cause_told(message),
        phase=_phase(pod, facts, (placed.reason or "") if placed is not None else "", is_replaced=new is not None),
        since=stamp(began) if began is not None else moved.since if moved is not None else "",
        replacement=new.name if new is not None else "",
        message=message,
    )


def _phase(pod: Object, facts: Facts, reason: str, *, is_replaced: bool) -> str:
    if pod.deleting:
        return ENDING
    if is_replaced and reason == "Misplaced":
        reason = MOVING
    return reason or MOVING


def _left_over(pod: Object, titles: Mapping[str, str]) -> MoveLine:
    """Return the line of a replacement whose pod no longer needs one."""
    moved = replacement.moved(pod.annotations) or replacement.Moved()
    return MoveLine(
        namespace=pod.namespace,
        pod=pod.name,
        source=titles.get(moved.from_, moved.from_),
        to=titles.get(pod.node_name, pod.node_name),
        cause=moved.cause,
        phase=ENDING,
        since=moved.since,
        replacement=pod.name,
        message="the pod that it was to replace is gone: it goes, too",
    )


def cause_told(message: str) -> str:
    """Return why a pod moves, from the start of its condition's message; empty if that gives no cause."""
    if message.startswith(_SILENT):
        return ""
    return next((cause for words, cause in _TOLD.items() if message.startswith(words)), "")


def move_told(pod: Object, pods: Sequence[Object], titles: Mapping[str, str]) -> str:
    """Return the progress of a pod's move in one line; empty if it does not move."""
    lines = move_lines(pods, titles, pod.namespace)
    line = next((each for each in lines if each.pod == pod.name and not is_replacement(pod)), None)
    if line is None:
        return ""
    since_ = f" since {line.since}" if line.since else ""
    cause = f" ({line.cause})" if line.cause else ""
    new = f"; {line.replacement} replaces it in {line.to or 'no target yet'}" if line.replacement else ""
    return f"{line.phase}{since_}{cause}" + (f": {line.message}" if line.message else "") + new


def replaces_told(pod: Object, pods: Sequence[Object], titles: Mapping[str, str]) -> str:
    """Return the pod that a replacement replaces; empty if the pod is no replacement."""
    moved = replacement.moved(pod.annotations)
    if moved is None:
        return ""
    uid = pod.hot_annotations.replaces
    old = next((each.name for each in pods if uid and each.uid == uid), "a pod that is gone")
    return f"{old} in {titles.get(moved.from_, moved.from_)} ({moved.cause}, since {moved.since})"


def changes(before: Sequence[MoveLine], after: Sequence[MoveLine]) -> list[MoveLine]:
    """Return new and changed lines, and a DONE line for each pod that no longer moves."""
    known = {(line.namespace, line.pod): line for line in before}
    left = {(line.namespace, line.pod) for line in after}
    found = [line for line in after if known.get((line.namespace, line.pod)) != line]
    return found + [replace(line, phase=DONE, message="") for key, line in known.items() if key not in left]


def moves_table(lines: Sequence[MoveLine], now: datetime, *, everywhere: bool) -> Table:
    """Return a table with columns in kubectl's style, the longest last."""
    heads = ["POD", "FROM", "TO", "CAUSE", "PHASE", "SINCE", "MESSAGE"]
    rows = [[*_cells(line, now)] for line in lines]
    if everywhere:
        heads = ["NAMESPACE", *heads]
        rows = [[line.namespace, *row] for row, line in zip(rows, lines, strict=True)]
    return heads, rows


def _cells(line: MoveLine, now: datetime) -> list[str]:
    found = (line.pod, line.source, line.to, line.cause, line.phase, since(moment(line.since), now), line.message)
    return [each or NOTHING for each in found]
