"""Target cache: one target info per target, rebuilt when one of its inputs changes."""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.managed_cluster import managed_cluster
from agent.clusters.target import State, Target
from agent.clusters.target_info import target_info_of
from agent.clusters.unconnected_target import not_ready, unconnected_target
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.ranking.extrascore import ExtraScore
from agent.ranking.snapshot import Quota, TargetInfo
from agent.scheduler.cache.extra_scores import ExtraScores
from agent.scheduler.cache.quotas import QuotaCache, Quotas

log = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
"""A target that has been connecting for longer is reported, as in its conditions."""
NOT_UNDERSTOOD = "what it tells of itself cannot be understood: see the log of the agent here"


class TargetCache:
    """Calls `changed` when a waiting pod may now find capacity, or should move to another target."""

    def __init__(self, deps: Deps, nodes: Informer, changed: Callable[[], None]) -> None:
        self._targets = deps.targets
        self._nodes = nodes
        self._changed = changed
        self._clock = deps.clock
        self._interval = deps.settings.discovery_interval
        self._infos: dict[Key, TargetInfo] = {}
        self._by_namespace: dict[str, tuple[TargetInfo, ...]] = {}
        self._quotas: dict[Key, QuotaCache] = {}
        self._objects = deps.local.either(TARGET_KINDS)
        scores = [ExtraScore.parse(text) for text in deps.settings.extra_score]
        self._extra = ExtraScores(deps.local, scores, deps.clock, self._interval, self._scored)
        nodes.subscribe(self._node_changed)
        for informer in self._objects.informers:
            informer.subscribe(self._object_changed)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_latency(self._forget)
        deps.targets.on_detach(self._detached)

    def serving(self, namespace: str) -> tuple[TargetInfo, ...]:
        """Return all targets, ready or not, that serve a namespace."""
        known = self._by_namespace.get(namespace)
        if known is None:
            found = [self.info_of(target) for target in self._targets.serving(namespace)]
            found += [
                target_info_of(not_ready(unconnected_target(obj)), None, None, obj)
                for obj in self._unconnected(namespace)
            ]
            known = self._by_namespace[namespace] = tuple(found)
        return known

    def knows_all(self, namespace: str) -> bool:
        """Return True if every target of a namespace is connected, or known to be unavailable.

        False for a moment after the agent starts, when messages about targets would be premature.
        """
        connecting = any(
            target.record.state is State.CONNECTING
            and (self._clock.now() - target.record.since).total_seconds() < SETTLE_SECONDS
            for target in self._targets.serving(namespace)
        )
        found = [unconnected_target(obj) for obj in self._unconnected(namespace)]
        return not connecting and all(each.known and not each.ready for each in found)

    def knows_claims(self, namespace: str) -> bool:
        """Return True if the summaries of all ready targets have been read or refused. False for a moment after the
        agent starts.
        """
        ready = (target for target in self._targets.serving(namespace) if target.ready)
        return all(each.summaries.synced.is_set() or each.summaries.error is not None for each in ready)

    def _unconnected(self, namespace: str) -> list[Object]:
        """Return the Target objects without a connection, failed or pending."""
        return [obj for obj in self._objects.serving(namespace) if self._targets.get(obj.key) is None]

    def info_of(self, target: Target) -> TargetInfo:
        """Return the target info of a target, from the cache if nothing has changed."""
        info = self._infos.get(target.key)
        if info is None:
            info = self._infos[target.key] = self._make(target)
        return info

    def _make(self, target: Target) -> TargetInfo:
        """Build the target info. If its inputs are unusable, the target takes no pods and the others are unaffected."""
        obj = self._objects.get(target.key)
        quotas = self._quotas.get(target.key)
        try:
            return target_info_of(
                target,
                self._nodes.store.get(("", target.node_name)),
                target.summary,
                obj,
                quotas=quotas.read() if quotas is not None else {},
                extra=self._extra.of(_scored_in(target, obj)),
            )
        except Exception:
            log.exception("target %s: what is known of it cannot be understood", "/".join(target.key).lstrip("/"))
            return replace(target_info_of(target, None, None), state=NOT_UNDERSTOOD)

    def _attached(self, target: Target) -> None:
        target.summaries.subscribe(lambda old, new: self._forget(target))
        self._quotas[target.key] = QuotaCache(target, self._interval, lambda: self._forget(target))

    def _detached(self, target: Target) -> None:
        quotas = self._quotas.pop(target.key, None)
        if quotas is not None:
            quotas.stop()
        self._forget(target)

    def _target_changed(self, target: Target) -> None:
        quotas = self._quotas.get(target.key)
        if quotas is not None and target.ready:
            # A Source's rights are granted together: a refused request may succeed now.
            quotas.look()
        self._forget(target)

    def _node_changed(self, old: Object | None, new: Object | None) -> None:
        node = new or old
        target = self._targets.by_node(node.name) if node is not None else None
        if target is not None:
            self._forget(target)

    def _object_changed(self, old: Object | None, new: Object | None) -> None:
        obj = new or old
        target = self._targets.get(obj.key) if obj is not None else None
        if target is not None:
            self._forget(target)
        elif obj is not None:
            self._by_namespace.clear()
            self._changed()

    def _scored(self, namespace: str | None) -> None:
        for target in self._targets:
            if namespace in (None, _scored_in(target, self._objects.get(target.key))):
                self._forget(target)

    def _forget(self, target: Target) -> None:
        old = self._infos.pop(target.key, None)
        self._by_namespace.clear()
        current = self._targets.get(target.key)
        if current is None or old is None:
            self._changed()
            return
        new = self.info_of(current)
        if new == old:
            # Keep the old object, with the results cached in it.
            self._infos[target.key] = old
        elif matters(old, new):
            self._changed()


def _scored_in(target: Target, obj: Object | None) -> str:
    """Return the namespace that contains the AddOnPlacementScores of a target."""
    return (managed_cluster(obj) if obj is not None else "") or target.title


def matters(old: TargetInfo, new: TargetInfo) -> bool:
    """Return True if a change may help a waiting pod: any change but quotas that only fill up."""
    if replace(old, quotas=new.quotas) != new:
        return True
    return any(_left(quota) for quota in _gone_or_changed(old.quotas, new.quotas))


def _gone_or_changed(old: Quotas, new: Quotas) -> Iterable[tuple[Quota, Quota | None]]:
    for namespace, quotas in old.items():
        now = {each.name: each for each in new.get(namespace, ())}
        for each in quotas:
            yield each, now.get(each.name)


def _left(change: tuple[Quota, Quota | None]) -> bool:
    """Return True if a quota was deleted, has other scopes, limits fewer resources, or has more left of one."""
    old, new = change
    if new is None or new.scopes != old.scopes or old.hard.keys() - new.hard.keys():
        return True
    return any(
        new.hard[name] - new.used.get(name, 0) > amount - old.used.get(name, 0) for name, amount in old.hard.items()
    )
