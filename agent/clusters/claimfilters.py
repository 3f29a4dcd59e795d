"""Claim filters: which claims of its target's cluster a pod asks for, as it and its namespace say."""

from agent.api.names.p2code import FILTER
from agent.clusters.targetchoices import POD
from agent.kube.store import Object
from agent.model.claimfilter import ClaimFilter, Level, combine, level

_MARK = f'"{FILTER}'.encode()
"""In no object that says nothing of it, so that those are not decoded for it."""


def asked_by(where: str, obj: Object | None) -> Level | None:
    """What an object asks for by annotation, None where that is nothing."""
    if obj is None or _MARK not in obj.raw:
        return None
    asked = level(where, obj.annotations)
    return asked if asked.wanted else None


def filter_of(pod: Object, namespace: Object | None) -> ClaimFilter | None:
    """What a pod asks for, None where nobody asks for anything. The same object is the same answer."""
    by_pod, by_namespace = asked_by(POD, pod), asked_by(f"namespace {pod.namespace}", namespace)
    if by_pod is None and by_namespace is None:
        return None
    return combine(tuple(each for each in (by_pod, by_namespace) if each is not None))
