"""Targets as the scheduler sees them, decoded once per change."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES
from agent.clusters.registry import Targets
from agent.clusters.target import Target
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.scheduling.snapshot import Place, Shape, amounts

_SUMMARY_FIELDS = f"metadata.name={names.SUMMARY_NAME}"


class Places:
    """A `Place` per target, made anew when its node, its summary or its state changes."""

    def __init__(self, targets: Targets, nodes: Informer, changed: Callable[[], None]) -> None:
        self._targets = targets
        self._nodes = nodes
        self._changed = changed
        self._cache: dict[Key, Place] = {}
        nodes.subscribe(self._node_changed)
        targets.on_attach(self._attached)
        targets.on_change(self._forget)
        targets.on_detach(self._forget)

    def serving(self, namespace: str) -> list[Place]:
        """All targets that pods of a namespace may go to, ready or not."""
        return [self._place(target) for target in self._targets.serving(namespace)]

    def _place(self, target: Target) -> Place:
        place = self._cache.get(target.key)
        if place is None:
            place = self._cache[target.key] = make_place(
                target,
                self._nodes.store.get(("", target.node_name)),
                self._summary(target),
            )
        return place

    def _summary(self, target: Target) -> Object | None:
        return target.informer(CLUSTER_SUMMARIES, fields=_SUMMARY_FIELDS).store.get(("", names.SUMMARY_NAME))

    def _attached(self, target: Target) -> None:
        target.informer(CLUSTER_SUMMARIES, fields=_SUMMARY_FIELDS).subscribe(lambda old, new: self._forget(target))

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = new or old
        target = self._targets.by_node(node.name) if node is not None else None
        if target is not None:
            self._forget(target)

    def _forget(self, target: Target) -> None:
        old = self._cache.pop(target.key, None)
        current = self._targets.get(target.key)
        if current is None or old is None or self._place(current) != old:
            self._changed()


def make_place(target: Target, node: Object | None, summary: Object | None) -> Place:
    """What the scheduler needs of a target, of its virtual node and of its ClusterSummary."""
    ready = target.ready and node is not None and (target.agent is None or target.agent.usable)
    since = target.record.since.strftime("%H:%M")
    state = f"{target.record.message} (since {since})"
    if target.ready and node is None:
        state = "its virtual node does not exist yet"
    elif target.ready and target.agent is not None:
        state = target.agent.message
    spec: dict[str, Any] = {}
    if node is not None:
        spec = node.decode().get("spec") or {}
    told = summary.decode() if summary is not None else {}
    common = _common_labels(summary)
    return Place(
        title=target.title,
        node_name=target.node_name,
        namespace=target.namespace,
        ready=ready,
        state="" if ready else state,
        labels=node.labels if node is not None else {},
        taints=tuple(spec.get("taints") or ()),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable=amounts(told.get("allocatable")),
        shapes=_shapes(summary, common),
        common_labels=common,
    )


def _common_labels(summary: Object | None) -> dict[str, str]:
    """Those of nodes: properties of the cluster are labels of its virtual node only, and no node has them."""
    if summary is None:
        return {}
    text = summary.annotations.get(names.ANNOTATION_CLUSTER_PROPERTIES, "[]")
    try:
        properties = msgspec.json.decode(text, type=set[str])
    except msgspec.DecodeError:
        properties = set()
    return {key: value for key, value in summary.labels.items() if key not in properties}


class _Told(msgspec.Struct):
    labels: dict[str, str] = {}
    taints: list[dict[str, str]] = []
    unschedulable: bool = False
    allocatable: dict[str, str] = {}


def _shapes(summary: Object | None, common: Mapping[str, str]) -> tuple[Shape, ...]:
    """Shapes with all their labels: a summary tells labels that every node has once, those of some nodes per shape."""
    text = summary.annotations.get(names.ANNOTATION_NODE_SHAPES) if summary is not None else None
    if not text:
        return ()
    try:
        told = msgspec.json.decode(text, type=list[_Told])
    except msgspec.DecodeError:
        return ()
    of_some = {key for shape in told for key in shape.labels}
    everywhere = {key: value for key, value in common.items() if key not in of_some}
    return tuple(
        Shape({**everywhere, **shape.labels}, shape.taints, shape.unschedulable, amounts(shape.allocatable))
        for shape in told
    )
