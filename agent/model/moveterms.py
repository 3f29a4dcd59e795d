"""How pods move, end and are replaced, as they, their owners and their namespaces say by annotation. Pure.

What is wrong with `move`, `failover-after`, `fail-back`, `fence` and `shutdown-delay`; which of them count where is up
to those who read them.
"""

from collections.abc import Iterable, Iterator, Mapping

from agent.api import names
from agent.api.names import fencing, lifecycle, moves
from agent.model import shutdowndelay, target_health

SUFFIXES = (moves.MOVE, lifecycle.FAILOVER_AFTER, lifecycle.FAIL_BACK, fencing.FENCE, names.SHUTDOWN_DELAY)
_SHOWN = 60
_OF_OWNERS = (lifecycle.FAILOVER_AFTER, lifecycle.FAIL_BACK)
"""Of those that `standing` reads, the ones that others than Targets may have."""
_CHOICES = {moves.MOVE: moves.MOVE_CHOICES, fencing.FENCE: fencing.FENCES}


def move_of(said: Iterable[Mapping[str, str] | None]) -> str:
    """How pods are to move, as the first of several objects' annotations has it that can be read; empty for nothing.

    :param said: those of the pod, of its owners and of its namespace, in this order
    """
    found = (names.annotation(annotations, moves.MOVE) for annotations in said)
    return next((value for value in found if value in moves.MOVE_CHOICES), "")


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """What cannot be read among the annotations of an object: the field, and why not with the remedy."""
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
