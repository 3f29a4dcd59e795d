"""Clusters as their Targets describe them: names, pod networks, and the driver of each pair."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import NODES, TARGET_KINDS
from agent.api.names.links import ANNOTATION_NETWORKS, SERVICES_SHARED
from agent.base.grace import GracePeriods
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.drivers.driver import BY_ADDRESSES, LOCAL
from agent.kube.store import Object
from agent.model import podranges
from agent.model.links import LOCAL_NAME, between_targets, no_gateway, told_by
from agent.model.pod_networks import ANSWERS, NOTHING_TOLD, Networks, overlap, read
from agent.model.servicelinks import CONNECTED, UNVERIFIED, Finding

UNSAID_SECONDS = 30.0
"""Seconds for which the last condition of a Target counts after another program has removed it."""


def said_of(target: Object) -> Mapping[str, Any]:
    """Return a Target's condition about shared Services; empty if it has none."""
    return condition_of(target.decode(), SERVICES_SHARED) or {}


def are_networks_new(old: Object | None, new: Object | None) -> bool:
    """Return whether pod networks in the annotation of a virtual node or of a ClusterSummary changed."""
    told = [each.annotations.get(ANNOTATION_NETWORKS, "") if each is not None else "" for each in (old, new)]
    return told[0] != told[1]


def _told(node: Object | None, summary: Object | None) -> Networks:
    """Return pod networks of a target: from its summary if that names all, else also from its virtual node."""
    now = read(summary.annotations) if summary is not None else NOTHING_TOLD
    before = read(node.annotations).pods if node is not None and not now.names_all else ()
    return (*now.pods, *(each for each in before if each not in now.pods))


