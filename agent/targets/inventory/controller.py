"""Inventory: publish which service accounts and claims the namespaces of targets have.

Watches  service accounts (except `default`, which every namespace has) and persistent volume claims in targets; local
  namespaces whose pods may be elected; Targets and ClusterTargets.
Writes   `status.namespaces` and `status.follow` of Targets and their condition InventoryPublished.
The webhook never calls a target: it warns about what the status lacks (ruling 14). The last status of an absent target
stays. A kind that sources may not list is not published, and the condition reports so. A self-target has all that its
pods need. Service accounts that follow their pods are not published, as none will be missing.
"""

import logging
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from agent.api.conditions import set_condition
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, TARGET_KINDS, Kind
from agent.base.backoff import Backoff
from agent.clusters.deps import Deps
from agent.clusters.rights import granted
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, KubeError
from agent.kube.store import Key, Object
from agent.model.diff import same
from agent.model.namespaces import accounts_follow, is_enabled
from agent.runtime.controller import Controller
from agent.targets.inventory.decide import CONDITION, FIELDS, Inventory, TargetContents, decide

log = logging.getLogger(__name__)

_KINDS = (PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS)
_FIRST_SECONDS, LONGEST_SECONDS = 1.0, 60.0
"""Seconds between checks after a refusal: the rights of a new target are granted one after the other."""


@dataclass
class Following:
    """Kinds that a target permits to be copied, by its last answer."""

    settled: float
    """Seconds for which a yes counts: no watch reports a right that is removed."""
    kinds: list[str] | None = None
    """None before the first answer: other parts of the inventory do not wait for it."""
    _until: float = 0.0
    _backoff: Backoff = field(default_factory=lambda: Backoff(_FIRST_SECONDS, LONGEST_SECONDS))

    async def ask(self, target: Target) -> float:
        """Check the rights if that is due; return the seconds until the next check."""
        now = time.monotonic()
        if now >= self._until:
            try:
                self.kinds = await _granted(target)
                pause = self.settled if len(self.kinds) == len(_KINDS) else self._backoff.next()
            except KubeError as error:
                log.info("target %s does not say what may be brought there: %s", "/".join(target.key), error)
                pause = self._backoff.next()
            self._until = now + pause
        return max(0.0, self._until - now)


async def _granted(target: Target) -> list[str]:
    try:
        return [kind.plural for kind in await granted(target, _KINDS, "create")]
    except Forbidden:
        return []


if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.kube.informer import Informer

WRITE_SECONDS = 1.0
"""At most one write per Target in this time, however fast its target changes."""
_UNSYNCED_SECONDS = 5.0
_SELECTORS = {SERVICE_ACCOUNTS: "metadata.name!=default"}


class InventoryController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "inventory"
    workers = 16

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._informers: dict[Key, dict[Kind, Informer]] = {}
        self._stops: dict[Key, list[Callable[[], None]]] = {}
        self._written_at: dict[Key, float] = {}
        self._following: dict[Key, Following] = {}
        self._objects = deps.local.either(TARGET_KINDS)
        self._namespaces = deps.namespaces.informer
        for informer in self._objects.informers:
            self.watch(informer, lambda target: (target.key,))
        self.watch(self._namespaces, lambda namespace: tuple(self._informers) if is_enabled(namespace.labels) else ())
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: Key) -> float | None:
        """Publish what one target has, once everything about it was read."""
        obj = self._objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        view = self._view(target)
        if view is None:
            return _UNSYNCED_SECONDS
        wait = self._written_at.get(key, -WRITE_SECONDS) + WRITE_SECONDS - time.monotonic()
        if wait > 0:
            return wait
        following = self._following.setdefault(key, Following(self._deps.settings.discovery_interval))
        again = await following.ask(target)
        told = (obj.decode().get("status") or {}).get("follow") or []
        follow = told if following.kinds is None else following.kinds
        await self._write(obj, decide(replace(view, followed=self._followed(view, follow))), follow)
        # A granted verb triggers a list and so an event; a revoked one does not.
        return again

    def _view(self, target: Target) -> TargetContents | None:
        informers = self._informers.get(target.key, {})
        forbidden = [kind for kind, informer in informers.items() if isinstance(informer.error, Forbidden)]
        found = {kind: informer for kind, informer in informers.items() if kind not in forbidden}
        if not informers or not all(informer.synced.is_set() for informer in found.values()):
            return None
        return TargetContents(
            namespaces=[
                namespace.name
                for namespace in self._namespaces.store
                if is_enabled(namespace.labels) and target.serves(namespace.name)
            ],
            found={kind: list(informer.store.keys()) for kind, informer in found.items()},
            forbidden=forbidden,
        )

    def _followed(self, view: TargetContents, follow: list[str]) -> frozenset[str]:
        """Namespaces whose service accounts are copied and may be."""
        if SERVICE_ACCOUNTS.plural not in follow:
            return frozenset()
        return frozenset(name for name in view.namespaces if accounts_follow(self._deps.namespaces.annotations(name)))

    async def _write(self, obj: Object, inventory: Inventory, follow: list[str]) -> None:
        manifest = obj.decode()
        old = manifest.get("status") or {}
        conditions = set_condition(
            old.get("conditions"),
            CONDITION,
            inventory.status,
            inventory.reason,
            inventory.message,
            self._deps.clock.now(),
            manifest["metadata"].get("generation"),
        )
        status = {"follow": follow, "namespaces": inventory.namespaces, "conditions": conditions}
        if same({field: old.get(field) for field in status}, status):
            return
        await self._deps.target_status.write(obj, status)
        self._written_at[obj.key] = time.monotonic()

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        informers = {kind: target.informer(kind, fields=_SELECTORS.get(kind, "")) for kind in FIELDS}
        self._informers[target.key] = informers
        self._stops[target.key] = [
            self.watch(informer, lambda obj: (target.key,), required=False) for informer in informers.values()
        ]
        self.queue.add(target.key)

    def _detached(self, target: Target) -> None:
        self._informers.pop(target.key, None)
        for stop in self._stops.pop(target.key, ()):
            stop()
        self._written_at.pop(target.key, None)
        self._following.pop(target.key, None)
