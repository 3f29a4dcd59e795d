"""The ManagedCluster of each Target, recomputed after changes of Targets and ManagedClusters."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import msgspec

from agent.api.kinds import MANAGED_CLUSTERS, TARGET_KINDS
from agent.api.names import ANNOTATION_CLUSTER_UID
from agent.api.names.ocm import CLAIM_ID, MANAGED_CLUSTER, OURS
from agent.clusters.deps import Deps
from agent.kube.errors import UNDECODABLE
from agent.kube.store import Key, Object
from agent.placement.managed_clusters.naming import Found, Known, Lead, consume, serve

QUIET_SECONDS = 0.03
"""Delay that batches changes, as names are assigned for all Targets together."""

T = TypeVar("T", Lead, Known)


class _Claim(msgspec.Struct):
    name: str = ""
    value: str = ""


class _ClusterStatus(msgspec.Struct, rename="camel"):
    cluster_claims: list[_Claim] | None = None


class _Cluster(msgspec.Struct):
    status: _ClusterStatus = msgspec.field(default_factory=_ClusterStatus)


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _TargetStatus(msgspec.Struct, rename="camel"):
    cluster_uid: str = msgspec.field(default="", name="clusterUID")
    managed_cluster: str = ""
    conditions: list[_Condition] | None = None


class _TargetSpec(msgspec.Struct):
    self: bool = False


class _Target(msgspec.Struct):
    spec: _TargetSpec = msgspec.field(default_factory=_TargetSpec)
    status: _TargetStatus = msgspec.field(default_factory=_TargetStatus)


_cluster_decoder = msgspec.json.Decoder(_Cluster)
_target_decoder = msgspec.json.Decoder(_Target)


class ClusterNaming:
    """Cached match of Targets and ManagedClusters. Calls `changed` when `found` may have changed."""

    def __init__(self, deps: Deps, changed: Callable[[], None]) -> None:
        self._deps = deps
        self._changed = changed
        self._leads: dict[Key, Lead] = {}
        self._unknown: set[Key] = set()
        """Targets whose cluster is not known yet."""
        self._known: dict[Key, Known] = {}
        self._coming: list[Known] = []
        """ManagedClusters whose creation has started; the watch may not show them yet."""
        self._found: Mapping[Key, Found] | None = None
        self.targets = deps.local.either(TARGET_KINDS)
        self.clusters = deps.placement.watch(MANAGED_CLUSTERS)
        for informer in self.targets.informers:
            informer.subscribe(self._target_changed)
        self.clusters.subscribe(self._cluster_changed, self._forget)
        deps.placement.on_turn(self._forget)

    @property
    def ready(self) -> bool:
        """True if all Targets and ManagedClusters have been read."""
        return self.targets.synced and self.clusters.store is not None

    @property
    def unknown(self) -> frozenset[Key]:
        """Targets whose cluster is not known yet."""
        return frozenset(self._unknown)

    @property
    def found(self) -> Mapping[Key, Found]:
        """The ManagedCluster of each Target with a known cluster; empty until all inputs have been read."""
        if not self.ready or not self._deps.placement.active:
            return {}
        if self._found is None:
            match = serve if self._deps.placement.mode == "serve" else consume
            self._found = match(self._leads.values(), [*self._known.values(), *self._coming])
        return self._found

    @contextlib.contextmanager
    def making(self, name: str, uid: str) -> Iterator[None]:
        """Match other Targets of the cluster with a ManagedCluster while its creation is in progress."""
        coming = Known(name, ours=True, uid=uid)
        self._coming.append(coming)
        self._found = None
        try:
            yield
        finally:
            self._coming.remove(coming)
            self._found = None
            self._changed()

    def is_there(self, found: Found) -> bool:
        """Return True if the ManagedCluster of a match exists, or the match has none."""
        store = self.clusters.store
        return not found.name or (store is not None and store.get(("", found.name)) is not None)

    def lead(self, key: Key) -> Lead | None:
        """Return the naming inputs of a Target; None while its cluster is unknown."""
        return self._leads.get(key)

    def _forget(self) -> None:
        store = self.clusters.store
        if store is not None:
            # The watch may have missed deletions while it was not running.
            self._known = {obj.key: known_of(obj) for obj in store}
        self._found = None
        self._changed()

    def _target_changed(self, old: Object | None, new: Object | None) -> None:
        lead = lead_of(new, self._deps.cluster_uid) if new is not None else None
        for obj in (old, new):
            if obj is None:
                continue
            known = self._leads.get(obj.key)
            if new is not None and lead is None and known is not None and old is not None and old.uid == new.uid:
                # The cluster stays known while it is unreachable.
                lead = known
            self._note(self._leads, obj.key, lead)
            if (new is not None and lead is None) != (obj.key in self._unknown):
                self._unknown ^= {obj.key}
                self._changed()

    def _cluster_changed(self, old: Object | None, new: Object | None) -> None:
        known = known_of(new) if new is not None else None
        for obj in (old, new):
            if obj is not None:
                self._note(self._known, obj.key, known)

    def _note(self, facts: dict[Key, T], key: Key, fact: T | None) -> None:
        if fact == facts.get(key):
            return
        facts.pop(key, None)
        if fact is not None:
            facts[key] = fact
        self._found = None
        self._changed()


def lead_of(target: Object, own_uid: str) -> Lead | None:
    """Return the naming inputs of a Target; None while its cluster is not known.

    Admiralty's agents report no cluster UID. Their cluster counts as known once the Target is Ready, or its status
    names a ManagedCluster from before this agent started.
    """
    try:
        read = _target_decoder.decode(target.raw)
    except UNDECODABLE:
        return None
    ready = any(each.type == "Ready" and each.status == "True" for each in read.status.conditions or ())
    uid = own_uid if read.spec.self else read.status.cluster_uid
    if not (uid or ready or read.status.managed_cluster):
        return None
    return Lead(target.key, uid, target.annotations.get(MANAGED_CLUSTER, ""), read.spec.self)


def known_of(cluster: Object) -> Known:
    """Return the naming inputs of a ManagedCluster."""
    try:
        claims = _cluster_decoder.decode(cluster.raw).status.cluster_claims or ()
    except UNDECODABLE:
        claims = ()
    claim = next((each.value for each in claims if each.name == CLAIM_ID), "")
    ours = OURS in cluster.labels
    return Known(cluster.name, claim, ours, cluster.annotations.get(ANNOTATION_CLUSTER_UID, "") if ours else "")
