"""Claim filters: cluster claims that a pod and its namespace require of the pod's target."""

from agent.api.names.p2code import FILTER
from agent.clusters.targetchoices import POD
from agent.kube.store import Object
from agent.model.claimfilter import ClaimFilter, Level, combine, level

_MARK = f'"{FILTER}'.encode()
"""In no object that says nothing of it, so that those are not decoded for it."""


def asked_by(obj: Object | None) -> Level | None:
    """What a pod or a namespace asks for by annotation, None where that is nothing."""
    if obj is None or _MARK not in obj.raw:
        return None
    asked = level(POD if obj.namespace else f"namespace {obj.name}", obj.annotations)
    return asked if asked.wanted else None


def filter_of(by_pod: Level | None, by_namespace: Level | None) -> ClaimFilter | None:
    """What counts for a pod, None where neither asks for anything. The same object is the same answer."""
    if by_pod is None and by_namespace is None:
        return None
    return combine(tuple(each for each in (by_pod, by_namespace) if each is not None))
