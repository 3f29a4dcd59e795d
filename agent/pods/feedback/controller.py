"""Feedback: copy a delegate's state to its proxy pod, and delete both in the right order.

Watches  local proxy pods, chaperons in targets, states of targets, EndpointSlices of shared Services.
Writes   the proxy pod: status, annotations, finalizers; deletes chaperons and proxy pods. Before it deletes a chaperon
  whose delegate serves: the label `multicluster/serving` and the grace period that is left.
The last status of pods in an absent target stays. A terminating proxy pod waits for the target, unless a user has
declared it lost.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from agent.clusters.deps import Deps
from agent.clusters.health.declared_lost import DeclaredLost
from agent.clusters.stores.chaperons import Placed
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model import podstate
from agent.model.delegate_annotations import Homecoming
from agent.model.podstate import ENDED
from agent.pods.feedback.decide import decide
from agent.pods.feedback.pacing import Pacing, Seen
from agent.pods.feedback.stray_chaperons import Stray, StrayChaperons
from agent.pods.feedback.view import DeleteChaperon, Ending, PatchProxy, ProxyAndDelegates, TargetChaperon
from agent.pods.feedback.withdrawal import Withdrawal
from agent.pods.feedback.writer import Writer
from agent.runtime.controller import Controller
from agent.runtime.task_group import together

if TYPE_CHECKING:
    from agent.model.podranges import PodRanges

_LOSER_SECONDS = 2.0
"""Seconds until leftover candidates are deleted. In mode `reserve` the scheduler deletes losers at once, but may miss
some."""


class Feedback(Controller[Key]):
    """Reconciles one proxy pod at a time."""

    name = "feedback"
    workers = 64

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._proxies = deps.proxies.informer
        self._homecoming = Homecoming(frozenset(deps.settings.home_annotation))
        self._agreed: dict[Key, Seen] = {}
        """Versions of proxy pods and chaperons whose status has been copied completely."""
        self._pacing = Pacing()
        self._ended: dict[Key, Placed] = {}
        """Chaperons that reported the end of their pod, by proxy pod; kept until it is copied, even if the chaperon is
        deleted."""
        self._strays = StrayChaperons(deps, self._delete_stray, self.order)
        self._withdrawal = Withdrawal(deps, self.queue.add_after)
        self._writer = Writer(deps, self._status_refused, self._withdrawal.end)
        self._known: WeakKeyDictionary[Target, tuple[bool, bool, PodRanges]] = WeakKeyDictionary()
        """Relevant state of targets: whether they are connected and ready, and their ranges."""
        self.watch(self._proxies, lambda pod: (pod.key,) if self._concerns(pod.key) else ())
        deps.chaperons.subscribe(self._chaperon_changed)
        deps.inflight_chaperons.subscribe(lambda target, pod: self.queue.add(pod) if self._is_ending(pod) else None)
        deps.targets.on_change(self._target_changed)
        self._lost = DeclaredLost(deps.local, self._let_go)

    async def run(self) -> None:
        """Reconcile, and delete strays, until cancelled."""
        await together(super().run(), self._strays.run())

    def order(self, key: Key) -> Any:
        """Handle existing pods first: a target may name any number of others."""
        return self._proxies.store.get(key) is None

    async def reconcile(self, key: Key) -> float | None:
        """Compare proxy pod and chaperons, act on the difference."""
        if not self._concerns(key):
            return None
        proxy = self._proxies.store.get(key)
        if proxy is None or proxy.phase in ENDED:
            self._ended.pop(key, None)
            self._pacing.forget(key)
        versions = self._versions(proxy)
        if versions is not None and versions == self._agreed.get(key):
            return None
        doubtful = await self._doubtful(proxy)
        falls = self._fence(proxy)
        view, targets = self._gather(key, proxy, frozenset(doubtful))
        agreed, pauses = self._agreed.pop(key, None), [*doubtful.values(), falls or 0.0, view.ending.wait]
        for action in decide(view):
            if isinstance(action, PatchProxy) and (left := self._pacing.pause(key, agreed, versions)):
                pauses.append(left)
                versions = None
                continue
            if isinstance(action, DeleteChaperon) and not _ends(view):
                reserving = proxy is not None and podstate.claim_mode(proxy) == "reserve"
                self._strays.queue.add_after(Stray(key, action.delegate.uid), _LOSER_SECONDS if reserving else 0.0)
                continue
            written = await self._writer.apply(key, view, targets, action)
            versions = versions._replace(proxy=written) if written and versions else None
        if versions is not None:
            self._agreed[key] = versions
        return min((each for each in pauses if each), default=None)

    def _fence(self, proxy: Object | None) -> float | None:
        """Return the seconds until a terminating proxy pod stops waiting for its unreachable target."""
        if proxy is None or not proxy.deleting:
            return None
        return self._deps.fence_left(proxy)

    async def _doubtful(self, proxy: Object | None) -> dict[str, float]:
        """Return the finalizer of the target that may run the delegate of a terminating proxy pod unobserved, with the
        seconds until the next read.

        The target is read unless the delegate is being created right now; an existing chaperon is then found.
        """
        if proxy is None or not proxy.deleting:
            return {}
        target = self._deps.targets.by_node(podstate.home_node(proxy))
        if target is None or not target.ready or target.finalizer not in proxy.finalizers:
            return {}
        if any(each.target is target and each.is_of(proxy) for each in self._deps.chaperons.of(proxy.key)):
            return {}
        if await self._deps.live_reads.is_free(target, proxy):
            return {}
        return {target.finalizer: self._deps.live_reads.pause(target, proxy)}

    def _is_ending(self, key: Key) -> bool:
        proxy = self._proxies.store.get(key)
        return proxy is not None and proxy.deleting

    async def _delete_stray(self, key: Key, uid: str) -> None:
        """Delete a stray if the API server's proxy pod confirms it: the store may be stale."""
        view, targets = self._gather(key, self._proxies.store.get(key))
        if _strays(view, uid):
            view, targets = self._gather(key, await self._deps.live_reads.proxy(key))
        for action in _strays(view, uid):
            await self._writer.apply(key, view, targets, action)

    def _versions(self, proxy: Object | None) -> "Seen | None":
        """Return the versions of a running, bound proxy pod and its only chaperon; None if there is more to compare."""
        if proxy is None or proxy.deleting or not proxy.node_name:
            return None
        if len(podstate.target_finalizers(proxy.finalizers)) > 1:
            return None
        placed = self._deps.chaperons.of(proxy.key)
        if len(placed) != 1 or not placed[0].target.ready:
            return None
        return Seen(proxy.version, placed[0].chaperon.version, placed[0].target.ranges)

    def _chaperon_changed(self, parent: Key) -> None:
        for placed in self._deps.chaperons.of(parent):
            if placed.chaperon.phase in ENDED:
                self._ended[parent] = placed
        if self._concerns(parent):
            self.queue.add(parent)

    def _target_changed(self, target: Target) -> None:
        now = (self._deps.targets.get(target.key) is target, target.ready, target.ranges)
        known, self._known[target] = self._known.get(target), now
        if not target.ready or known == now:
            return
        for pod in self._deps.proxies.held_for(target.finalizer):
            self.queue.add(pod.key)
        for pod in self._deps.proxies.bound_to(target.node_name):
            self.queue.add(pod.key)
        for key in self._deps.chaperons.parents(target):
            self.queue.add(key)

    def _let_go(self, finalizer: str) -> None:
        for pod in self._deps.proxies.held_for(finalizer):
            self.queue.add(pod.key)

    def _concerns(self, key: Key) -> bool:
        """Return whether there may be work; most events of a pod that is being scheduled need none.

        In mode `reserve` several targets have candidates, and the scheduler deletes the losers.
        """
        proxy = self._proxies.store.get(key)
        if proxy is None or proxy.deleting or proxy.node_name:
            return True
        home = self._home(proxy)
        reserving = podstate.claim_mode(proxy) != "ranked"
        return not all(
            (reserving or placed.target.finalizer == home)
            and not placed.chaperon.hot_annotations.pod_missing_since
            and placed.is_of(proxy)
            for placed in self._deps.chaperons.of(proxy.key)
        )

    def _gather(
        self, key: Key, proxy: Object | None, doubtful: frozenset[str] = frozenset()
    ) -> tuple[ProxyAndDelegates, dict[str, Target]]:
        home = self._home(proxy)
        placed = [each for each in self._deps.chaperons.of(key) if each.target.ready]
        # Only these: a map of all targets for every event would cost more with each target.
        concerned = {home, *doubtful, *(each.target.finalizer for each in placed)}
        concerned.update(proxy.finalizers if proxy is not None else ())
        found = ((each, self._deps.targets.by_finalizer(each)) for each in concerned)
        targets = {finalizer: target for finalizer, target in found if target is not None}
        delegates = tuple(map(_delegate, placed))
        last = self._ended.get(key)
        ours = last is not None and proxy is not None and last.is_of(proxy) and last.target.finalizer == home
        raw = proxy.decode() if proxy else None
        view = ProxyAndDelegates(
            proxy=raw,
            delegates=delegates,
            home=home,
            settled=frozenset(finalizer for finalizer, target in targets.items() if target.ready),
            cluster_uid=self._deps.cluster_uid,
            homecoming=self._homecoming,
            last=_delegate(last) if last is not None and ours else None,
            doubtful=doubtful,
            lost=self._lost.finalizers | ({home} if self._fence(proxy) == 0 else frozenset()),
            ending=self._ending(proxy, raw, home, delegates, targets),
        )
        return view, targets

    def _ending(
        self,
        proxy: Object | None,
        raw: dict[str, Any] | None,
        home: str,
        delegates: Iterable[TargetChaperon],
        targets: Mapping[str, Target],
    ) -> Ending:
        """Return how far the end of the delegate of a terminating proxy pod is."""
        if proxy is None or raw is None or not (proxy.deleting and proxy.node_name):
            return Ending()
        mine = (each for each in delegates if each.finalizer == home and each.parent_uid == proxy.uid)
        here = next(mine, None)
        return self._withdrawal.ending(raw, targets[home], here.chaperon) if here is not None else Ending()

    def _status_refused(self, key: Key) -> None:
        """Let a proxy pod go whose API server refuses the last status of its delegate."""
        if self._ended.pop(key, None) is not None:
            self.queue.add(key)

    def _home(self, proxy: Object | None) -> str:
        if proxy is None:
            return ""
        target = self._deps.targets.by_node(podstate.home_node(proxy))
        return podstate.home_finalizer(proxy, target.finalizer if target is not None else None)


def _delegate(placed: Placed) -> TargetChaperon:
    return TargetChaperon(placed.target.finalizer, placed.chaperon.decode(), placed.target.ranges)


def _strays(view: ProxyAndDelegates, uid: str) -> list[DeleteChaperon]:
    """Delete the chaperon if its proxy pod uses another target or does not exist."""
    found = [each for each in decide(view) if isinstance(each, DeleteChaperon) and each.delegate.uid == uid]
    return [] if _ends(view) else found


def _ends(view: ProxyAndDelegates) -> bool:
    return view.proxy is not None and "deletionTimestamp" in view.proxy["metadata"]
