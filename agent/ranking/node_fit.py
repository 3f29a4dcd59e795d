"""Whether one single node of a target has capacity for a pod: labels, taints, free resources, host ports.

Reported capacity is slightly outdated. Pods sent since then are placed on the reported nodes so that a burst
does not overshoot, most free first as in kube-scheduler.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from agent.model.quantity import Quantity
from agent.ranking.matching import Term, any_term_matches, intolerable, required_terms, selects
from agent.ranking.rejection import Rejection
from agent.ranking.snapshot import Amounts, PodTemplate, Shape, TargetInfo

_HOSTNAME = "kubernetes.io/hostname"


class FreeNodes(NamedTuple):
    """Nodes of one shape that have the same amounts free."""

    shape: int
    amounts: Amounts
    ports: frozenset[str]
    countable: bool
    """True if the target reports all such nodes, so that assumed pods can be placed on them one by one."""


class Eligible(NamedTuple):
    """The shapes whose nodes match a pod's constraints, regardless of capacity."""

    shapes: Sequence[bool]
    rejection: Rejection | None
    """Why no shape is eligible; None if one is."""


class NodeFit:
    """Free capacity of a target's nodes after assumed pods, most free first."""

    __slots__ = ("_counts", "_order", "target")

    def __init__(self, target: TargetInfo) -> None:
        self.target = target
        self._counts: dict[_Key, int] = {}
        self._order: list[FreeNodes] = []
        for index, shape in enumerate(target.shapes):
            if shape.unschedulable:
                continue
            if shape.free is None:
                self._add(FreeNodes(index, shape.allocatable, frozenset(), False), shape.count)
            else:
                # A large target reports only its best nodes, not how many similar ones there are.
                specified = sum(free.count for free in shape.free) >= shape.count
                for free in shape.free:
                    self._add(FreeNodes(index, free.amounts, free.ports, specified), free.count)
        self._order.sort(key=_most_free_first)

    def fits(self, template: PodTemplate) -> bool:
        """Return True if one node has capacity."""
        return self._find(template, eligible(self.target, template).shapes) is not None

    def take(self, template: PodTemplate) -> bool:
        """Place a pod on a node. Return False if no node has capacity, or the number of such nodes is unknown."""
        nodes = self._find(template, eligible(self.target, template).shapes)
        if nodes is None or not nodes.countable:
            return False
        key = _key(nodes)
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
            self._order.remove(nodes)
        left = {name: amount - template.requests.get(name, 0) for name, amount in nodes.amounts.items()}
        self._add(FreeNodes(nodes.shape, left, nodes.ports | template.ports, True), 1, ordered=True)
        return True

    def reject(self, template: PodTemplate) -> Rejection | None:
        """Return why no node has capacity; None if one has."""
        shapes, none = eligible(self.target, template)
        if none is not None:
            return none
        if self._find(template, shapes) is not None:
            return None
        candidates = [shape for shape, may in zip(self.target.shapes, shapes, strict=True) if may]
        if not any(fits(template.requests, shape.allocatable) for shape in candidates):
            most = [shape.allocatable for shape in candidates]
            return Rejection("TooBig", _short(template, most, "largest"))
        open_ = [nodes for nodes in self._order if shapes[nodes.shape]]
        large_enough = [nodes for nodes in open_ if fits(template.requests, nodes.amounts)]
        if large_enough:
            taken = sorted(template.ports & frozenset().union(*(nodes.ports for nodes in large_enough)))
            return Rejection("HostPortTaken", f"host port {', '.join(taken)} is taken on every node with room")
        return Rejection("NoRoom", _short(template, [nodes.amounts for nodes in open_], "largest free"))

    def _find(self, template: PodTemplate, shapes: Sequence[bool]) -> FreeNodes | None:
        wanted, ports = template.requests, template.ports
        for nodes in self._order:
            if shapes[nodes.shape] and fits(wanted, nodes.amounts) and not (ports and ports & nodes.ports):
                return nodes
        return None

    def _add(self, nodes: FreeNodes, count: int, *, ordered: bool = False) -> None:
        key = _key(nodes)
        known = self._counts.get(key, 0)
        self._counts[key] = known + count
        if known:
            return
        self._order.append(nodes)
        if ordered:
            # Sorting an almost sorted list takes linear time.
            self._order.sort(key=_most_free_first)


