"""Whether a source may rely on the fence of one of its pods. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.api.names import fencing
from agent.model import fence


@dataclass(frozen=True)
class FencedPod:
    """A proxy pod that asks for a fence, and the state of its target, which answers."""

    lease: str
    """Name of the Lease that is to fence it."""
    term: float
    """Seconds that a renewal of this Lease lasts."""
    refusal: str = ""
    """Why the target does not let the Lease be renewed; empty if it does."""
    growing: bool = False
    """Whether the Lease is to get a longer duration."""
    listed: bool = True
    """Whether the chaperons in the target are known completely."""
    annotations: Mapping[str, str] | None = None
    """Of the pod's chaperon; None if no chaperon is known."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Of the same."""
    replicas: frozenset[str] = frozenset()
    """Replicas of agents that lead in the target and are alive."""


@dataclass(frozen=True)
class MarkChaperon:
    """Write on the chaperon which Lease fences it."""

    lease: str


@dataclass(frozen=True)
class Note:
    """Write the seconds between the last renewal and the certain end of the delegate to the pod."""

    seconds: float | None
    """None: nothing may be concluded."""
    why: str = ""
    """Remedy for None; empty if that will change in a moment."""


_STOPPED = "it was stopped there"
_SILENT = "the agent there does not say that it does: see that it is alive"
_VERSION = "and of a version that knows fences, which Admiralty's do not"


def decide(pod: FencedPod) -> MarkChaperon | Note | None:
    """Return the next write for a pod that asks for a fence, None if nothing has to change."""
    if pod.refusal:
        return Note(None, f"its target does not let it: {pod.refusal}")
    if pod.annotations is None:
        # A target whose chaperons are being listed may have it.
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
        return Note(None, "the agent there has not yet said that it does for the new --fence-after")
    return Note(promise.seconds)
