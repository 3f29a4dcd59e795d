"""The life of a target that is cut off: connected, unreachable, lost, returning. Pure.

    Connected    nothing is known against it
    Unreachable  it does not answer: its pods stay, and nothing else moves them
    Lost         it has not answered for as long as `failover-after` says: its pods are replaced elsewhere
    Returning    it answers again: nothing is replaced any more, and nothing new goes there for a while

Moments are seconds of the monotonic clock of whoever leads now: no clock of another machine matters.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

HOUR_SECONDS = 3600.0
LONGEST_PAUSE_SECONDS = 900.0
"""For so long a target that comes and goes may have no new pods."""
_MOST_DOUBLINGS = 32


class Sight(StrEnum):
    """What a look at a target shows."""

    UNKNOWN = "unknown"
    """There is no connection yet, or its kubeconfig cannot be used: that says nothing of the target."""
    SILENT = "silent"
    """It does not answer, or with errors of a server only."""
    ANSWERS = "answers"
    """It answers, but what is stored of it cannot be believed yet, or it refuses us."""
    READY = "ready"


class LifeState(StrEnum):
    """Where in its life a target is."""

    CONNECTED = "Connected"
    UNREACHABLE = "Unreachable"
    LOST = "Lost"
    RETURNING = "Returning"


class Terms(msgspec.Struct, frozen=True):
    """What is asked of a target, in seconds."""

    failover_after: float = 300.0
    """Infinite: never."""
    stable_after: float = 60.0
    """How long a target that was lost has to be ready before it has new pods; twice as long with each outage."""


@dataclass(frozen=True)
class TargetLife:
    """What is known of a target's life; it begins as connected, since nothing is known against it."""

    state: LifeState = LifeState.CONNECTED
    silent_since: float | None = None
    """When it was seen not to answer any more; None while it answers."""
    ready_since: float | None = None
    """While it returns: since when it is ready; None until then."""
    outages: tuple[float, ...] = ()
    """When those of the last hour began."""
    was_lost: bool = False
    """Whether it was lost in the last outage."""
    inherited: bool = False
    """Whether the leader before this one had found it lost: this one has only to see that it does not answer."""

    @property
    def answers(self) -> bool:
        """Whether it answers, as far as is known."""
        return self.state in (LifeState.CONNECTED, LifeState.RETURNING)

    def silent_for(self, now: float) -> float:
        """How many seconds it has not answered, 0 while it does."""
        return 0.0 if self.silent_since is None else max(0.0, now - self.silent_since)

    def heard(self, moment: float) -> "TargetLife":
        """The life where a watch has heard of the target at a moment: one that does not answer was there until then."""
        if self.silent_since is None or moment <= self.silent_since:
            return self
        return replace(self, silent_since=moment, inherited=False)

    def spared(self, since: float, now: float) -> "TargetLife":
        """The life where the seconds since a moment, in which failover was held, do not count as silence."""
        if self.silent_since is None:
            return self
        return replace(self, silent_since=self.silent_since + now - max(since, self.silent_since))

    def pause(self, terms: Terms) -> float:
        """How long it has to be ready before it has new pods: nothing after a first short outage."""
        count = len(self.outages)
        if count <= 1 and not self.was_lost:
            return 0.0
        return min(LONGEST_PAUSE_SECONDS, terms.stable_after * 2.0 ** (min(max(count, 1), _MOST_DOUBLINGS) - 1))

    def due(self, terms: Terms, now: float) -> float:
        """In how many seconds to look again if nothing else happens; infinite for not by itself."""
        if self.state is LifeState.UNREACHABLE:
            return max(0.0, terms.failover_after - self.silent_for(now))
        # An outage that is an hour ago makes the pause shorter.
        forgets = min((start + HOUR_SECONDS - now for start in self.outages), default=math.inf)
        if self.state is LifeState.RETURNING and self.ready_since is not None:
            return min(forgets, max(0.0, self.ready_since + self.pause(terms) - now))
        return forgets


def step(life: TargetLife, sight: Sight, terms: Terms, now: float) -> TargetLife:
    """The life after a look at the target; the same however often one looks at the same moment."""
    recent = tuple(start for start in life.outages if now - start < HOUR_SECONDS)
    life = life if recent == life.outages else replace(life, outages=recent)
    if sight is Sight.UNKNOWN:
        return life
    if sight is Sight.SILENT:
        return _silent(life, terms, now)
    if life.state is LifeState.CONNECTED:
        return life
    if life.state is not LifeState.RETURNING:
        life = replace(life, state=LifeState.RETURNING, silent_since=None, ready_since=None, inherited=False)
    if sight is Sight.ANSWERS:
        return replace(life, ready_since=None)
    since = now if life.ready_since is None else life.ready_since
    if now - since < life.pause(terms):
        return replace(life, ready_since=since)
    return replace(life, state=LifeState.CONNECTED, ready_since=None, was_lost=False)


def _silent(life: TargetLife, terms: Terms, now: float) -> TargetLife:
    if life.silent_since is None:
        # One that was returning from being lost has not made up for it yet.
        outages = life.outages if life.inherited else (*life.outages, now)
        life = replace(life, silent_since=now, ready_since=None, outages=outages)
    lost = terms.failover_after < math.inf and (life.inherited or life.silent_for(now) >= terms.failover_after)
    state = LifeState.LOST if lost else LifeState.UNREACHABLE
    return replace(life, state=state, was_lost=life.was_lost or lost)


def resumed(state: LifeState, outages: tuple[float, ...], now: float) -> TargetLife:
    """What the leader before this one knew of a target. Nothing follows from it before this one has seen it for itself.

    :param outages: when those of the last hour began, in seconds ago
    """
    recent = tuple(sorted(now - ago for ago in outages if 0 <= ago < HOUR_SECONDS))
    lost = state is LifeState.LOST
    return TargetLife(LifeState.UNREACHABLE if lost else state, outages=recent, was_lost=lost, inherited=lost)


def is_held(away: int, all_of_them: int) -> bool:
    """Whether so many targets are away at once that the fault is rather ours: all, or more than half of three or more.

    :param away: how many clusters do not answer, of `all_of_them`, this one and those not counted that a person has
        declared lost
    """
    return 0 < all_of_them <= away or (all_of_them >= 3 and 2 * away > all_of_them)
