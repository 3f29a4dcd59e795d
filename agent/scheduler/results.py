"""Result of a scheduling step: when to check the pod, or the group of pods, again."""

import msgspec


class Done(msgspec.Struct, frozen=True):
    """Requeue when the pod or one of its chaperons changes, or when it is woken."""


class RequeueAfter(msgspec.Struct, frozen=True):
    """Requeue after so many seconds, or when the cache of targets and pods has changed."""

    seconds: float


class WaitForChange(msgspec.Struct, frozen=True):
    """Requeue when the cache has changed: no target takes the pod now."""


class Queued(msgspec.Struct, frozen=True):
    """Requeue when a limiter admits the pod, or when the cache has changed. It does not count as an unsuccessful
    attempt.
    """


Result = Done | RequeueAfter | WaitForChange | Queued

AT_ONCE = RequeueAfter(0.0)


def soonest(*results: Result) -> Result:
    """Return the combined result of several steps: the one that requeues first."""
    seconds = [each.seconds for each in results if isinstance(each, RequeueAfter)]
    if seconds:
        return RequeueAfter(min(seconds))
    waiting = next((each for each in results if isinstance(each, WaitForChange)), None)
    return waiting or next((each for each in results if isinstance(each, Queued)), Done())


def soonest_after(*seconds: float | None) -> Result:
    """Requeue after the least of these; if all are None, when something changes."""
    due = [each for each in seconds if each is not None]
    return RequeueAfter(min(due)) if due else WaitForChange()
