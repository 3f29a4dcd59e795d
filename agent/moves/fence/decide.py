"""Decides whether a source may rely on the fence of one of its pods. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.api.names import fencing
from agent.model import fence


@dataclass(frozen=True)
class FencedPod:
    """A proxy pod that requests a fence, and the state of its responsive target."""

    lease: str
    """Name of the Lease that has to fence it."""
    term: float
    """Seconds that a renewal of this Lease lasts."""
    refusal: str = ""
    """Error of the target when the Lease was renewed; empty if it was not refused."""
    growing: bool = False
    """Whether the duration of the Lease is about to increase."""
    listed: bool = True
    """Whether all chaperons in the target have been listed."""
    annotations: Mapping[str, str] | None = None
    """Annotations of the pod's chaperon; None if it has not been observed."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Spec of the pod's chaperon."""
    replicas: frozenset[str] = frozenset()
    """Live replicas of leading agents in the target."""


@dataclass(frozen=True)
class MarkChaperon:
    """Write on the chaperon which Lease fences it."""

    lease: str


@dataclass(frozen=True)
class Note:
    """Write the seconds between the last renewal and the certain end of the delegate to the pod."""

    seconds: float | None
    """None if the source must not rely on the fence."""
    why: str = ""
    """Remedy for None; empty if that will change in a moment."""


_STOPPED = "it was stopped there"
_SILENT = "the agent there does not say that it does: see that it is alive"
_VERSION = "and of a version that knows fences, which Admiralty's do not"


def decide(pod: FencedPod) -> MarkChaperon | Note | None:
    """Return the next write for a pod that requests a fence; None if no change is needed."""
    if pod.refusal:
        return Note(None, f"its target does not let it: {pod.refusal}")
    if pod.annotations is None:
        # The target may have the chaperon if its list is not complete.
        return Note(None) if pod.listed else None
    if pod.annotations.get(fencing.ANNOTATION_LEASE) != pod.lease:
        return MarkChaperon(pod.lease)
    if pod.growing:
        return Note(None)
    promise = fence.promised(pod.annotations.get(fencing.ANNOTATION_KEPT_BY))
    if fencing.ANNOTATION_FENCED in pod.annotations:
        return Note(None, f"{_STOPPED}, {_VERSION}")
    if promise is None or promise.replica not in pod.replicas:
        return Note(None, f"{_SILENT}, {_VERSION}")
    if not fence.covers(promise, pod.term, pod.spec):
        return Note(None, "the agent there has not yet said that it does for the new fence-after")
    return Note(promise.seconds)
