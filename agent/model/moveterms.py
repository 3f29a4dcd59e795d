"""Terms of moves, termination and failover of pods, from annotations of pods, owners and namespaces. Pure.

Validates `move`, `failover-after`, `fail-back`, `fence` and `shutdown-delay`; the callers decide which of them
apply to which object.
"""

from collections.abc import Iterable, Iterator, Mapping

from agent.api import names
from agent.api.names import fencing, lifecycle, moves
from agent.model import shutdowndelay, target_health

SUFFIXES = (moves.MOVE, lifecycle.FAILOVER_AFTER, lifecycle.FAIL_BACK, fencing.FENCE, names.SHUTDOWN_DELAY)
_SHOWN = 60
_OF_OWNERS = (lifecycle.FAILOVER_AFTER, lifecycle.FAIL_BACK)
"""Annotations parsed by `target_health` that other objects than Targets may have."""
_CHOICES = {moves.MOVE: moves.MOVE_CHOICES, fencing.FENCE: fencing.FENCES}


def move_of(said: Iterable[Mapping[str, str] | None]) -> str:
    """Return how pods move: the first valid annotation of several objects; empty if there is none.

    :param said: annotations of the pod, its owners and its namespace, in this order
    """
    found = (names.annotation(annotations, moves.MOVE) for annotations in said)
    return next((value for value in found if value in moves.MOVE_CHOICES), "")


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield invalid annotations of an object: the field, and the reason with the remedy."""
    for prefix in (names.PREFIX, names.SHORT_PREFIX):
        for suffix, choices in _CHOICES.items():
            said = (annotations or {}).get(prefix + suffix)
            if said is not None and said not in choices:
                reason = f"{said[:_SHOWN]!r} must be one of {', '.join(choices)}: correct it, or remove it"
                yield _field(prefix + suffix), reason
        for suffix in _OF_OWNERS:
            text = (annotations or {}).get(prefix + suffix)
            for field, reason in target_health.flaws({prefix + suffix: text} if text is not None else None):
                yield field, f"{reason}: correct it, or remove it"
    yield from shutdowndelay.flaws(annotations)


def _field(key: str) -> str:
    return f"metadata.annotations[{key}]"
