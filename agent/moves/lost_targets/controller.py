"""Target life: detects unreachable targets, and decides when to replace their pods in other targets.

Watches  Targets and ClusterTargets, and whether their clusters answer.
Writes   conditions of Targets: Stable; Lost and FailoverHeld, once they were true; the annotation multicluster/outages;
         removes multicluster/failover-now once the target answers.
Absent target: this controller detects it. Only time that this process has measured as leader counts. A target that the
previous leader recorded as lost is lost again as soon as this process observes that it does not answer.
"""

import asyncio
import math
import time

from prometheus_client import Counter, Gauge

from agent.api.conditions import find_condition, is_true
from agent.api.kinds import TARGET_KINDS
from agent.api.names import lifecycle
from agent.base.metrics import REGISTRY
from agent.base.yielding import in_turns
from agent.clusters.deps import Deps
from agent.clusters.health.silent_clusters import Member, SilentClusters, counted_as
from agent.clusters.health.target_outages import sight
from agent.kube.store import Key, Object
from agent.model.diff import same
from agent.model.target_health import standing
from agent.model.targetlife import Sight, TargetLife, Terms
from agent.moves.lost_targets import decide
from agent.moves.lost_targets.decide import View
from agent.runtime.controller import Controller
from agent.runtime.task_group import together

_FAILOVERS = Counter(
    "flotilla_failovers",
    "Times that a target was lost, so that its pods were replaced.",
    ("target",),
    registry=REGISTRY,
)
_HELD = Gauge(
    "flotilla_failover_held",
    "Whether failover of a silent target is held, because most other targets are silent too (1), or not (0).",
    ("target",),
    registry=REGISTRY,
)
_FLAPS = Counter(
    "flotilla_target_flaps",
    "Times that a target received no new pods because of a recent outage.",
    ("target",),
    registry=REGISTRY,
)
_LOST = Gauge(
    "flotilla_target_lost",
    "Whether a target is lost, and its pods are replaced in other targets (1), or not (0).",
    ("target",),
    registry=REGISTRY,
)
_LOOK_SECONDS = 2.0
"""Seconds between checks of unresponsive targets: a watch may receive events although probes fail."""


class TargetLifeController(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "targetlife"

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._lives = deps.target_outages
        self._objects = deps.local.either(TARGET_KINDS)
        self._clusters = SilentClusters()
        self._silent: dict[Key, Terms] = {}
        """Terms of the Targets that do not answer."""
        self._held_since: float | None = None
        for informer in self._objects.informers:
            self.watch(informer, lambda target: [target.key])
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.target_outages.subscribe(lambda key: self.queue.add(key) if self._objects.get(key) is not None else None)

    @property
    def _held(self) -> bool:
        return self._held_since is not None

    async def run(self) -> None:
        """Write conditions of Targets, and check unresponsive targets periodically, until cancelled."""
        await together(super().run(), self._look_at_silent())

    async def _look_at_silent(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            async for key in in_turns(tuple(self._silent)):
                if key in self._silent:
                    # A change of its state enqueues the key.
                    self._look(key, self._silent[key])

    def _look(self, key: Key, terms: Terms) -> TargetLife:
        """Check one target. It is not silent while its cluster answers through another Target."""
        if self._clusters.way_to(key):
            self._lives.hear(key, time.monotonic())
        return self._lives.look(key, self._deps.targets.get(key), terms)

    async def reconcile(self, key: Key) -> float | None:
        """Check one target, and write its conditions and annotations."""
        obj = self._objects.get(key)
        if obj is None:
            self._lives.forget(key)
            self._silent.pop(key, None)
            self._count(key, None)
            for metric in (_FAILOVERS, _HELD, _FLAPS, _LOST):
                metric.remove(_title(key))
            return None
        target, now = obj.decode(), time.monotonic()
        if key not in self._lives:
            self._lives.begin(key, decide.before(target, now, self._deps.clock.now()))
            # Export 0 first: Prometheus' increase() ignores the first value of a counter.
            for metric in (_FAILOVERS, _FLAPS):
                metric.labels(_title(key))
        _HELD.labels(_title(key)).set(standing(target).held)
        _LOST.labels(_title(key)).set(told_lost((target.get("status") or {}).get("conditions")))
        settings = self._deps.settings
        terms, flaw = decide.terms(target, settings.failover_after, settings.stable_after)
        if flaw:
            self._deps.recorder.event(target, "Warning", "InvalidAnnotation", flaw)
        connected = self._deps.targets.get(key)
        life = self._look(key, terms)
        ready = connected is not None and connected.ready
        self._note(key, terms, Member(counted_as(target), life.silent_since is not None, ready))
        life = self._lives.of(key)
        known, other = sight(connected) is not Sight.UNKNOWN, self._clusters.way_to(key)
        view = View(target, life, terms, self._held, known, time.monotonic(), self._deps.clock.now(), other)
        await self._say(obj, view, ready=ready)
        due = min(life.due(terms, time.monotonic()), decide.held_due(view))
        return None if due == math.inf else max(due, 0.1)

    def _note(self, key: Key, terms: Terms, member: Member) -> None:
        """Record the state for the next check, and for checks of other Targets of the same cluster."""
        if member.silent:
            self._silent[key] = terms
        else:
            self._silent.pop(key, None)
        self._count(key, member)

    def _count(self, key: Key, member: Member | None) -> None:
        """Decide again whether failover is held, and enqueue other Targets of the cluster if this one changes them."""
        ways = {other: self._clusters.way_to(other) for other in self._clusters.beside(key)}
        if member is not None:
            self._clusters.put(key, member)
        else:
            self._clusters.remove(key)
        for other in {*ways, *self._clusters.beside(key)}:
            if ways.get(other, "") != self._clusters.way_to(other):
                self.queue.add(other)
        held = self._clusters.held
        if held != self._held:
            if self._held_since is not None:
                self._lives.spare(self._held_since)
            self._held_since = time.monotonic() if held else None
            for obj in self._objects:
                self.queue.add(obj.key)

    async def _say(self, obj: Object, view: View, *, ready: bool) -> None:
        patch = decide.annotations(view)
        if patch:
            # The event of this patch enqueues the Target again; that reconciliation writes the conditions.
            await self._objects.patch(obj.key, {"metadata": {"resourceVersion": obj.version, "annotations": patch}})
            return
        old, new = (view.target.get("status") or {}).get("conditions") or [], decide.conditions(view)
        if same(old, new) or (not old and not ready):
            # The target controller writes Ready first; its event enqueues the Target again.
            return
        await self._deps.target_status.write(obj, {"conditions": new})
        self._tell(obj.key, view, new)

    def _tell(self, key: Key, view: View, new: list[decide.Raw]) -> None:
        """Update metrics and emit events for the new conditions of a target."""
        was, now_is = standing(view.target), standing({**view.target, "status": {"conditions": new}})
        if told_lost(new) and not told_lost((view.target.get("status") or {}).get("conditions")):
            _FAILOVERS.labels(_title(key)).inc()
            message = (find_condition(new, lifecycle.TARGET_LOST) or {}).get("message", "")
            self._deps.recorder.event(view.target, "Warning", "TargetLost", message)
        if now_is.held and not was.held:
            self._deps.recorder.event(view.target, "Warning", "FailoverHeld", decide.HELD)
        if now_is.returning and not was.returning:
            _FLAPS.labels(_title(key)).inc()


def told_lost(conditions: list[decide.Raw] | None) -> bool:
    """Return True if the condition Lost is True."""
    return is_true(conditions, lifecycle.TARGET_LOST)


def _title(key: Key) -> str:
    return "/".join(key).lstrip("/")
