"""Result of a scheduling step: when to check the pod, or the group of pods, again."""

import msgspec


class Done(msgspec.Struct, frozen=True):
    """Nothing to do before the pod or one of its chaperons changes, or somebody wakes it."""


class RequeueAfter(msgspec.Struct, frozen=True):
    """Look again after so many seconds, or when the cache of targets and pods has changed."""

    seconds: float


class WaitForChange(msgspec.Struct, frozen=True):
    """Look again when the cache has changed: as it is, no target takes the pod."""


class Queued(msgspec.Struct, frozen=True):
    """Look again when a limiter admits the pod, or when the cache has changed: it has not been tried in vain."""


Result = Done | RequeueAfter | WaitForChange | Queued

AT_ONCE = RequeueAfter(0.0)


def soonest(*results: Result) -> Result:
    """The result of several steps together: whatever has the pod looked at first."""
    seconds = [each.seconds for each in results if isinstance(each, RequeueAfter)]
    if seconds:
        return RequeueAfter(min(seconds))
    waiting = next((each for each in results if isinstance(each, WaitForChange)), None)
    return waiting or next((each for each in results if isinstance(each, Queued)), Done())


def soonest_after(*seconds: float | None) -> Result:
    """Look again after the least of these, if there is any; else when something changes."""
    due = [each for each in seconds if each is not None]
    return RequeueAfter(min(due)) if due else WaitForChange()
