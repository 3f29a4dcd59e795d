"""Mover: moves misplaced pods to other targets, as many of an owner at a time as the owner allows.

Watches  proxy pods, Targets, namespaces, Services and their EndpointSlices in all clusters, virtual nodes.
Reads    owners of pods that have to move, from the API server.
Writes   replacements (created, labelled, deleted); on pods that move, annotations and the condition Placed; evictions;
         the phase Failed of pods of Jobs in lost targets.
         Events if a replacement is refused, and on a replacement that has been adopted.
Absent target: its pods stay until it answers again or is lost; then they are replaced.
"""

import contextlib
import functools
import time
from collections.abc import Iterable, Mapping

from agent.api.kinds import NAMESPACES, PODS
from agent.api.names import moves
from agent.base.metrics import shown
from agent.clusters.deps import Deps
from agent.kube.errors import Unreachable
from agent.kube.store import Key, Object
from agent.model.podstate import ENDED, PROXY_PODS
from agent.moves.mover.actions import Actions
from agent.moves.mover.announcements import Announcements
from agent.moves.mover.causes import Causes
from agent.moves.mover.checks import FailBackPods, PodChecks
from agent.moves.mover.decide import decide, is_of_interest
from agent.moves.mover.facts import OwnerKey, is_replacement, owner_of
from agent.moves.mover.gather import Gather, read_owner
from agent.moves.mover.limits import AGAIN_SECONDS, Limits, Starting
from agent.moves.mover.metrics import IN_PROGRESS, REASONS, WAITING
from agent.moves.mover.view import Cause, Create, reasons
from agent.moves.mover.writer import Writer
from agent.runtime.controller import Controller
from agent.runtime.task_group import together

LOOK_SECONDS, RARELY_SECONDS = 2.0, 15.0
"""Poll interval for state without a watch (owners, timers); the second one applies after a while without actions."""
HELD_SECONDS = 60.0
"""Longest pause while pods wait for an event: a deleted claim, the end of a rollout, an answer of a target."""
_OFTEN_SECONDS = 60.0
"""Seconds after the last action for which LOOK_SECONDS applies."""
_OWNER, _REPLACES = "mover owner", "mover replaces"
_PLACED = f'"{moves.CONDITION}"'.encode()


