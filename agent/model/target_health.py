"""Health of a target, as its Target records it: whether it may receive new pods, and keep present ones. Pure.

The agent's other parts read the decisions of `targetlife` with this module. It also parses the failover
annotations of a pod, its owner and its namespace.
"""

import contextlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names import fencing, lifecycle
from agent.model import duration
from agent.model.duration import InvalidDuration

LEAST_FAILOVER_SECONDS = 10.0
"""Minimum of `failover-after` in seconds: two failed probes take about as long."""


class InvalidTerm(ValueError):
    """Invalid value of an annotation; the message has the remedy."""


@dataclass(frozen=True)
class Standing:
    """State of a target, from the annotations and conditions of its Target or ClusterTarget."""

    retiring: bool = False
    """True if a user has asked to empty the target."""
    lost: bool = False
    """True if it has not answered for its failover term, or a user declared it lost: its pods are replaced."""
    declared: bool = False
    """A user has certified that none of its pods run any longer."""
    asked: bool = False
    """A user has requested failover at once."""
    held: bool = False
    """Too many targets are unavailable: its pods are only replaced at a user's request."""
    returning: bool = False
    """True if it was unavailable and may not receive new pods yet."""

    @property
    def closed(self) -> str:
        """Reason why it may not receive new pods, for users; empty if it may."""
        if self.declared:
            return f"it is declared lost: remove {_key(lifecycle.LOST)} from the Target to use it again"
        if self.retiring:
            return f"it is being emptied: remove {_key(lifecycle.RETIRE)} from the Target to use it again"
        if self.lost:
            return "it is lost: it has not answered for too long"
        if self.returning:
            return "it was away, and has to answer for a while first"
        return ""

    def is_dead(self, *, answers: bool, ready: bool) -> bool:
        """Return whether a user has certified that the target's pods have ended, and nothing contradicts it.

        :param answers: whether the target answers
        :param ready: whether its Target is Ready, perhaps as an earlier leader last observed it
        """
        return self.declared and not (answers or ready)

    def has_lost(self, silent: float, after: float | None) -> bool:
        """Return whether a pod in the target has to be replaced because the target is lost.

        :param silent: seconds for which the target has not answered
        :param after: failover term of the pod, its owner or its namespace in seconds; None if none is set
        """
        if self.declared:
            return True
        if self.held or after == math.inf:
            return False
        return self.lost if after is None or self.asked else silent >= after


NOTHING_SAID = Standing()


def standing(target: Mapping[str, Any]) -> Standing:
    """Return the health recorded in a Target."""
    annotations = (target.get("metadata") or {}).get("annotations")
    conditions = (target.get("status") or {}).get("conditions")
    declared = is_set(annotations, lifecycle.LOST)
    lost = declared or _status(conditions, lifecycle.TARGET_LOST) == "True"
    return Standing(
        retiring=is_set(annotations, lifecycle.RETIRE),
        lost=lost,
        declared=declared,
        asked=lost and is_set(annotations, lifecycle.FAILOVER_NOW),
        held=_status(conditions, lifecycle.FAILOVER_HELD) == "True",
        returning=_status(conditions, lifecycle.STABLE) == "False",
    )


def is_set(annotations: Mapping[str, str] | None, suffix: str) -> bool:
    """Return whether an annotation exists and is `true`."""
    return names.annotation(annotations, suffix) == "true"


def failover_after(text: str) -> float:
    """Return seconds after which pods of a target that does not answer are replaced; infinite for never.

    :raises InvalidTerm: if the text is neither a duration nor `never`
    """
    if text.strip() == lifecycle.NEVER:
        return math.inf
    try:
        found = duration.seconds(text.strip())
    except InvalidDuration as error:
        raise InvalidTerm(f"{text[:_SHOWN]!r} {error}, or {lifecycle.NEVER}") from error
    if found < LEAST_FAILOVER_SECONDS:
        raise InvalidTerm(f"{text[:_SHOWN]!r} must be {duration.written(LEAST_FAILOVER_SECONDS)} at least, or never")
    return found


def first_term(levels: Iterable[Mapping[str, str] | None]) -> float | None:
    """Return the first valid failover term among several objects' annotations in seconds; None if there is none.

    :param levels: annotations of the pod, its owner and its namespace, in this order
    """
    for annotations in levels:
        text = names.annotation(annotations, lifecycle.FAILOVER_AFTER)
        if text is not None:
            with contextlib.suppress(InvalidTerm):
                return failover_after(text)
    return None


def flaws(annotations: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Return invalid annotations of a pod, an owner, a namespace or a Target: fields and remedies."""
    found = []
    for prefix in (names.PREFIX, names.SHORT_PREFIX):
        text = (annotations or {}).get(prefix + lifecycle.FAILOVER_AFTER)
        if text is not None:
            try:
                failover_after(str(text))
            except InvalidTerm as error:
                found.append((f"metadata.annotations[{prefix}{lifecycle.FAILOVER_AFTER}]", str(error)))
        for suffix, choices in _CHOICES.items():
            value = (annotations or {}).get(prefix + suffix)
            if value is not None and value not in choices:
                reason = f"{str(value)[:_SHOWN]!r} must be one of {', '.join(choices)}"
                found.append((f"metadata.annotations[{prefix}{suffix}]", reason))
    return found


_SHOWN = 60
_CHOICES: dict[str, tuple[str, ...]] = {
    lifecycle.FAIL_BACK: lifecycle.FAIL_BACKS,
    fencing.FENCE: fencing.FENCES,
    lifecycle.RETIRE: ("true", "false"),
    lifecycle.LOST: ("true", "false"),
    lifecycle.FAILOVER_NOW: ("true", "false"),
}


def _status(conditions: Iterable[Mapping[str, Any]] | None, kind: str) -> str:
    return str((find_condition(conditions, kind) or {}).get("status") or "")


def _key(suffix: str) -> str:
    return names.SHORT_PREFIX + suffix
