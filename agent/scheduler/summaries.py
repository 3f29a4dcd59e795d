"""What ClusterSummaries and ResourceQuotas of targets say, as the scheduler's types."""

from collections.abc import Mapping

import msgspec

from agent.api import names
from agent.kube.store import Object
from agent.model.nodeshapes import ToldShape, node_shapes
from agent.model.quantity import InvalidQuantity
from agent.scheduling.snapshot import Free, Quota, Scope, Shape, amounts


def common_labels(summary: Object | None) -> dict[str, str]:
    """Those of nodes: properties of the cluster are labels of its virtual node only, and no node has them."""
    if summary is None:
        return {}
    text = summary.annotations.get(names.ANNOTATION_CLUSTER_PROPERTIES, "[]")
    try:
        properties = msgspec.json.decode(text, type=set[str])
    except msgspec.DecodeError:
        properties = set()
    return {key: value for key, value in summary.labels.items() if key not in properties}


def shapes(summary: Object | None, common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Shapes with all their labels: a summary tells labels that every node has once, those of some nodes per shape."""
    told = node_shapes(summary.annotations) if summary is not None else []
    of_some = {key for shape in told for key in shape.labels}
    everywhere = {key: value for key, value in common.items() if key not in of_some}
    try:
        return tuple(_shape(shape, everywhere) for shape in told)
    except InvalidQuantity:
        return ()


def _shape(told: ToldShape, everywhere: Mapping[str, str]) -> Shape:
    free = None
    if told.free is not None:
        free = tuple(Free(amounts(left.amounts), left.count, frozenset(left.ports)) for left in told.free)
    labels = {**everywhere, **told.labels}
    return Shape(labels, told.taints, told.unschedulable, amounts(told.allocatable), told.count, free)


class _Expression(msgspec.Struct, rename="camel"):
    scope_name: str
    operator: str = "Exists"
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_expressions: list[_Expression] | None = None


class _QuotaSpec(msgspec.Struct, rename="camel"):
    scopes: list[str] | None = None
    scope_selector: _Selector | None = None


class _QuotaStatus(msgspec.Struct):
    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class _Quota(msgspec.Struct):
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


_quota_decoder = msgspec.json.Decoder(_Quota)


def quota(obj: Object) -> Quota | None:
    """A ResourceQuota as quota admission applies it; None while its status says nothing."""
    told = _quota_decoder.decode(obj.raw)
    if not told.status.hard:
        return None
    scopes = [Scope(name) for name in told.spec.scopes or ()]
    if told.spec.scope_selector is not None:
        scopes += [
            Scope(item.scope_name, item.operator, tuple(item.values or ()))
            for item in told.spec.scope_selector.match_expressions or ()
        ]
    return Quota(obj.name, amounts(told.status.hard), amounts(told.status.used), tuple(scopes))