class Mover(Controller[OwnerKey]):
    """Keys are owners with a pod that has to move, or with an unfinished move."""

    name = "mover"
    workers = 32
    """Owners at a time. Many, since each step of a move sends several requests in sequence."""

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._client = deps.local.client
        self._proxies = deps.proxies.informer
        self._proxies.store.index(_OWNER, lambda pod: (owner_of(pod)[3],))
        self._checks = PodChecks(self._check, self._proxies.store)
        self._fail_back_pods = FailBackPods(deps)
        self._proxies.store.index(_REPLACES, lambda pod: (_REPLACES,) if is_replacement(pod) else ())
        self._causes = Causes(deps, self._target_changed, self._placements_decided, self._preferred)
        self._announcements = Announcements(deps, deps.settings.withdraw)
        self._writer = Writer(deps)
        self._gather = Gather(deps, self._causes, self._announcements, self._writer.refusals)
        self._starting = Starting(lambda node: self._causes.home(node).answers)
        self._limits = Limits(deps.settings.move_parallel, deps.settings.move_rate, self._starting)
        self._actions = Actions(deps, self._causes, self._gather, self._announcements, self._writer, self._limits)
        self._busy: dict[OwnerKey, Mapping[str, int]] = {}
        """Owners with moves, with the number of their misplaced pods by reason."""
        self._busy_by_uid: dict[str, OwnerKey] = {}
        self._acted: dict[OwnerKey, float] = {}
        """Moment of the last action for each of these, by the monotonic clock."""
        self._priorities: dict[str, int] = {}
        """Priority of the pods of enqueued owners, by UID of the owner."""
        self._sure: set[str] = set()
        """Namespaces whose replacements by earlier leaders are all in this process's store."""
        reach = self._announcements.reach
        needed = (self._gather.nodes, self._gather.claims, deps.namespaces.informer, *self._causes.targets.informers)
        for informer in (self._proxies, *needed, reach.services, reach.here):
            self.watch(informer, lambda obj: ())
        self._proxies.subscribe(self._pod_changed)
        deps.choices.on_change(self._choice_changed)
        self._gather.claims.subscribe(self._claim_changed)
        for informer in (deps.namespaces.informer, *(deps.owners.informers.values() if deps.owners else ())):
            informer.subscribe(self._level_changed)
        reach.subscribe(self._service_changed)

    async def run(self) -> None:
        """Move pods until cancelled."""
        with contextlib.ExitStack() as gauges:
            gauges.enter_context(shown(IN_PROGRESS, self._under_way))
            for reason in REASONS:
                gauges.enter_context(shown(WAITING.labels(reason), functools.partial(self._waiting, reason)))
            await together(super().run(), self._checks.run())

    # Events that enqueue an owner ------------------------------------------------------------------------------------

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        pod = new or old
        assert pod is not None
        if self._starting.note(old, new, time.monotonic(), self._deps.server_now):
            first = self._limits.first_refused()
            if first is not None:
                self.queue.add(first)
        key = owner_of(pod)
        told = new is not None and old is None and _PLACED in new.raw
        if told or key in self._busy or any(each is not None and self._is_concerned(each) for each in (old, new)):
            self._add(pod)
        if new is None and not self._proxies.store.count(_OWNER, key[3]):
            self._priorities.pop(key[3], None)
            self._causes.forget(key[3])

    def _add(self, pod: Object) -> None:
        """Enqueue the owner of a pod."""
        key = owner_of(pod)
        self._priorities[key[3]] = pod.priority
        self.queue.add(key)

    def order(self, key: OwnerKey) -> tuple[int, OwnerKey]:
        """Return the sort key of an owner: pods of a higher priority class first, then by kind, namespace and name."""
        return -self._priorities.get(key[3], 0), key

    def _choice_changed(self, pods: Iterable[Key]) -> None:
        self._checks.add(pod for key in pods if (pod := self._proxies.store.get(key)) is not None)

    def _level_changed(self, old: Object | None, new: Object | None) -> None:
        """Re-check the pods of a namespace or owner with changed annotations, or of an owner that held its pods."""
        if old is not None and new is None and old.kind is NAMESPACES:
            self._sure.discard(old.name)
        if old is None or new is None:
            return
        says_else = old.annotations != new.annotations
        if new.kind is NAMESPACES:
            if says_else:
                self._checks.add(self._deps.proxies.in_namespace(new.name))
        elif self._deps.owners is not None:
            changed = says_else or _generation(old) != _generation(new)
            for uid in self._deps.owners.below(new):
                key = self._busy_by_uid.get(uid)
                if key is not None and (changed or self._busy[key].get("Held")):
                    self.queue.add(key)
                if says_else:
                    self._checks.add(self._proxies.store.by_index(_OWNER, uid))

    def _claim_changed(self, old: Object | None, new: Object | None) -> None:
        """Re-check owners whose pods a changed volume claim may have kept."""
        if old is None:
            return
        for key, found in self._busy.items():
            if key[1] == old.namespace and (found.get("DataElsewhere") or found.get("Held")):
                self.queue.add(key)

    def _target_changed(self, node: str) -> None:
        self._checks.add(self._deps.proxies.bound_to(node), surely=True)

    def _preferred(self, node: str) -> None:
        """Check the pods that may go back to a target; many targets at the same moment cost one check."""
        self._checks.add_later(self._fail_back_pods)

    def _placements_decided(self, namespaces: Iterable[str]) -> None:
        for namespace in namespaces:
            self._checks.add(self._deps.proxies.in_namespace(namespace))

    def _check(self, pod: Object, surely: bool) -> None:
        """Enqueue a pod's owner if the pod may have to move, or `surely`."""
        if surely or self._is_concerned(pod) or _PLACED in pod.raw:
            self._add(pod)

    def _service_changed(self, service: Key) -> None:
        for key in self._busy:
            if key[1] == service[0]:
                self.queue.add(key)

    def _is_concerned(self, pod: Object) -> bool:
        """Return True if a pod may have to move or has an unfinished move. Runs for every change of every proxy pod."""
        return _has_begun(pod) or bool(self._cause(pod))

    def _cause(self, pod: Object) -> Cause:
        """Return why a living pod should leave its target; empty if it should not."""
        return self._causes.of(pod, self._gather.levels(pod))[0] if _is_living(pod) else ""

    def _under_way(self) -> int:
        return self._proxies.store.count(_REPLACES, _REPLACES)

    def _waiting(self, reason: str) -> int:
        return sum(found.get(reason, 0) for found in list(self._busy.values()))

    # Reconciliation --------------------------------------------------------------------------------------------------

    async def reconcile(self, key: OwnerKey) -> float | None:
        """Take the next steps of the moves of an owner's pods."""
        pods = self._pods(key)
        if not pods or not self._is_anything_to_do(pods):
            self._rest(key, pods)
            return self._causes.put_off_for(key[3])
        if not (key in self._busy or any(map(_has_begun, pods)) or self._may_begin(key, pods)):
            return AGAIN_SECONDS
        read = await read_owner(self._client, key)
        if read is None:
            self._rest(key, pods)
            return LOOK_SECONDS
        await self._gather.count()
        pods = self._pods(key)
        owner, views = self._gather.view(key, read, pods)
        plan = decide(owner, views)
        if any(isinstance(action, Create) for action in plan.actions) and key[1] not in self._sure:
            await self._make_sure(key[1])
            owner, views = self._gather.view(key, read, self._pods(key))
            plan = decide(owner, views)
        todo, left = self._actions.due(key, plan.actions)
        now = time.monotonic()
        if any(map(is_of_interest, views)):
            self._busy[key], self._busy_by_uid[key[3]] = reasons(views, plan.actions), key
            self._acted[key] = now if todo else self._acted.get(key, now)
        else:
            self._rest(key, pods)
        try:
            again = await self._actions.carry_out(key, owner, read, todo)
        except Unreachable:
            self._sure.discard(key[1])
            raise
        due = (self._causes.due(pod, self._gather.levels(pod, read.annotations)) for pod in pods if pod.node_name)
        pause = LOOK_SECONDS if now - self._acted.get(key, now) < _OFTEN_SECONDS else RARELY_SECONDS
        if not plan.waits:
            pause = HELD_SECONDS if plan.holds else 0.0
        elif left and not todo:
            pause = RARELY_SECONDS
        later = (pause, again, left, self._causes.put_off_for(key[3]), *due)
        return min((each for each in later if each), default=None)

    def _may_begin(self, key: OwnerKey, pods: Iterable[Object]) -> bool:
        """Return whether an owner's first move would begin now; also True if none of its pods has to move."""
        causes = {self._cause(pod) for pod in pods} - {""}
        return not causes or self._limits.may_begin(("Lost" in causes, self._priorities.get(key[3], 0)), key)

    def _pods(self, key: OwnerKey) -> list[Object]:
        return [pod for pod in self._proxies.store.by_index(_OWNER, key[3]) if pod.namespace == key[1]]

    def _is_anything_to_do(self, pods: Iterable[Object]) -> bool:
        return any(self._is_concerned(pod) or _PLACED in pod.raw or self._is_silent(pod) for pod in pods)

    def _is_silent(self, pod: Object) -> bool:
        """Return True if the target of a living pod does not answer: then its owner's failover time has to be read."""
        return _is_living(pod) and not self._causes.home(pod.node_name).answers

    def _rest(self, key: OwnerKey, pods: list[Object]) -> None:
        self._busy.pop(key, None)
        self._busy_by_uid.pop(key[3], None)
        self._acted.pop(key, None)
        self._announcements.forget(pods)
        self._gather.forget(key)
        self._actions.forget(key)
        self._writer.refusals.pop(key[3], None)

    async def _make_sure(self, namespace: str) -> None:
        """Add replacements by an earlier leader to the store: the watch may not have delivered recent ones yet."""
        _, found = await self._client.list_raw(PODS, namespace, fields=PROXY_PODS)
        for raw in found:
            if moves.ANNOTATION_REPLACES.encode() in bytes(raw):
                self._proxies.absorb(bytes(raw))
        self._sure.add(namespace)


def _has_begun(pod: Object) -> bool:
    known = pod.hot_annotations
    return bool(known.replaces or known.replaced_by or known.withdrawn)


def _is_living(pod: Object) -> bool:
    """Return True if a pod is bound to a target, is not being deleted and has not ended."""
    return bool(pod.node_name) and not pod.deleting and pod.phase not in ENDED


def _generation(owner: Object) -> int:
    return owner.head.metadata.generation