class _Known:
    """Values derived from Targets, valid until a Target changes."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        """Targets by virtual node."""
        self.serving: dict[str, list[str]] = {}
        self.called: dict[str, tuple[str, ...]] = {}
        self.peers: dict[str, str] = {}
        self.standing: dict[str, tuple[Mapping[str, Any], bool]] = {}
        self.hidden: dict[str, bool] = {}
        self.between: dict[tuple[str, str], tuple[str, str]] = {}
        """Drivers of a pair of clusters: first for a common pod network, then for separate ones."""


class Clusters:
    """Clusters are named by their virtual node, this one by the empty string.

    With 1,000 Services in 100 clusters most of this is asked 100,000 times for each change of any Target.
    """

    def __init__(self, deps: Deps) -> None:
        self.deps = deps
        self.nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self.targets = deps.local.either(TARGET_KINDS)
        self._seen: list[int] = []
        self._known = _Known()
        self._last: dict[str, tuple[Mapping[str, Any], bool]] = {}
        """Last conditions of Targets about shared Services and gateways, by virtual node."""
        self._unsaid = GracePeriods(UNSAID_SECONDS)
        self._away: tuple[int, frozenset[str]] = (-1, frozenset())
        self._networks: dict[str, tuple[tuple[str, ...], Networks | None]] = {}
        self._apart: dict[tuple[str, str], tuple[Networks, Networks, bool]] = {}

    def on_networks(self, listener: Callable[[str], None]) -> None:
        """Call with the namespace of a Target (empty: all) whose pod networks change: they decide who reaches whom."""

        def changed(old: Object | None, new: Object | None) -> None:
            node = new or old
            if node is not None and are_networks_new(old, new):
                target = self.target_object(node.name)
                listener(target.namespace if target is not None else "")

        self.nodes.subscribe(changed)

    def on_target_objects(self, what: Callable[[Object], object], listener: Callable[[str], None]) -> None:
        """Call the listener with the namespace of an added or removed Target, or if the result of `what` changes."""

        def changed(old: Object | None, new: Object | None) -> None:
            obj = new or old
            assert obj is not None
            if old is None or new is None or what(old) != what(new):
                listener(obj.namespace)

        for informer in self.targets.informers:
            informer.subscribe(changed)

    def detach(self, target: Target) -> None:
        """Drop the cached networks of a removed target."""
        self._networks.pop(target.node_name, None)
        self._apart = {pair: known for pair, known in self._apart.items() if target.node_name not in pair}

    def target_object(self, node: str) -> Object | None:
        """Return the Target or ClusterTarget behind a virtual node."""
        return self._now().objects.get(node)

    def serving(self, namespace: str) -> list[str]:
        """Virtual nodes of the targets that pods of a namespace may go to, connected or not."""
        known = self._now().serving
        if namespace not in known:
            known[namespace] = [names.virtual_node(*obj.key) for obj in self.targets.serving(namespace)]
        return known[namespace]

    def called(self, node: str) -> tuple[str, ...]:
        """Return all names that links may use for a cluster."""
        if node == LOCAL:
            return tuple(filter(None, (LOCAL_NAME, self.deps.settings.cluster_name)))
        known = self._now().called
        if node not in known:
            obj = self.target_object(node)
            known[node] = (obj.name, node) if obj is not None else (node,)
        return known[node]

    def gateway_peer(self, node: str) -> str:
        """Return the name of GatewayPeers that represent a cluster in other clusters."""
        known = self._now().peers
        if node not in known:
            obj = self.target_object(node)
            called, origin = (
                (obj.name, names.origin(*obj.key)) if obj is not None else (self.called(LOCAL)[-1], LOCAL_NAME)
            )
            known[node] = names.gateway_peer(called, self.deps.cluster_uid, origin)
        return known[node]

    def origin(self, node: str) -> str:
        """Return the name in mirrors for the cluster that their endpoints are from."""
        obj = self.target_object(node)
        return names.origin(*obj.key) if obj is not None else self.deps.cluster_uid

    @property
    def away(self) -> frozenset[str]:
        """Return names of the virtual nodes: their own cluster publishes the endpoints on them."""
        store = self.nodes.store
        if self._away[0] != store.changes:
            self._away = (store.changes, frozenset(obj.name for obj in store))
        return self._away[1]

    def between(self, one: str, other: str, named: str = "") -> str:
        """Return the reason of the driver between two clusters; empty if there is none, or none yet.

        A target's driver applies between it and the local cluster. Two targets use their driver if both have the same,
        else gateways. The driver named by a Service takes precedence. Addresses of pods are published only if no other
        pods are known to have them; the user can override this in the Target.
        """
        if one == other:
            return ""
        if named:
            return "" if named == BY_ADDRESSES and self._are_apart(one, other) else named
        known, pair = self._now().between, (one, other)
        found = known[pair] if pair in known else self._of_pair(one, other)
        if self._is_certain(*pair):
            known[pair] = found
        flat, apart = found
        return apart if flat != apart and self.overlap(one, other) else flat

    def networks(self, node: str) -> Networks | None:
        """Return pod networks of a target, from its Target or else its agent; empty if neither names any.

        The virtual node has the last networks of the agent. None if the Target is annotated with the driver
        `endpointslices`: the user asserts that pods can be reached.
        """
        obj, virtual = self.target_object(node), self.nodes.store.get(("", node))
        target = self.deps.targets.by_node(node)
        # A virtual node is updated after the summary, and other controllers may read it before.
        summary = target.told if target is not None else None
        versions = tuple(each.version if each is not None else "" for each in (obj, virtual, summary))
        known = self._networks.get(node)
        if known is None or known[0] != versions:
            found: Networks | None = _told(virtual, summary)
            if obj is not None:
                named = podranges.of(obj.decode()).networks
                by_hand = names.annotation(obj.annotations, names.NETWORK_DRIVER) == names.ENDPOINT_SLICES_DRIVER
                found = None if by_hand else found if named is None else named
            # Pairs are known by the same object.
            found = known[1] if known is not None and known[1] == found else found
            known = self._networks[node] = (versions, found)
        return known[1]

    def networks_of(self, target: Object) -> Networks | None:
        """Return the same by the Target."""
        return self.networks(names.virtual_node(*target.key))

    def measured(self, one: str, other: str) -> Finding:
        """Return whether an agent has answered from a pod network of the other cluster; one of the two is local."""
        said = self.said(other or one) if LOCAL in (one, other) else {}
        message = str(said.get("message", ""))
        if said.get("status") == "True" and ANSWERS in message:
            return Finding("True", CONNECTED, message)
        return Finding("Unknown", UNVERIFIED, "nobody has measured whether pods are reached at their addresses")

    @staticmethod
    def reason(obj: Object) -> str:
        """Reason of the condition ServicesShared of a Target; empty if its endpoints are not shared, or not yet."""
        said = said_of(obj)
        return told_by(obj.annotations, said) if said.get("status") == "True" else ""

    @staticmethod
    def decisive(obj: Object) -> tuple[str, bool]:
        """Return the part of a Target that drivers depend on: its driver, and whether others may use its gateways."""
        return Clusters.reason(obj), not no_gateway(obj.decode())

    def _now(self) -> _Known:
        seen = [informer.store.changes for informer in self.targets.informers]
        if seen != self._seen:
            self._seen, self._known = seen, _Known()
            self._known.objects = {names.virtual_node(*obj.key): obj for obj in self.targets}
        return self._known

    def said(self, node: str) -> Mapping[str, Any]:
        """Return the condition ServicesShared of the Target of a virtual node; empty if there is none."""
        return self._standing(node)[0]

    def _standing(self, node: str) -> tuple[Mapping[str, Any], bool]:
        """Return the condition ServicesShared of a Target, and whether its gateways may be used with others.

        If another program has removed the conditions, the last ones count until the agent has written them again.
        """
        known = self._now().standing
        if node not in known:
            obj = self.target_object(node)
            if obj is None:
                self._last.pop(node, None)
                return {}, False
            found = said_of(obj), not no_gateway(obj.decode())
            if found[0]:
                self._last[node] = found
                self._unsaid.end(node)
            elif node in self._last and self._unsaid.left(node, time.monotonic()):
                return self._last[node]
            known[node] = found
        return known[node]

    def _is_certain(self, *nodes: str) -> bool:
        """Return whether values derived from these Targets hold until a Target changes."""
        return all(node == LOCAL or node in self._known.standing for node in nodes)

    def _of_pair(self, one: str, other: str) -> tuple[str, str]:
        if LOCAL in (one, other):
            return (self._driver(other or one),) * 2
        gateways = self._has_gateway(one) and self._has_gateway(other)
        flat, apart = (
            between_targets(self._driver(one), self._driver(other), apart=each, gateways=gateways)
            for each in (False, True)
        )
        return flat, apart

    def _has_gateway(self, node: str) -> bool:
        """Return whether other targets may use the gateways of a target."""
        return self._standing(node)[1]

    def _driver(self, node: str) -> str:
        obj, said = self.target_object(node), self.said(node)
        return told_by(obj.annotations, said) if obj is not None and said.get("status") == "True" else ""

    def _hides(self, node: str) -> bool:
        """Return whether the addresses of a target's pods are not published."""
        known = self._now().hidden
        if node not in known:
            obj = self.target_object(node)
            known[node] = obj is None or bool(podranges.why_hidden(obj.decode()))
        return known[node]

    def _are_apart(self, one: str, other: str) -> bool:
        """Return whether pods of one cluster are known to share addresses with others in the other cluster."""
        if any(self._hides(node) for node in (one, other) if node != LOCAL):
            return True
        return LOCAL not in (one, other) and self.overlap(one, other)

    def overlap(self, one: str, other: str) -> bool:
        """Return whether pods of two targets may have the same addresses."""
        mine, theirs = self.networks(one), self.networks(other)
        if not mine or not theirs:
            return False
        pair = (min(one, other), max(one, other))
        known = self._apart.get(pair)
        ordered = (mine, theirs) if one == pair[0] else (theirs, mine)
        if known is None or known[0] is not ordered[0] or known[1] is not ordered[1]:
            known = self._apart[pair] = (*ordered, bool(overlap(*ordered)))
        return known[2]
