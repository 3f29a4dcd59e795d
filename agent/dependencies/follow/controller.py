"""Follow: copy the ConfigMaps and Secrets that proxy pods reference to the target before the delegate starts.

Watches  proxy pods, namespaces and chaperons (objects needed by target); metadata of ConfigMaps and Secrets in the
  source, and of their copies in targets.
Writes   the copies; Warning events on pods and originals that cannot be copied. Originals are never changed.
Copies in an absent target stay and are updated when it returns; no other target waits for it. A kind that the source
may not list in a target is not copied to it, and the pods that need it report so.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, SERVICE_ACCOUNTS, Kind
from agent.clusters.copies.copy_failures import UNTOLD, BlockedCopies
from agent.clusters.copies.refusals import Blocked
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.dependencies.follow import decide as steps
from agent.dependencies.follow.claims import HAS_VOLUME, ClaimCopier
from agent.dependencies.follow.copier import AccountCopier, FollowCopier, Outcome, Place
from agent.dependencies.follow.kinds import KINDS, copies_in, originals
from agent.dependencies.follow.needs import Item, Needs
from agent.kube.errors import Conflict, Forbidden, KubeError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.runtime.controller import Controller

log = logging.getLogger(__name__)

REASON = "FollowBlocked"
"""Reason of the Warning event on a pod or an original whose copy is missing."""


class FollowController(Controller[Item]):
    """Reconciles one object in one target at a time."""

    name = "follow"
    workers = 128
    lane_width = 32

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._proxies = deps.proxies.informer
        self._originals = {kind: originals(deps, kind) for kind in KINDS}
        self._copies: dict[str, dict[Kind, Informer]] = {}
        self._stops: dict[str, list[Callable[[], None]]] = {}
        self._blocked = BlockedCopies[Item](deps.recorder, REASON)
        self._needs = Needs(deps, self._proxies, KINDS, self._enqueue)
        claims = self._originals[PERSISTENT_VOLUME_CLAIMS]
        self._claims = ClaimCopier(deps, self._needs, claims, self._claims_in)
        self._accounts = AccountCopier(deps, self._needs)
        own = {PERSISTENT_VOLUME_CLAIMS: self._claims, SERVICE_ACCOUNTS: self._accounts}
        self._copiers = dict.fromkeys(KINDS, FollowCopier(deps)) | own
        self._there: set[Item] = set()
        self._idle_since: dict[Item, float] = {}
        self._waiters: dict[Item, list[asyncio.Future[KubeError | None]]] = {}
        self.watch(self._proxies, lambda pod: ())
        self.watch(deps.namespaces.informer, lambda namespace: ())
        self._proxies.subscribe(self._pod_changed)
        for informer in self._originals.values():
            self.watch(informer, self._concerned)
        deps.chaperons.subscribe(self._needs.update)
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)
        deps.prerequisites.add(self)
        deps.prerequisites.on_change(self._target_changed)

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once a target has the objects that a pod needs, or cannot have them (see `Provider`)."""
        if target.is_self:
            return
        metadata = proxy["metadata"]
        items = self._needs.expect((metadata["namespace"], metadata["name"]), target)
        missing = [item for item in items if item not in self._there]
        if not missing or any(_unreadable(informer) for informer in self._originals.values()):
            return
        waiting = [self._wait_for(item) for item in missing]
        try:
            async with asyncio.timeout(self._deps.settings.follow_wait):
                for each in waiting:
                    error = await each
                    if error is not None:
                        raise error
        except TimeoutError:
            log.warning("%s/%s goes before what it needs", metadata["namespace"], metadata["name"])

    def left_in(self, target: Target) -> bool:
        """Return whether the target still has a copy that no other target of the same cluster needs. Volumes stay."""
        informers = self._copies.get(target.node_name, {}) if target.ready else {}
        if any(not informer.synced.is_set() and informer.error is None for informer in informers.values()):
            return True
        copies = [
            (Item(target.node_name, kind, *obj.key), obj.uid)
            for kind in informers
            for obj in informers[kind].store
            if obj.phase not in HAS_VOLUME
        ]
        return any(item not in self._blocked and not self._needed_beside(item, uid) for item, uid in copies)

    def places(self, proxy: Object) -> dict[str, str]:
        """Return needed objects that exist in one target only, with its virtual node (see `Provider`)."""
        return self._claims.places(proxy)

    def lane(self, item: Item) -> str:
        """Use one lane per target, so that an unresponsive one delays no other."""
        return item.node

    async def reconcile(self, item: Item) -> float | None:
        """Update one object in one target, then resolve the futures that wait for it."""
        waiters = self._waiters.pop(item, [])
        result: KubeError | None = None
        try:
            return await self._reconcile(item)
        except Conflict:
            self._waiters.setdefault(item, []).extend(waiters)
            waiters = []
            raise
        except KubeError as error:
            result = error
            raise
        finally:
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(result)

    async def _reconcile(self, item: Item) -> float | None:
        target = self._deps.targets.by_node(item.node)
        if target is None or target.is_self or not target.ready or not target.serves(item.namespace):
            self._there.discard(item)
            return None
        now = asyncio.get_running_loop().time()
        place = Place(item, item.kind, item.key, target, self._copies[item.node][item.kind], self._originals[item.kind])
        wait = self._blocked.again(item, now)
        if not wait or not self._needs.pods(item):
            try:
                return await self._step(place, now)
            except Blocked as error:
                self._there.discard(item)
                wait = self._blocked.found(item, str(error), now)
        pods = map(self._proxies.store.get, self._needs.pods(item))
        self._blocked.tell(item, (place.originals.store.get(item.key), *pods))
        return wait

    async def _step(self, place: Place, now: float) -> float | None:
        item, copier = place.item, self._copiers[place.item.kind]
        needed = bool(self._needs.pods(item))
        if needed and isinstance(place.copies.error, Forbidden):
            if not self._accounts.is_due(item):
                raise Blocked(UNTOLD)
            raise Blocked(
                f"{item.kind.plural} do not follow to target {place.target.title}, whose role for sources does not let"
                f" us list and watch them: {place.copies.error}"
            )
        copy = place.copies.store.get(item.key)
        match steps.decide(self._view(place, copy, now, needed=needed)):
            case steps.Create():
                self._settle(item, await copier.create(place, look_first=item in self._blocked))
            case steps.Compare():
                outcome = await copier.compare(place, now)
                if not isinstance(outcome, Outcome):
                    return outcome
                self._settle(item, outcome)
            case steps.RemoveOrphan() if copy is not None and await copier.is_orphan(place):
                return await self._remove(place, copy)
            case steps.Remove() if copy is not None:
                return await self._remove(place, copy)
            case steps.RemoveOrphan() if needed:
                self._settle(item, await copier.create(place))
            case steps.Rest(seconds):
                if copy is None and not needed:
                    copier.forget(item)
                self._settle(item, Outcome.THERE if needed else Outcome.MISSING)
                return seconds
            case _:
                pass
        return None

    def _view(self, place: Place, copy: Object | None, now: float, *, needed: bool) -> steps.OriginalAndCopy:
        item = place.item
        original = place.originals.store.get(item.key)
        beside = copy is not None and not needed and self._needed_beside(item, copy.uid)
        if needed or beside or copy is None:
            self._idle_since.pop(item, None)
            since = now
        else:
            since = self._idle_since.setdefault(item, now)
        leaving = self._deps.prerequisites.leaving(place.target)
        return steps.OriginalAndCopy(
            original=original.version if original is not None and not original.deleting else None,
            copy=copy.version if copy is not None else None,
            agreed=self._copiers[item.kind].agreed.get(item),
            needed=needed or beside,
            idle=now - since,
            linger=0.0 if leaving else self._deps.settings.follow_linger,
        )

    def _needed_beside(self, item: Item, uid: str) -> bool:
        """Return whether another Target or ClusterTarget of the same cluster needs the copy with this UID."""
        for other in self._needs.of_object(item.kind, item.key):
            informer = self._copies.get(other.node, {}).get(item.kind)
            if informer is None:
                continue
            seen = informer.store.get(item.key)
            if seen is not None and seen.uid == uid and other != item:
                return True
        return False

    async def _remove(self, place: Place, copy: Object) -> float | None:
        copier = self._copiers[place.item.kind]
        if (wait := await copier.kept(place, copy)) > 0:
            return wait
        self._there.discard(place.item)
        await copier.remove(place, copy.uid)
        self._idle_since.pop(place.item, None)
        self._blocked.gone(place.item)
        return None

    def _settle(self, item: Item, outcome: Outcome) -> None:
        if outcome is Outcome.THERE:
            self._there.add(item)
        else:
            self._there.discard(item)
        self._blocked.gone(item)

    def _claims_in(self, node: str) -> Informer | None:
        return self._copies.get(node, {}).get(PERSISTENT_VOLUME_CLAIMS)

    def _wait_for(self, item: Item) -> asyncio.Future[KubeError | None]:
        waiter: asyncio.Future[KubeError | None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(item, []).append(waiter)
        self.queue.add(item)
        return waiter

    def _enqueue(self, items: Iterable[Item]) -> None:
        for item in items:
            self.queue.add(item)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        if pod is not None:
            self._needs.update(pod.key)

    def _concerned(self, original: Object) -> list[Item]:
        """Return the targets that need an object or have a copy; most objects have neither."""
        items = set(self._needs.of_object(original.kind, original.key))
        for node, informers in self._copies.items():
            if informers[original.kind].store.get(original.key) is not None:
                items.add(Item(node, original.kind, *original.key))
        return list(items)

    def _attached(self, target: Target) -> None:
        if target.is_self:
            return
        node = target.node_name
        self._copies[node] = {kind: copies_in(target, kind, self._deps.cluster_uid) for kind in KINDS}
        self._stops[node] = [
            *(
                self.watch(informer, lambda copy: (Item(node, copy.kind, *copy.key),), required=False)
                for informer in self._copies[node].values()
            ),
            *(informer.subscribe(self._gone_from(target)) for informer in self._copies[node].values()),
        ]

    def _gone_from(self, target: Target) -> Callable[[Object | None, Object | None], None]:
        def changed(old: Object | None, new: Object | None) -> None:
            if new is None:
                self._deps.prerequisites.taken(target)

        return changed

    def _detached(self, target: Target) -> None:
        """Forget all about a target: the next one of this name may point to another cluster."""
        node = target.node_name
        self._copies.pop(node, None)
        for stop in self._stops.pop(node, ()):
            stop()
        for copier in self._copiers.values():
            copier.forget_all(lambda item: item.node == node)
        self._distrust(node)

    def _target_changed(self, target: Target) -> None:
        if not target.ready or target.is_self:
            self._distrust(target.node_name)
            return
        self._enqueue(self._needs.of_node(target.node_name))
        for kind, informer in self._copies.get(target.node_name, {}).items():
            self._enqueue(Item(target.node_name, kind, *copy.key) for copy in informer.store)

    def _distrust(self, node: str) -> None:
        self._there = {item for item in self._there if item.node != node}


def _unreadable(informer: Informer) -> bool:
    return informer.error is not None and not informer.synced.is_set()
