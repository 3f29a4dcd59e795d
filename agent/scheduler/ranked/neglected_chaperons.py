"""Chaperons without progress in their target: no delegate reported, no scheduler active, or scheduling gates closed.

A scheduler that handles other pods of ours is running, and the pods it has not reached yet are not neglected. This
state is held by one process: a new leader counts from zero.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.base.clock import parse
from agent.clusters.health.agent_health import AgentRecord
from agent.kube.store import Key, Object
from agent.model.podstate import taken_up_by
from agent.model.schedulername import DEFAULT, special, why_missing

_Scheduler = tuple[str, str]
"""A virtual node, and the name of a scheduler in its target."""


@dataclass(slots=True)
class _Waiting:
    pod: Key
    chaperon: str
    """UID of the chaperon."""
    scheduler: _Scheduler | None
    """None if the delegate has scheduling gates: schedulers do not handle gated pods."""
    since: float
    woken: float = -math.inf
    made: bool = False
    """True if its delegate is known to exist."""


class NeglectedChaperons:
    """Calls `wake` with the key of a pod whose chaperon has waited for `seconds`."""

    def __init__(self, seconds: float, wake: Callable[[Key], None]) -> None:
        self._seconds = seconds
        self._wake = wake
        self._waiting: dict[str, _Waiting] = {}
        """By the pod's UID."""
        self._seen_at_work: dict[_Scheduler, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, pod: Object, chaperon: Object, node: str) -> None:
        """Start the timer of a chaperon without a reaction of its target; later calls keep the first time."""
        known = self._waiting.get(pod.uid)
        if known is None or known.chaperon != chaperon.uid:
            now = asyncio.get_running_loop().time()
            self._waiting[pod.uid] = _Waiting(pod.key, chaperon.uid, (node, chaperon.scheduler_name), now)
            self._set_timer(self._seconds)

    def gate(self, pod: Object, chaperon: Object, node: str) -> float:
        """Record that a delegate has scheduling gates. Return the seconds that its chaperon has waited."""
        self.begin(pod, chaperon, node)
        known = self._waiting[pod.uid]
        known.scheduler = None
        return asyncio.get_running_loop().time() - known.since

    def is_neglected(self, uid: str) -> bool:
        """Return True if the chaperon of a pod has waited too long."""
        known = self._waiting.get(uid)
        return known is not None and self._due(known) <= asyncio.get_running_loop().time()

    def why(self, uid: str, chaperon: Mapping[str, Any] | None, agent: AgentRecord | None) -> str:
        """Return why the chaperon of a pod counts as refused; empty if it has not waited too long.

        :param agent: of the target; None if it does not report any
        """
        return reason(chaperon, self._seconds, agent, made=self._waiting[uid].made) if self.is_neglected(uid) else ""

    def note_delegate(self, uid: str, *, made: bool) -> None:
        """Record whether the delegate of a pod exists: without one, its scheduler cannot be missing."""
        if uid in self._waiting:
            self._waiting[uid].made = made

    def taken(self, uid: str) -> bool:
        """Record that a scheduler has handled a pod's chaperon. Return True if it was not recorded before."""
        known = self._waiting.pop(uid, None)
        if known is not None and known.scheduler is not None:
            self._seen_at_work[known.scheduler] = asyncio.get_running_loop().time()
        return known is not None

    def forget(self, uid: str) -> None:
        """Stop tracking a pod that needs no target any longer, or whose chaperon is being given up."""
        self._waiting.pop(uid, None)

    def _due(self, waiting: _Waiting) -> float:
        at_work = self._seen_at_work.get(waiting.scheduler, 0.0) if waiting.scheduler is not None else 0.0
        return max(waiting.since, at_work) + self._seconds

    def _set_timer(self, delay: float) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(delay, self._look)

    def _look(self) -> None:
        """Wake the pods that have waited too long; repeat after the same time if that changed nothing."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        soonest = math.inf
        for waiting in list(self._waiting.values()):
            due = max(self._due(waiting), waiting.woken + self._seconds)
            if due <= now:
                waiting.woken = now
                due = now + self._seconds
                self._wake(waiting.pod)
            soonest = min(soonest, due)
        if self._waiting:
            # Chaperons of a burst become due one after the other.
            self._set_timer(max(soonest - now, self._seconds / 20))


def reason(chaperon: Mapping[str, Any] | None, seconds: float, agent: AgentRecord | None = None, *, made: bool) -> str:
    """Return the message about a chaperon without a reaction of its target for so many seconds.

    :param agent: of the target; None if it does not report any
    :param made: True if the delegate is known to exist
    """
    spec = (chaperon or {}).get("spec") or {}
    if special(spec) and made:
        return why_missing(special(spec))
    text = (
        f"nobody there has done anything about its PodChaperon for {seconds:g} s: see that the agent and the"
        f" scheduler {spec.get('schedulerName') or DEFAULT} run there"
    )
    return text if agent is None or agent.usable else f"{text} ({agent.message})"


def reason_by_age(chaperon: Mapping[str, Any] | None, seconds: float, now: datetime, *, made: bool) -> str:
    """As `reason`, for an observer that has not watched the chaperon: its age decides; empty if it is too young."""
    created = chaperon["metadata"].get("creationTimestamp") if chaperon is not None else None
    if chaperon is None or not created or taken_up_by(chaperon):
        return ""
    return reason(chaperon, seconds, made=made) if (now - parse(created)).total_seconds() >= seconds else ""
