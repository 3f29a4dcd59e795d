"""Claim filters: cluster claims that a pod and its namespace require of the pod's target."""

from agent.api.names.p2code import FILTER
from agent.clusters.stores.target_choices import POD
from agent.kube.store import Object
from agent.model.claimfilter import ClaimFilter, Level, combine, level

_MARK = f'"{FILTER}'.encode()
"""Substring of every object with the annotation, so that others need not be decoded."""


def asked_by(obj: Object | None) -> Level | None:
    """Return the request in a pod's or namespace's annotation, None without one."""
    if obj is None or _MARK not in obj.raw:
        return None
    asked = level(POD if obj.namespace else f"namespace {obj.name}", obj.annotations)
    return asked if asked.wanted else None


def filter_of(by_pod: Level | None, by_namespace: Level | None) -> ClaimFilter | None:
    """Return the filter for a pod, None without a request. Equal arguments return the identical object."""
    if by_pod is None and by_namespace is None:
        return None
    return combine(tuple(each for each in (by_pod, by_namespace) if each is not None))
