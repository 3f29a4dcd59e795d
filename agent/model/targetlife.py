"""State machine of a target's availability: connected, unreachable, lost, returning. Pure.

- Connected: no failure is known
- Unreachable: it does not answer; its pods stay
- Lost: it has not answered for `failover-after`; its pods are replaced in other clusters
- Returning: it answers again; no further pods are replaced, and it receives no new pods for a while

Times are seconds of the present leader's monotonic clock: clocks of other machines do not matter.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import msgspec

HOUR_SECONDS = 3600.0
LONGEST_PAUSE_SECONDS = 900.0
"""Longest time in seconds for which an unstable target may not receive new pods."""
_MOST_DOUBLINGS = 32


class Sight(StrEnum):
    """Result of one observation of a target."""

    UNKNOWN = "unknown"
    """No connection exists yet, or its kubeconfig is invalid, so that the target's state is unknown."""
    SILENT = "silent"
    """No answer, or only server errors."""
    ANSWERS = "answers"
    """The target answers, but its cached objects are not reliable yet, or it denies access."""
    READY = "ready"


class LifeState(StrEnum):
    """State of a target."""

    CONNECTED = "Connected"
    UNREACHABLE = "Unreachable"
    LOST = "Lost"
    RETURNING = "Returning"


class Terms(msgspec.Struct, frozen=True):
    """Failover settings of a target, in seconds."""

    failover_after: float = 300.0
    """Infinite for never."""
    stable_after: float = 60.0
    """Seconds that a lost target has to be ready before it receives new pods; doubled with each further outage."""


@dataclass(frozen=True)
class TargetLife:
    """Observed state of a target; initially connected, since no failure is known."""

    state: LifeState = LifeState.CONNECTED
    silent_since: float | None = None
    """Time since when it has not answered; None while it answers."""
    ready_since: float | None = None
    """While it returns: time since when it is ready, None until then."""
    outages: tuple[float, ...] = ()
    """Start times of the outages in the last hour."""
    was_lost: bool = False
    """Whether it was lost in the last outage."""
    inherited: bool = False
    """Whether an earlier leader had found it lost: one observation without an answer makes it lost again."""

    @property
    def answers(self) -> bool:
        """Whether it answers, as far as is known."""
        return self.state in (LifeState.CONNECTED, LifeState.RETURNING)

    def silent_for(self, now: float) -> float:
        """Return seconds for which it has not answered, 0 while it does."""
        return 0.0 if self.silent_since is None else max(0.0, now - self.silent_since)

    def heard(self, moment: float) -> "TargetLife":
        """Return the state after a watch event at a moment: a silent target was still available until then."""
        if self.silent_since is None or moment <= self.silent_since:
            return self
        return replace(self, silent_since=moment, inherited=False)

    def spared(self, since: float, now: float) -> "TargetLife":
        """Return the state without the seconds since a moment: failover was held, so they do not count as silence."""
        if self.silent_since is None:
            return self
        return replace(self, silent_since=self.silent_since + now - max(since, self.silent_since))

    def pause(self, terms: Terms) -> float:
        """Return seconds for which it has to be ready before it receives new pods; 0 after a first short outage."""
        count = len(self.outages)
        if count <= 1 and not self.was_lost:
            return 0.0
        return min(LONGEST_PAUSE_SECONDS, terms.stable_after * 2.0 ** (min(max(count, 1), _MOST_DOUBLINGS) - 1))

    def due(self, terms: Terms, now: float) -> float:
        """Return seconds until the next check without an event; infinite if none is due."""
        if self.state is LifeState.UNREACHABLE:
            return max(0.0, terms.failover_after - self.silent_for(now))
        # The pause gets shorter when an outage is more than an hour old.
        forgets = min((start + HOUR_SECONDS - now for start in self.outages), default=math.inf)
        if self.state is LifeState.RETURNING and self.ready_since is not None:
            return min(forgets, max(0.0, self.ready_since + self.pause(terms) - now))
        return forgets


def step(life: TargetLife, sight: Sight, terms: Terms, now: float) -> TargetLife:
    """Return the state after an observation of the target. Repetitions at the same moment change nothing."""
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
        # `was_lost` stays True: a target that is silent again while returning has not recovered.
        outages = life.outages if life.inherited else (*life.outages, now)
        life = replace(life, silent_since=now, ready_since=None, outages=outages)
    lost = terms.failover_after < math.inf and (life.inherited or life.silent_for(now) >= terms.failover_after)
    state = LifeState.LOST if lost else LifeState.UNREACHABLE
    return replace(life, state=state, was_lost=life.was_lost or lost)


def resumed(state: LifeState, outages: tuple[float, ...], now: float) -> TargetLife:
    """Return the state that an earlier leader recorded; the present one acts on it after its own observation.

    :param outages: start times of the outages in the last hour, in seconds ago
    """
    recent = tuple(sorted(now - ago for ago in outages if 0 <= ago < HOUR_SECONDS))
    lost = state is LifeState.LOST
    return TargetLife(LifeState.UNREACHABLE if lost else state, outages=recent, was_lost=lost, inherited=lost)


def is_held(away: int, all_of_them: int) -> bool:
    """Return whether the fault is probably the source's: all targets are unavailable, or most of at least three.

    :param away: number of clusters that do not answer, among `all_of_them`; neither count includes the local
        cluster and targets that a user has declared lost
    """
    return 0 < all_of_them <= away or (all_of_them >= 3 and 2 * away > all_of_them)
