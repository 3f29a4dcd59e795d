"""Placement: select the clusters of each Placement, and write them as Open Cluster Management's controller does.

Watches  Placements, PlacementDecisions, ManagedClusters, their sets and bindings, AddOnPlacementScores, if this agent
         evaluates Placements. On a hub with another evaluator, once a Placement is annotated for this agent.
Writes   PlacementDecisions, the status of Placements, Events about them.
A Placement is evaluated once its inputs have been quiet for a moment, and when a toleration or a score expires. A
separate task evaluates its CEL expressions; reconciliation does not wait for it.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, ClassVar

from agent.api.kinds import PLACEMENT_DECISIONS, PLACEMENTS
from agent.api.names.ocm import EVALUATE, SCHEDULING_DISABLED
from agent.clusters.deps import Deps
from agent.clusters.stores.placement_decisions import Owner, owner_of
from agent.kube.errors import Forbidden, NotFound
from agent.kube.store import Object
from agent.placement.placements.decide import Plan, Present, clusters, decide, scored
from agent.placement.placements.decisions import Decisions
from agent.placement.placements.expressions import Expressions
from agent.placement.placements.interests import Interests, Key, interest
from agent.placement.placements.metrics import MEASURED
from agent.placement.placements.pacing import QUIET_SECONDS, Pacing
from agent.placement.placements.surroundings import Surroundings
from agent.placement.placements.telling import Event
from agent.ranking.placing.evaluate import evaluate_settled
from agent.ranking.placing.inputs import CelVerdicts
from agent.ranking.placing.outcome import Outcome
from agent.runtime.controller import Controller

_LONGEST = timedelta(hours=1)
_EARLY = timedelta(milliseconds=1)
"""Margin added to timers, which may fire slightly early."""
_SET = "the agent may not evaluate it: set agent.placement.evaluate=true on a hub, agent.placement.crds=true elsewhere"


@dataclass(slots=True)
class Memory:
    """Facts about writes to a Placement that the CRD of an older hub has no fields for."""

    scored: datetime | None = None
    """Time of the last write of scores; None before the first."""
    without_effect: dict[str, tuple[str, Any]] = field(default_factory=dict)
    """Version and ignored status patch by object name: the hub's CRD lacks the fields of the patch."""


