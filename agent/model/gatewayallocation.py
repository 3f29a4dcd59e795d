"""Choice of the GatewayPeers and Services that fit into one Envoy, updated namespace by namespace. Pure.

If all together exceed the limits, each namespace first gets a small guaranteed part. Then namespaces keep the entries
that this Envoy already serves. Finally each namespace gets an equal share of the rest.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import inf

from agent.model.gatewaysize import At, Cost, Key, Limits, peer_entry

GUARANTEE = 1 / 16
"""Fraction of the limits that a namespace gets in any case; with more than 16 namespaces it is less."""
_ROUNDING = 1e-9


class Allocation:
    """Division of one Envoy's limits among namespaces."""

    def __init__(self, limit: Limits, before: Iterable[At] = ()) -> None:
        """:param before: entries that this Envoy serves already"""
        self.limit = limit
        self._spaces: dict[str, _Space] = {}
        self._before: dict[str, set[At]] = {}
        for at in before:
            self._before.setdefault(at[0][0], set()).add(at)

    def update(self, namespace: str, costs: Mapping[At, Cost]) -> None:
        """Set the costs of a namespace's GatewayPeers and Services; without costs the namespace is forgotten."""
        known = self._spaces.get(namespace)
        kept = known.kept if known is not None else self._before.pop(namespace, set())
        if costs:
            self._spaces[namespace] = _Space(costs, self.limit, kept)
        else:
            self._spaces.pop(namespace, None)

    def settle(self) -> set[str]:
        """Choose again; return the namespaces whose kept entries have changed."""
        memory, files = (sum(each.total[part] for each in self._spaces.values()) for part in (0, 1))
        if memory <= self.limit.memory and files <= self.limit.files:
            return {name for name, each in self._spaces.items() if each.keep_all()}
        needs = {name: each.need for name, each in self._spaces.items()}
        served = {name: each.used for name, each in self._spaces.items()}
        found = _allowances(needs, served)
        return {name for name, each in self._spaces.items() if each.choose(found[name])}

    def kept(self, namespace: str) -> Collection[At]:
        """Return the entries of a namespace that this Envoy is to serve."""
        known = self._spaces.get(namespace)
        return known.kept if known is not None else ()

    def left_out(self, namespace: str) -> Mapping[Key, int]:
        """Return the number of a namespace's left-out entries by GatewayPeer, which counts as one entry itself."""
        known = self._spaces.get(namespace)
        return Counter(at[0] for at in known.parts if at not in known.kept) if known is not None else {}


class _Space:
    """Entries of one namespace. The choice stays valid until their costs or the allowance change."""

    def __init__(self, costs: Mapping[At, Cost], limit: Limits, before: Collection[At]) -> None:
        """:param before: entries that were kept until now"""
        self.total = (sum(each.memory for each in costs.values()), sum(each.files for each in costs.values()))
        self.parts = {at: limit.part(cost) for at, cost in costs.items()}
        self.need = sum(self.parts.values())
        """Fraction of the limits that everything needs."""
        self.kept = {at for at in self.parts if at in before}
        self.used = self._sum()
        """Fraction of the limits that kept entries need."""
        self._least = 0.0
        """Fraction of the limits that the smallest left-out entry needs; 0 before the first choice, inf for none."""

    def keep_all(self) -> bool:
        """Keep all entries; return False if all are kept already."""
        if len(self.kept) == len(self.parts):
            return False
        self.kept, self.used, self._least = set(self.parts), self.need, inf
        return True

    def choose(self, allowance: float) -> bool:
        """Keep entries up to a fraction of the limits, already kept ones first; return True if that changes them."""
        room = allowance - self.used + _ROUNDING
        if 0 <= room < self._least:
            return False
        before = self.kept
        self.kept, left = set(), allowance
        for first in (True, False):
            for at, part in self.parts.items():
                if (at in before) is first and part <= left + _ROUNDING and self._may_be_kept(at):
                    left -= part
                    self.kept.add(at)
        self.used = self._sum()
        others = (part for at, part in self.parts.items() if at not in self.kept and self._may_be_kept(at))
        self._least = min(others, default=inf)
        return self.kept != before

    def _sum(self) -> float:
        return sum(part for at, part in self.parts.items() if at in self.kept)

    def _may_be_kept(self, at: At) -> bool:
        """Return True for a GatewayPeer, and for a Service of a kept GatewayPeer."""
        own = peer_entry(at[0])
        return at == own or own in self.kept


def _allowances(needs: Mapping[str, float], served: Mapping[str, float]) -> dict[str, float]:
    """Return the fraction of the limits that each namespace may use.

    A namespace gets its need up to the guarantee, then its served part, then an equal share of the rest.
    """
    guaranteed, room = min(GUARANTEE, 1 / len(needs)), 1.0
    found = dict.fromkeys(needs, 0.0)
    guarantees = {namespace: min(need, guaranteed) for namespace, need in needs.items()}
    for wanted in (guarantees, served, needs):
        lacking = {namespace: max(0.0, wanted[namespace] - had) for namespace, had in found.items()}
        share = _share(sorted(lacking.values()), room)
        for namespace, need in lacking.items():
            found[namespace] += min(need, share)
            room -= min(need, share)
    return found


def _share(needs: Sequence[float], room: float) -> float:
    """Divide capacity: return the upper bound of each part. Needs below it are met in full.

    :param needs: needs in ascending order
    :param room: capacity to divide
    """
    for number, need in enumerate(needs):
        if need * (len(needs) - number) > room:
            return max(0.0, room) / (len(needs) - number)
        room -= need
    return float("inf")
