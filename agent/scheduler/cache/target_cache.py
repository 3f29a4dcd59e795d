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
from agent.scheduler.cache.extra_scores import ExtraScores
from agent.scheduler.cache.quotas import QuotaCache, Quotas
from agent.scheduling.extrascore import ExtraScore
from agent.scheduling.snapshot import Quota, TargetInfo

log = logging.getLogger(__name__)

SETTLE_SECONDS = 5.0
"""A target that is connecting for longer is worth telling, as in its conditions."""
NOT_UNDERSTOOD = "what it tells of itself cannot be understood: see the log of the agent here"


class TargetCache:
    """`changed` is called when a pod that waits may find room now, or should go elsewhere."""

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
        """All targets that pods of a namespace may go to, ready or not."""
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
        """Whether every target of a namespace is either connected or known not to be.

        It is not for a moment after a start: what is said then of targets is news to nobody.
        """
        connecting = any(
            target.record.state is State.CONNECTING
            and (self._clock.now() - target.record.since).total_seconds() < SETTLE_SECONDS
            for target in self._targets.serving(namespace)
        )
        found = [unconnected_target(obj) for obj in self._unconnected(namespace)]
        return not connecting and all(each.known and not each.ready for each in found)

    def knows_claims(self, namespace: str) -> bool:
        """Whether what clusters say of themselves has been read, where it can be; not for a moment after a start."""
        ready = (target for target in self._targets.serving(namespace) if target.ready)
        return all(each.summaries.synced.is_set() or each.summaries.error is not None for each in ready)

    def _unconnected(self, namespace: str) -> list[Object]:
        """Targets that cannot be connected, or not yet."""
        return [obj for obj in self._objects.serving(namespace) if self._targets.get(obj.key) is None]

    def info_of(self, target: Target) -> TargetInfo:
        """What is known of a target."""
        info = self._infos.get(target.key)
        if info is None:
            info = self._infos[target.key] = self._make(target)
        return info

    def _make(self, target: Target) -> TargetInfo:
        """What cannot be made up is a target that takes no pods: the others go on."""
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
            # A Source's rights come together: what was refused before may be granted now.
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
            # What was found out about it stays true.
            self._infos[target.key] = old
        elif matters(old, new):
            self._changed()


def _scored_in(target: Target, obj: Object | None) -> str:
    """The namespace in which others give a target scores."""
    return (managed_cluster(obj) if obj is not None else "") or target.title


def matters(old: TargetInfo, new: TargetInfo) -> bool:
    """Whether a change may help a pod that waits: all do but quotas that only fill up."""
    if replace(old, quotas=new.quotas) != new:
        return True
    return any(_left(quota) for quota in _gone_or_changed(old.quotas, new.quotas))


def _gone_or_changed(old: Quotas, new: Quotas) -> Iterable[tuple[Quota, Quota | None]]:
    for namespace, quotas in old.items():
        now = {each.name: each for each in new.get(namespace, ())}
        for each in quotas:
            yield each, now.get(each.name)


def _left(change: tuple[Quota, Quota | None]) -> bool:
    """Whether a quota has gone, asks less, or has more left of something."""
    old, new = change
    if new is None or new.scopes != old.scopes or old.hard.keys() - new.hard.keys():
        return True
    return any(
        new.hard[name] - new.used.get(name, 0) > amount - old.used.get(name, 0) for name, amount in old.hard.items()
    )