class PlacementController(Controller[Key]):
    """Controller with the keys of Placements."""

    name: ClassVar[str] = "placement"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._client = deps.local.client
        self._clock = deps.clock
        self._recorder = deps.recorder
        self._mode = deps.placement
        self._pacing = Pacing()
        self._interests = Interests()
        self._labels: dict[Owner, Key] = {}
        """Key of the Placement by the owner that its PlacementDecisions name."""
        self._memories: dict[Key, Memory] = {}
        self._own = False
        self._told: dict[Key, str] = {}
        """Version that the watch delivered during the agent's own write, by key; empty if none or the agent's own."""
        self._surroundings: Surroundings | None = None
        self._decisions: Decisions | None = None
        self._expressions = Expressions(deps.clock, lambda key: self.queue.add(key))
        self._placements = self._mode.watch(PLACEMENTS)
        self._mode.on_turn(self._turn)
        self._placements.subscribe(self._changed, self._turn)

    async def run(self) -> None:
        """Evaluate Placements until cancelled."""
        try:
            await super().run()
        finally:
            await self._expressions.close()

    async def reconcile(self, key: Key) -> float | None:
        """Evaluate one Placement, and write its changes."""
        wait = self._pacing.wait(key)
        if wait > 0:
            return wait
        obj, surroundings, decisions = self._placement(key), self._surroundings, self._decisions
        if obj is None or surroundings is None or decisions is None:
            return None
        if not surroundings.known or not decisions.known:
            return None
        placement = obj.decode()
        cel = self._expressions.of(key, placement, surroundings)
        if cel is None:
            return None
        present, now = decisions.present(key), self._clock.now()
        outcome = self._evaluate(placement, surroundings, decisions, present, cel.verdicts, now)
        memory = self._memories.setdefault(key, Memory())
        plan = decide(placement, outcome, present, now, memory.scored)
        if not outcome.misconfigured:
            decisions.hold(key, outcome.decided)
        if plan.moved:
            self._pacing.moved(key)
        MEASURED.note(key, outcome, scored(present, placement["metadata"]["uid"]))
        self._told[key] = ""
        try:
            await self._write(obj, placement, plan, decisions, memory)
        except Forbidden as error:
            self._recorder.event(placement, "Warning", "EvaluationForbidden", f"{_SET}: {error}")
            raise
        finally:
            decisions.release(key)
            found = self._placements.store.get(key) if self._told.pop(key, "") and self._placements.store else None
            if found is not None:
                self._changed(None, found)
        if not cel.current:
            return QUIET_SECONDS
        again = min(filter(None, (plan.again, cel.verdicts.again)), default=None)
        return None if again is None else _seconds(again - self._clock.now())

    def _evaluate(
        self,
        placement: Mapping[str, Any],
        surroundings: Surroundings,
        decisions: Decisions,
        present: Iterable[Present],
        verdicts: CelVerdicts,
        now: datetime,
    ) -> Outcome:
        metadata = placement["metadata"]
        own = [each for each in present if each.owner in ("", metadata["uid"])]
        decided = frozenset(name for each in own for name in clusters(each.decisions))
        elsewhere = decisions.elsewhere((metadata["namespace"], metadata["name"]))
        return evaluate_settled(
            placement, surroundings.fleet, decided=decided, elsewhere=elsewhere, cel=verdicts, now=now
        )

    async def _write(
        self, obj: Object, placement: dict[str, Any], plan: Plan, decisions: Decisions, memory: Memory
    ) -> None:
        namespace, _ = obj.key
        await self._delete(namespace, plan.delete, decisions)
        for manifest in plan.create:
            decisions.written(await self._client.create_raw(PLACEMENT_DECISIONS, manifest))
        for name, metadata in plan.metadata:
            body = {"metadata": metadata}
            decisions.written(await self._client.patch_raw(PLACEMENT_DECISIONS, name, body, namespace))
        written = bool(plan.delete or plan.create or plan.metadata or plan.surplus)
        rescored = False
        for name, listed in plan.decisions:
            found = decisions.get(namespace, name)
            if found is not None:
                rescored |= await self._patch(found, {"decisions": listed}, memory, decisions.written)
        # Surplus is deleted last, so that a cluster that moves between PlacementDecisions is always listed.
        await self._delete(namespace, plan.surplus, decisions)
        if plan.decisions:
            memory.scored = self._clock.now()
        events = iter(plan.events)
        # Events about decisions come first: a retry after a failed status write would not write decisions again.
        self._tell(placement, events if written or rescored else ())
        status = plan.status_after(changed=rescored)
        if status and await self._patch(obj, status, memory, self._absorb, guarded=True):
            self._tell(placement, events)

    def _tell(self, placement: dict[str, Any], events: Iterable[Event]) -> None:
        for event in events:
            self._recorder.event(placement, event.type, event.reason, event.message)

    async def _delete(self, namespace: str, found: Iterable[Present], decisions: Decisions) -> None:
        for present in found:
            with contextlib.suppress(NotFound):
                await self._client.delete(PLACEMENT_DECISIONS, present.name, namespace, uid=present.uid)
            decisions.deleted(namespace, present)

    async def _patch(
        self,
        obj: Object,
        status: Mapping[str, Any],
        memory: Memory,
        absorb: Callable[[bytes], None],
        *,
        guarded: bool = False,
    ) -> bool:
        """Patch the status of an object. Return True if the object has changed."""
        name = f"{obj.kind.plural}/{obj.name}"
        if memory.without_effect.get(name) == (obj.version, status):
            return False
        body: dict[str, Any] = {"status": status}
        if guarded:
            body["metadata"] = {"resourceVersion": obj.version}
        raw = await self._client.patch_raw(obj.kind, obj.name, body, obj.namespace, sub="status")
        absorb(raw)
        changed = Object(obj.kind, raw).version != obj.version
        memory.without_effect.pop(name, None)
        if not changed:
            memory.without_effect[name] = (obj.version, status)
        return changed

    def _absorb(self, raw: bytes) -> None:
        answer = Object(PLACEMENTS, raw)
        if self._told.get(answer.key) == answer.version:
            # The watch delivered the agent's own write before the response.
            self._told[answer.key] = ""
        self._own = True
        try:
            self._placements.absorb(raw)
        finally:
            self._own = False

    def _placement(self, key: Key) -> Object | None:
        """Return a Placement if this agent evaluates it; None otherwise."""
        store = self._placements.store
        obj = store.get(key) if store is not None else None
        return obj if obj is not None and self._is_ours(obj) else None

    def _is_ours(self, obj: Object) -> bool:
        if obj.deleting or not self._mode.active:
            return False
        annotations = obj.annotations
        if annotations.get(SCHEDULING_DISABLED) == "true":
            return annotations.get(EVALUATE) == "true"
        return self._mode.mode == "serve"

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if self._own:
            return
        about = new or old
        assert about is not None
        key = about.key
        if new is not None and key in self._told:
            self._told[key] = new.version
            return
        if new is None:
            self._memories.pop(key, None)
            self._pacing.forget(key)
        if new is None or not self._is_ours(new):
            self._interests.drop(key)
            self._expressions.drop(key)
            self._labels.pop(owner_of(key), None)
            MEASURED.forget(key)
            return
        self._interests.put(key, interest(new.decode()))
        self._labels[owner_of(key)] = key
        self._look_around()
        self._touch([key])

    def _turn(self) -> None:
        """Start over after a change of mode, or after Placements became served or unserved."""
        if self._mode.mode == "serve":
            self._look_around()
        for key in self._interests:
            self._interests.drop(key)
            self._expressions.drop(key)
            MEASURED.forget(key)
        self._labels.clear()
        self._memories.clear()
        for obj in self._placements.store or ():
            self._changed(None, obj)

    def _look_around(self) -> None:
        if self._surroundings is None:
            self._surroundings = Surroundings(self._mode.fleet, self._interests, self._touch)
            self._decisions = Decisions(self._mode, self._found, self._balance, lambda: self._touch(self._interests))

    def _touch(self, keys: Iterable[Key]) -> None:
        for key in keys:
            self._pacing.touch(key)
            self.queue.add_after(key, QUIET_SECONDS)

    def _found(self, owner: Owner) -> None:
        if owner in self._labels:
            self._touch([self._labels[owner]])

    def _balance(self, owner: Owner, clusters: Collection[str]) -> None:
        """Queue other Placements with the prioritizer Balance, which counts decisions for these clusters."""
        if self._surroundings is not None:
            sets, bindings = self._surroundings.in_sets_of(clusters), self._surroundings.bindings
            own = self._labels.get(owner)
            others = self._interests.of_sets(sets, bindings, lambda interest: interest.balances)
            for key in others:
                if key != own:
                    self.queue.add_after(key, self._pacing.pause(key))


def _seconds(left: timedelta) -> float:
    return min(max(left + _EARLY, _EARLY), _LONGEST).total_seconds()
