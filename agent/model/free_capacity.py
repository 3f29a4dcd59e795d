"""What nodes have left beside their pods, as a summary tells it (ruling 11).

Amounts are rounded down, to 10m of cpu and 1 MiB of memory and of ephemeral storage. A resource of which nothing is
left is not named.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.model.requests import Amounts

FEW = 16
"""Entries per shape of a summary that would be too large with all that matter."""

_NANO = 10**9
_STEPS = {"cpu": _NANO // 100, "memory": _NANO << 20, "ephemeral-storage": _NANO << 20}


@dataclass(frozen=True, slots=True)
class Taken:
    """What the pods of one node take."""

    amounts: dict[str, int] = field(default_factory=dict)
    """Resource name to an amount in 10^-9 of its base unit."""
    ports: Counter[str] = field(default_factory=Counter)
    """Host ports, as `TCP/80`, and how many pods have them."""


class Left(NamedTuple):
    """What one node has left: as much of each resource, in the order of `resources`, and the host ports in use."""

    amounts: tuple[int, ...]
    ports: tuple[str, ...]


UNTOUCHED = Taken()


def resources(allocatable: Amounts) -> tuple[str, ...]:
    """Resources of nodes by weight: where one node has more than another is decided by the first that differs."""
    return tuple(sorted(allocatable, key=lambda name: (name != "cpu", name != "memory", name)))


def left(order: Sequence[str], allocatable: Amounts, taken: Taken) -> Left:
    """What a node has left; nothing of what is overcommitted."""
    return Left(
        tuple(_down(name, max(0, allocatable[name] - taken.amounts.get(name, 0))) for name in order),
        tuple(sorted(taken.ports)),
    )


def collapse(nodes: Iterable[Left]) -> dict[Left, int]:
    """The different amounts left, the most free first, and how many nodes have just that."""
    counts = Counter(nodes)
    found = sorted(counts, key=lambda one: (*(-amount for amount in one.amounts), len(one.ports), one.ports))
    return {one: counts[one] for one in found}


def undominated(found: Iterable[Left]) -> list[Left]:
    """Of those in the order of `collapse`, the ones beside which no other has as much of everything and no more ports
    in use: a pod that fits any, fits one of them.
    """
    kept: list[Left] = []
    for one in found:
        # In this order, what dominates comes first.
        if not any(_dominates(other, one) for other in kept):
            kept.append(one)
    return kept


def few(found: Sequence[Left]) -> list[Left]:
    """At most `FEW`: those with the most of each resource, then the first."""
    width = len(found[0].amounts) if found else 0
    best = [max(found, key=lambda one: one.amounts[position]) for position in range(width)]
    chosen = set(list(dict.fromkeys([*best, *found]))[:FEW])
    return [one for one in found if one in chosen]


def _dominates(other: Left, one: Left) -> bool:
    return all(map(int.__ge__, other.amounts, one.amounts)) and set(other.ports).issubset(one.ports)


def _down(name: str, amount: int) -> int:
    step = _STEPS.get(name)
    return amount // step * step if step else amount
