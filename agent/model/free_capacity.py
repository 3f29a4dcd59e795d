"""Free capacity of nodes, as a ClusterSummary publishes it (ruling 11).

Amounts are rounded down to 10m of CPU and 1 MiB of memory or ephemeral storage. Exhausted resources are left out.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agent.model.requests import Amounts

FEW = 16
"""Maximum number of entries per node shape if the summary would be too large with all of them."""

_NANO = 10**9
_STEPS = {"cpu": _NANO // 100, "memory": _NANO << 20, "ephemeral-storage": _NANO << 20}


@dataclass(frozen=True, slots=True)
class Taken:
    """Resources and host ports that the pods of one node use."""

    amounts: dict[str, int] = field(default_factory=dict)
    """Resource name to an amount in 10^-9 of its base unit."""
    ports: Counter[str] = field(default_factory=Counter)
    """Number of pods by host port, such as `TCP/80`."""


class Left(NamedTuple):
    """Free capacity of one node: amounts in the order of `resources`, and the host ports in use."""

    amounts: tuple[int, ...]
    ports: tuple[str, ...]


UNTOUCHED = Taken()


def resources(allocatable: Amounts) -> tuple[str, ...]:
    """Return the resource names in the order that compares nodes: CPU, memory, then the others by name."""
    return tuple(sorted(allocatable, key=lambda name: (name != "cpu", name != "memory", name)))


def left(order: Sequence[str], allocatable: Amounts, taken: Taken) -> Left:
    """Return the free capacity of a node; 0 of an overcommitted resource."""
    return Left(
        tuple(_down(name, max(0, allocatable[name] - taken.amounts.get(name, 0))) for name in order),
        tuple(sorted(taken.ports)),
    )


def collapse(nodes: Iterable[Left]) -> dict[Left, int]:
    """Count nodes with equal free capacity; most free first."""
    counts = Counter(nodes)
    found = sorted(counts, key=lambda one: (*(-amount for amount in one.amounts), len(one.ports), one.ports))
    return {one: counts[one] for one in found}


def undominated(found: Iterable[Left]) -> list[Left]:
    """Drop entries that another entry dominates: at least as much of each resource, and no additional port in use.

    A pod that fits a dropped entry also fits a kept one.

    :param found: entries in the order of `collapse`
    """
    kept: list[Left] = []
    for one in found:
        # In this order a dominating entry comes before the entries that it dominates.
        if not any(_dominates(other, one) for other in kept):
            kept.append(one)
    return kept


def few(found: Sequence[Left]) -> list[Left]:
    """Return at most `FEW` entries: those with the most of each resource, then the first ones."""
    width = len(found[0].amounts) if found else 0
    best = [max(found, key=lambda one: one.amounts[position]) for position in range(width)]
    chosen = set(list(dict.fromkeys([*best, *found]))[:FEW])
    return [one for one in found if one in chosen]


def _dominates(other: Left, one: Left) -> bool:
    return all(map(int.__ge__, other.amounts, one.amounts)) and set(other.ports).issubset(one.ports)


def _down(name: str, amount: int) -> int:
    step = _STEPS.get(name)
    return amount // step * step if step else amount
