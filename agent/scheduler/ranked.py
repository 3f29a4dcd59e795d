"""Mode `ranked`: one candidate at a time, allowed from the beginning, in the target that the pod is claimed by."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from agent.api import names
from agent.clusters import chaperons
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import Forbidden, Invalid, NotFound, Unsent
from agent.kube.store import Key, Object
from agent.model.errors import InvalidPod
from agent.scheduler import decide as steps
from agent.scheduler.attempts import attempts_of
from agent.scheduler.lines import Lines
from agent.scheduler.scene import IN_LINE, WAITING, Scene
from agent.scheduler.writes import Foreign, Writes
from agent.scheduling.explain import explain

REFUSED_RETRY_SECONDS = 30.0
_TARGET_GONE_SECONDS = 0.1
_MOVING_SECONDS = 1.0
_UNSETTLED_SECONDS = 1.0


class Ranked:
    """Takes the next step for one proxy pod; `step` returns in how many seconds to look again, if it is to."""

    def __init__(self, deps: Deps, scene: Scene, writes: Writes, wake: Callable[[Key], None]) -> None:
        self._deps = deps
        self._scene = scene
        self._writes = writes
        self._dwell = timedelta(seconds=deps.settings.dwell)
        self._lines = Lines(writes.most, wake)
        self._unsent: dict[str, tuple[str, str]] = {}
        """UIDs of pods to the claim that we wrote and its renewal, as long as no chaperon can have left for it."""

    def forget(self, uid: str) -> None:
        """A pod needs no target any more."""
        self._unsent.pop(uid, None)
        self._lines.leave(uid)

    async def step(self, pod: Object) -> float | None:
        """The next step."""
        if not pod.known.claim and await self._cleared(pod):
            return None
        target = self._deps.targets.by_node(pod.known.claim)
        placed = self._placed(pod, target)
        chaperon = placed.decode() if placed is not None else None
        if target is not None and target.ready and chaperon is not None:
            step = steps.glance(chaperon)
            if isinstance(step, steps.Bind):
                await self._writes.bind(pod, target.node_name, "ranked")
            if step is not None:
                return None
        return await self._place(pod, target, chaperon)

    async def _cleared(self, pod: Object) -> bool:
        """Whether chaperons had to go that an agent before us made of a pod without a claim.

        Admiralty makes candidates everywhere: with one of ours beside them, the pod would have two delegates. Their
        going brings us back.
        """
        found = [
            each
            for each in self._deps.chaperons.of(pod.key)
            if each.target.ready and each.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid
        ]
        for each in found:
            if not each.chaperon.deleting:
                await chaperons.delete(each.target, each.chaperon.decode())
        return bool(found)

    def _placed(self, pod: Object, target: Target | None) -> Object | None:
        """The pod's chaperon in the target of its claim."""
        for each in self._deps.chaperons.of(pod.key):
            if each.target is target and each.chaperon.labels.get(names.LABEL_PARENT_UID) == pod.uid:
                return each.chaperon
        return None

    async def _place(self, pod: Object, target: Target | None, chaperon: dict[str, Any] | None) -> float | None:
        """Choose a target, or what to do about one that cannot take the pod."""
        proxy = pod.decode()
        try:
            _, ranking = self._scene.ranking(pod)
        except InvalidPod as error:
            await self._writes.say(proxy, f"{error}")
            return None
        claim = pod.known.claim
        view = steps.View(
            claim=claim,
            claim_known=target is not None,
            claim_ready=target is not None and target.ready,
            claim_held=any(name.startswith(names.PREFIX) for name in pod.finalizers),
            claim_unsent=self._is_unsent(pod),
            claim_state=target.record.message if target is not None else "",
            chaperon=chaperon,
            attempts=attempts_of(proxy),
            ranking=ranking,
            now=self._deps.clock.now(),
            dwell=self._dwell,
            closed=self._scene.closed(pod.namespace),
        )
        return await self._take(pod, proxy, view, steps.decide(view))

    async def _take(self, pod: Object, proxy: dict[str, Any], view: steps.View, step: steps.Step) -> float | None:
        if isinstance(step, steps.Claim):
            return await self._claim(pod, proxy, self._deps.targets.by_node(step.node_name))
        self._lines.leave(pod.uid)
        target = self._deps.targets.by_node(view.claim)
        match step:
            case steps.GiveUp(reason) if view.chaperon is not None and target is not None:
                await self._writes.give_up(proxy, target, view.chaperon, reason, "ranked")
            case steps.Wait(message, seconds):
                if message or view.chaperon is None:
                    if not self._scene.settled(pod.namespace):
                        return _UNSETTLED_SECONDS
                    later = await self._tell(proxy, view, message)
                    return min((left for left in (seconds, later) if left is not None), default=WAITING)
            case steps.Stop(message):
                await self._writes.say(proxy, message)
                return WAITING
            case _:
                pass
        return None

    async def _tell(self, proxy: dict[str, Any], view: steps.View, message: str) -> float | None:
        tried = {node: attempt.reason for node, attempt in view.attempts.items()}
        claim = {view.claim: message} if message else {}
        return await self._writes.refuse(proxy, explain(view.ranking, tried, claim), view.ranking)

    async def _claim(self, pod: Object, proxy: dict[str, Any], target: Target | None) -> float | None:
        if target is None:
            return _TARGET_GONE_SECONDS
        with self._lines.turn(pod, target) as ours:
            return await self._go(pod, proxy, target) if ours else IN_LINE

    async def _go(self, pod: Object, proxy: dict[str, Any], target: Target) -> float | None:
        before = self._deps.targets.by_node(pod.known.claim)
        unsent = self._is_unsent(pod)
        if before not in (None, target) and not unsent and await self._writes.found(before, proxy):
            return _MOVING_SECONDS
        claimed = await self._writes.claim(pod, target)
        if claimed is None:
            return None
        self._writes.stopwatch.lap(pod.uid, "queue")
        anew = unsent or pod.known.claim != target.node_name
        return await self._send(claimed, proxy, target, anew=anew)

    def _is_unsent(self, pod: Object) -> bool:
        return bool(pod.known.claim) and self._unsent.get(pod.uid) == (pod.known.claim, pod.known.claim_renewed)

    async def _send(self, claimed: Object, proxy: dict[str, Any], target: Target, *, anew: bool) -> float | None:
        """Send the chaperon for a claim that was just written; `anew`: none can have left for this claim before."""
        self._unsent.pop(claimed.uid, None)
        try:
            await self._writes.send(proxy, target)
        except Unsent:
            if anew:
                self._unsent[claimed.uid] = (claimed.known.claim, claimed.known.claim_renewed)
            raise
        except InvalidPod as error:
            await self._writes.say(proxy, str(error))
        except Foreign as error:
            return await self._refused(proxy, target, str(error))
        except (Forbidden, Invalid, NotFound) as error:
            await self._writes.say(proxy, f"{target.title}: cannot create PodChaperon: {error}")
            return await self._refused(proxy, target, str(error))
        return None

    async def _refused(self, proxy: dict[str, Any], target: Target, reason: str) -> float:
        """On to the next target at once; a target that has refused the pod before is not asked again so soon."""
        again = target.node_name in attempts_of(proxy)
        await self._writes.remember(proxy, target.node_name, reason, "ranked")
        return REFUSED_RETRY_SECONDS if again else 0.0
