"""What a Target says of its cluster's standing: whether it may have pods, and keeps those that it has. Pure.

This is where the agent's other parts read what is decided in `targetlife`; what a pod, its owner and its namespace say
of failover is read here, too.
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
"""Two probes that fail take longer."""


class InvalidTerm(ValueError):
    """A value of an annotation that means nothing; the message says what to write."""


@dataclass(frozen=True)
class Standing:
    """What a Target or ClusterTarget says, by annotations and conditions."""

    retiring: bool = False
    """It is to be emptied."""
    lost: bool = False
    """It has not answered for as long as its own term says, or a person says so: its pods are replaced elsewhere."""
    declared: bool = False
    """A person has certified that nothing of it runs any more."""
    asked: bool = False
    """A person does not want to wait any longer."""
    held: bool = False
    """So many are away that nothing is replaced because of it, but what a person asks for."""
    returning: bool = False
    """It was away, and may have no new pods yet."""

    @property
    def closed(self) -> str:
        """Why it may have no new pods, in words; empty if it may."""
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
        """Whether a person has certified that nothing runs there any more, and the target does not show otherwise.

        :param answers: whether it does
        :param ready: whether its Target says that it is ready, as whoever led before may have seen it last
        """
        return self.declared and not (answers or ready)

    def has_lost(self, silent: float, after: float | None) -> bool:
        """Whether a pod there is to be replaced because its target is lost.

        :param silent: for how many seconds the target has not answered
        :param after: what the pod, its owner or its namespace says of how long that may be; None for nothing
        """
        if self.declared:
            return True
        if self.held or after == math.inf:
            return False
        return self.lost if after is None or self.asked else silent >= after


NOTHING_SAID = Standing()


def standing(target: Mapping[str, Any]) -> Standing:
    """What a Target says of itself."""
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
    """Whether an annotation is there and says true."""
    return names.annotation(annotations, suffix) == "true"


def failover_after(text: str) -> float:
    """Seconds after which pods of a target that does not answer are replaced, infinite for never.

    :raises InvalidTerm: if it is neither
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
    """What the first of several objects' annotations that can be read says of failover, None where none does.

    :param levels: those of the pod, its owner and its namespace, in this order
    """
    for annotations in levels:
        text = names.annotation(annotations, lifecycle.FAILOVER_AFTER)
        if text is not None:
            with contextlib.suppress(InvalidTerm):
                return failover_after(text)
    return None


def flaws(annotations: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """What is wrong with these annotations of a pod, an owner, a namespace or a Target: fields, and what to write."""
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