_Key = tuple[int, frozenset[tuple[str, int]], frozenset[str]]


def _key(nodes: FreeNodes) -> _Key:
    return nodes.shape, frozenset(nodes.amounts.items()), nodes.ports


def _most_free_first(nodes: FreeNodes) -> tuple[int, int]:
    return -nodes.amounts.get("cpu", 0), -nodes.amounts.get("memory", 0)


def fits(wanted: Amounts, there: Amounts) -> bool:
    """Return True if `there` has at least as much of every resource."""
    for name, amount in wanted.items():  # noqa: SIM110 - half the time of a generator
        if there.get(name, 0) < amount:
            return False
    return True


def eligible(target: TargetInfo, template: PodTemplate) -> Eligible:
    """Return the shapes whose nodes match the pod's constraints, cached in the template."""
    kind = target.shapes_key
    found: Eligible | None = template.memo.get(kind)
    if found is None:
        found = template.memo[kind] = _eligible(target.shapes, template.source)
    return found


def _eligible(shapes: Sequence[Shape], source: Mapping[str, Any]) -> Eligible:
    found: list[bool] = []
    taint: Mapping[str, str] | None = None
    for shape in shapes:
        may, keeps_away = _judge(shape, source)
        taint = taint or keeps_away
        found.append(may)
    if True in found:
        return Eligible(found, None)
    if taint is not None:
        message = f"every matching node has a taint that the pod does not tolerate ({described(taint)})"
        return Eligible(found, Rejection("NoNode", message))
    return Eligible(found, _NO_MATCH)


_NO_MATCH = Rejection("NoNode", "no node matches the pod's node selector or affinity")


def _judge(shape: Shape, source: Mapping[str, Any]) -> tuple[bool, Mapping[str, str] | None]:
    """Return True if nodes of this shape match the pod, and the taint that keeps it from otherwise matching ones."""
    if shape.unschedulable or not _selected(source.get("nodeSelector"), required_terms(source.get("affinity")), shape):
        return False, None
    taint = intolerable(shape.taints, source.get("tolerations") or ())
    return taint is None, taint


def _selected(selector: Mapping[str, str] | None, terms: Sequence[Term] | None, shape: Shape) -> bool:
    """Return True if nodes of this shape match. Constraints on a single node cannot be checked and count as matched."""
    if selector and not selects({key: value for key, value in selector.items() if key != _HOSTNAME}, shape.labels):
        return False
    return terms is None or any(map(_names_a_node, terms)) or any_term_matches(terms, shape.labels, "")


def _names_a_node(term: Term) -> bool:
    return bool(term.get("matchFields")) or any(
        expression.get("key") == _HOSTNAME for expression in term.get("matchExpressions") or ()
    )


def described(taint: Mapping[str, str]) -> str:
    """Return `key=value`, or the key alone if there is no value."""
    return f"{taint.get('key')}={taint['value']}" if taint.get("value") else str(taint.get("key"))


def _short(template: PodTemplate, there: Sequence[Amounts], largest: str) -> str:
    short = {
        name: max((amounts.get(name, 0) for amounts in there), default=0)
        for name, amount in template.requests.items()
        if all(amounts.get(name, 0) < amount for amounts in there)
    }
    if not short:
        return "no single node has room for all that the pod requests"
    return "insufficient " + ", ".join(
        f"{name} on every node ({largest} {Quantity(max(0, amount), _format(name))})"
        for name, amount in sorted(short.items())
    )


def _format(name: str) -> Any:
    return "binary" if name in ("memory", "ephemeral-storage") or name.startswith("hugepages-") else "decimal"


def reject_by_totals(target: TargetInfo, template: PodTemplate) -> Rejection | None:
    """Filter for a target that reports no shapes: only common labels and total capacity can be checked."""
    for key, value in (template.source.get("nodeSelector") or {}).items():
        if target.common_labels.get(key, value) != value:
            return Rejection("NoNode", f"no node has {key}={value}")
    if target.allocatable and not fits(template.requests, target.allocatable):
        return Rejection("TooBig", "the pod requests more than the whole target has")
    return None
