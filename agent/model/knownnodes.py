"""Cache of a cluster's nodes for its summary. Equal nodes share one entry, so that a summary of thousands of
nodes costs only as much as the differences between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from agent.api import names
from agent.model import nodefeatures, nodeshapes, pod_networks
from agent.model.nodeshapes import HOSTNAME, Alike, encode, labels_of
from agent.model.quantity import Quantity
from agent.model.requests import amounts

Raw = dict[str, Any]


@dataclass(slots=True)
class _Equal:
    """Nodes that differ at most in their names and pod networks, and their common properties."""

    labels: dict[str, str]
    """Without the host name."""
    shape: Raw
    """Everything except the labels."""
    capacity: dict[str, Any]
    allocatable: dict[str, Any]
    """Published amounts: see `steady`."""
    names: dict[str, str] = field(default_factory=dict)
    """Names of the nodes by key."""


class _Node(msgspec.Struct, frozen=True):
    like: str
    hostname: str | None
    networks: tuple[str, ...]
    features: frozenset[str]


class KnownNodes:
    """Nodes by key, without virtual nodes. Small changes of allocatable amounts are ignored."""

    def __init__(self) -> None:
        self._equal: dict[str, _Equal] = {}
        self._nodes: dict[str, _Node] = {}
        self._networks: pod_networks.Networks | None = None

    def put(self, node: Raw, key: str = "") -> None:
        """Add or update a node.

        :param key: identity of the node; its name if empty
        """
        name = node["metadata"]["name"]
        key = key or name
        labels = dict(labels_of(node))
        if labels.get(names.PROVIDER_KEY) == names.PROVIDER_VALUE:
            self.remove(key)
            return
        status = node.get("status") or {}
        before = self._nodes.get(key)
        told = self._equal[before.like].allocatable if before is not None else None
        hostname = labels.pop(HOSTNAME, None)
        found = _Equal(
            labels=labels,
            shape=nodeshapes.shape(node),
            capacity=status.get("capacity") or {},
            allocatable=dict(steady(told, status.get("allocatable") or {})),
        )
        like = encode([found.labels, found.shape, found.capacity, found.allocatable])
        networks = pod_networks.named_by(node)
        self._forget(key)
        if before is None or before.networks != networks:
            self._networks = None
        self._nodes[key] = _Node(like, hostname, networks, nodefeatures.declared_by(node))
        self._equal.setdefault(like, found).names[key] = name

    def remove(self, key: str) -> None:
        """Remove a node, if it is cached."""
        if (gone := self._forget(key)) is not None and gone.networks:
            self._networks = None

    def _forget(self, key: str) -> _Node | None:
        if (gone := self._nodes.pop(key, None)) is not None:
            equal = self._equal[gone.like]
            del equal.names[key]
            if not equal.names:
                del self._equal[gone.like]
        return gone

    def totals(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return total capacity and allocatable amounts of all nodes.

        :raises InvalidQuantity: if a node's status has an invalid quantity, which no API server accepts
        """
        # The format of a sum is that of its first amount.
        ordered = sorted(self._equal.values(), key=lambda equal: min(equal.names.values()))
        return (
            _total((equal.capacity, len(equal.names)) for equal in ordered),
            _total((equal.allocatable, len(equal.names)) for equal in ordered),
        )

    def common_labels(self) -> dict[str, str]:
        """Return the labels that have one value on all nodes that have them."""
        values: dict[str, set[str]] = {}
        for equal in self._equal.values():
            for label, value in equal.labels.items():
                values.setdefault(label, set()).add(value)
        if hostnames := {node.hostname for node in self._nodes.values() if node.hostname is not None}:
            values[HOSTNAME] = hostnames
        return {label: next(iter(found)) for label, found in sorted(values.items()) if len(found) == 1}

    def alike(self) -> list[Alike]:
        """Return nodes by their shape, the most common shape first.

        A shape has the labels that differ between nodes, without the host name, and the taints without their times.
        """
        labels = [equal.labels.items() for equal in self._equal.values()]
        everywhere = set(labels[0]).intersection(*labels[1:]) if labels else set()
        by_shape: dict[str, tuple[Raw, list[str]]] = {}
        for equal in self._equal.values():
            shape = {"labels": dict(equal.labels.items() - everywhere), **equal.shape, "allocatable": equal.allocatable}
            by_shape.setdefault(encode(shape), (shape, []))[1].extend(equal.names.values())
        found = [
            (text, Alike(shape, tuple(sorted(those)), amounts(shape["allocatable"])))
            for text, (shape, those) in by_shape.items()
        ]
        return [one for _, one in sorted(found, key=lambda each: (-len(each[1].names), each[0]))]

    def features(self) -> tuple[str, ...]:
        """Return the features that all nodes declare, sorted."""
        return nodefeatures.common({node.features for node in self._nodes.values()})

    def networks(self) -> pod_networks.Networks:
        """Return the merged pod networks of all nodes, at most `pod_networks.LIMIT`."""
        if self._networks is None:
            self._networks = pod_networks.united({each for node in self._nodes.values() for each in node.networks})
        return self._networks


def steady(told: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a node's amounts to publish: the last ones, unless resources differ or one changed by at least 1 %.

    Allocatable amounts fluctuate on some clouds, and every write of a summary wakes all sources.
    """
    if told is None or told.keys() != now.keys():
        return now
    for resource, amount in now.items():
        old, new = Quantity.of(told[resource]).nano, Quantity.of(amount).nano
        if abs(new - old) * 100 >= max(old, new) > 0:
            return now
    return told


def _total(parts: Iterable[tuple[Mapping[str, Any], int]]) -> dict[str, str]:
    totals: dict[str, Quantity] = {}
    for of_one, count in parts:
        for resource, value in of_one.items():
            one = Quantity.of(value)
            quantity = Quantity(one.nano * count, one.format)
            totals[resource] = totals[resource] + quantity if resource in totals else quantity
    return {resource: str(total) for resource, total in sorted(totals.items())}
