"""Conditions of a Target about its outages, and the annotation with those of the last hour. Pure."""

import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition
from agent.api.names import lifecycle
from agent.base.clock import parse, stamp
from agent.model import duration
from agent.model.target_health import InvalidTerm, failover_after, is_set
from agent.model.targetlife import LifeState, TargetLife, Terms, resumed

Raw = dict[str, Any]

HELD_SECONDS = 5.0
"""Seconds of silence before the condition FailoverHeld is written."""


@dataclass(frozen=True)
class View:
    """A Target and the state of its cluster."""

    target: Raw
    life: TargetLife
    terms: Terms
    held: bool
    """Whether so many targets are silent that the fault is probably in the source."""
    known: bool
    """Whether this process has observed its state yet."""
    monotonic: float
    now: datetime
    other: str = ""
    """Another Target through which its cluster answers; empty if none."""


def terms(target: Raw, failover: float, stable: float) -> tuple[Terms, str]:
    """Return the terms of a Target's annotation, else of the settings, and the error in the annotation, if any."""
    text = names.annotation(target["metadata"].get("annotations"), lifecycle.FAILOVER_AFTER)
    if text is None:
        return Terms(failover, stable), ""
    try:
        return Terms(failover_after(text), stable), ""
    except InvalidTerm as error:
        key = names.SHORT_PREFIX + lifecycle.FAILOVER_AFTER
        return Terms(failover, stable), f"metadata.annotations[{key}]: {error}; the setting counts"


def before(target: Raw, monotonic: float, now: datetime) -> TargetLife:
    """Return the state of a target that the previous leader recorded in its Target."""
    conditions = (target.get("status") or {}).get("conditions")
    told = find_condition(conditions, lifecycle.TARGET_LOST) or {}
    state = LifeState.CONNECTED
    if told.get("status") == "True" and told.get("reason") == lifecycle.NO_ANSWER:
        state = LifeState.LOST
    elif (find_condition(conditions, lifecycle.STABLE) or {}).get("status") == "False":
        state = LifeState.RETURNING
    ago = tuple((now - start).total_seconds() for start in _outages(target))
    return resumed(state, ago, monotonic)


def conditions(view: View) -> list[Raw]:
    """Return all conditions of a Target; those of other controllers are kept."""
    result: list[Raw] = list((view.target.get("status") or {}).get("conditions") or ())
    metadata = view.target["metadata"]
    # The API server increments the generation on deletion; these conditions do not depend on that.
    generation = metadata.get("generation") if "deletionTimestamp" not in metadata else None
    for kind, words in (
        (lifecycle.TARGET_LOST, _lost(view)),
        (lifecycle.FAILOVER_HELD, _held(view)),
        (lifecycle.STABLE, _stable(view)),
    ):
        if words is not None and (_is_news(kind, words) or find_condition(result, kind)):
            result = set_condition(result, kind, *words, view.now, generation)
    return result


def annotations(view: View) -> dict[str, str | None]:
    """Return the patch of a Target's annotations; empty if none changes."""
    current = view.target["metadata"].get("annotations") or {}
    patch: dict[str, str | None] = {}
    told = [view.now - timedelta(seconds=view.monotonic - start) for start in view.life.outages]
    written = msgspec.json.encode([stamp(each) for each in told]).decode() if told else None
    old = current.get(lifecycle.ANNOTATION_OUTAGES)
    if (old is None) != (written is None) or len(_outages(view.target)) != len(told):
        patch[lifecycle.ANNOTATION_OUTAGES] = written
    if view.known and view.life.answers:
        for prefix in (names.PREFIX, names.SHORT_PREFIX):
            if prefix + lifecycle.FAILOVER_NOW in current:
                patch[prefix + lifecycle.FAILOVER_NOW] = None
    return patch


def _outages(target: Raw) -> list[datetime]:
    text = (target["metadata"].get("annotations") or {}).get(lifecycle.ANNOTATION_OUTAGES)
    try:
        return [parse(each) for each in msgspec.json.decode(text or "[]", type=list[str])]
    except (msgspec.DecodeError, ValueError, RecursionError):
        return []


Words = tuple[Status, str, str]


def _is_news(kind: str, words: Words) -> bool:
    """Return True if a condition has to be written on a Target that never had it."""
    return words[0] != "False" or kind == lifecycle.STABLE or words[1] == lifecycle.CLUSTER_ANSWERS


def _lost(view: View) -> Words | None:
    given = view.target["metadata"].get("annotations")
    if is_set(given, lifecycle.LOST):
        return "True", lifecycle.DECLARED, "a person has certified that nothing of this target runs any more"
    if not view.known:
        return None
    if view.life.answers:
        return "False", "Answers", "the target answers"
    if is_set(given, lifecycle.FAILOVER_NOW):
        return "True", lifecycle.ASKED, "the target does not answer, and a person does not want to wait any longer"
    if view.other:
        message = f"the target does not answer, but its cluster does, by Target {view.other}: nothing is replaced"
        return "False", lifecycle.CLUSTER_ANSWERS, message
    if view.held:
        return "False", lifecycle.MOST_TARGETS_LOST, HELD
    if view.life.state is LifeState.LOST:
        after = duration.written(view.terms.failover_after)
        return "True", lifecycle.NO_ANSWER, f"the target has given no answer for {after}: its pods are replaced"
    return "False", "Unreachable", "the target does not answer, but has not been away for long enough"


def held_due(view: View) -> float:
    """Return the seconds until FailoverHeld is to be written; infinite if that is due, or failover is not held."""
    silent = view.life.silent_for(view.monotonic)
    return HELD_SECONDS - silent if view.held and not view.life.answers and silent < HELD_SECONDS else math.inf


HELD = (
    "most targets do not answer, so that the fault is rather this cluster's: nothing is replaced; where it is not, say"
    " so by `flotilla failover`"
)


def _held(view: View) -> Words | None:
    if not view.known:
        return None
    given = view.target["metadata"].get("annotations")
    person = is_set(given, lifecycle.LOST) or is_set(given, lifecycle.FAILOVER_NOW)
    if view.held and not view.life.answers and not person:
        if view.life.silent_for(view.monotonic) < HELD_SECONDS:
            return None
        return "True", lifecycle.MOST_TARGETS_LOST, HELD
    return "False", "NotHeld", "failover is not held"


def _stable(view: View) -> Words | None:
    pause = view.life.pause(view.terms)
    if view.life.state is LifeState.RETURNING and pause > 0:
        times = len(view.life.outages)
        often = f"it was away {times} times within the hour" if times > 1 else "it was lost"
        message = f"{often}: no new pods go there before it has answered for {duration.written(math.ceil(pause))}"
        return "False", lifecycle.FLAPPING, message
    if view.known and view.life.state is LifeState.CONNECTED:
        return "True", lifecycle.STABLE, "new pods may go there"
    return None
