"""Answers about Placements: rights to bind cluster sets and to change their clusters, and invalid annotations.

If Open Cluster Management's own webhook runs, API servers ask it about sets; else this one applies its rules. Binding a
set takes the right to create managedclustersets/bind. Changing the set of a cluster takes the right to create
managedclustersets/join, for both the old and the new set.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTER_SETS, MANAGED_CLUSTERS, NAMESPACES, PLACEMENTS
from agent.api.names.ocm import (
    EVALUATE,
    KEEP_DECIDED,
    LABEL_CLUSTER_SET,
    OCM_GROUP,
    PLACEMENT,
    PLACEMENT_GROUP,
    STAY,
    WHEN_UNPLACED,
    WHEN_UNPLACED_CHOICES,
)
from agent.kube.client import Client
from agent.model import placementref
from webhook.review import Answer, Fault, Outcome, Request, allowed, forbidden, object_of, old_of, refused, user_of
from webhook.user_rights import Unreviewed, has_right

_CHOICES = {
    EVALUATE: ("true", "false"),
    KEEP_DECIDED: ("true", "false"),
    WHEN_UNPLACED: WHEN_UNPLACED_CHOICES,
}


def of_namespace(request: Request) -> Answer:
    """Check the annotations with which the pods of a namespace follow a Placement. Raises Malformed."""
    after = object_of(request, NAMESPACES.name)
    annotations = _annotations(after)
    warnings = []
    if names.annotation(annotations, PLACEMENT_GROUP) and not names.annotation(annotations, PLACEMENT):
        warnings.append(
            f"annotation {PLACEMENT_GROUP} counts for pods that name a Placement themselves: the namespace names none"
        )
    before = placementref.flaws(_annotations(old_of(request)))
    return _judged(request, placementref.flaws(annotations), before, warnings)


def of_placement(request: Request) -> Answer:
    """Check Flotilla's annotations of a Placement. Raises Malformed."""
    annotations = _annotations(object_of(request, PLACEMENTS.name))
    return _judged(request, _flaws(annotations), _flaws(_annotations(old_of(request))), [])


class SetGuard:
    """Checks with `client` whether users have the rights for their changes to cluster sets."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def of_binding(self, request: Request) -> Answer:
        """Check a created or changed ManagedClusterSetBinding. Raises Malformed."""
        binding = object_of(request, MANAGED_CLUSTER_SET_BINDINGS.name)
        name = str((binding.get("metadata") or {}).get("name") or "")
        bound = str((binding.get("spec") or {}).get("clusterSet") or "")
        if bound != name:
            reason = (
                f"must be the name of the binding, {name!r}, not {bound!r}: the ManagedClusterSetBinding must have the"
                " same name as the target ManagedClusterSet"
            )
            return refused(request, [Fault("spec.clusterSet", reason)])
        if request.get("operation") != "CREATE":
            return allowed(request, Outcome.VALID)
        words = f"is not allowed to bind cluster set {bound!r}"
        return await self._asked(request, "bind", {bound: words})

    async def of_cluster(self, request: Request) -> Answer:
        """Check a ManagedCluster that joins or leaves a set. Raises Malformed."""
        after, before = _set_of(object_of(request, MANAGED_CLUSTERS.name)), _set_of(old_of(request))
        if after == before:
            return allowed(request, Outcome.VALID)
        words = "cannot add/remove a ManagedCluster to/from ManagedClusterSet"
        return await self._asked(request, "join", {each: f"{words} {each!r}" for each in (before, after) if each})

    async def _asked(self, request: Request, sub: str, sets: Mapping[str, str]) -> Answer:
        user = user_of(request)
        for name, words in sets.items():
            resource = f"{MANAGED_CLUSTER_SETS.plural}/{sub}"
            right = f"the right to create {resource} of API group {OCM_GROUP}, name {name}"
            try:
                may = await has_right(self._client, user, _attributes(name, sub))
            except Unreviewed as error:
                return forbidden(request, f"it is not known whether user {user['user']!r} has {right}: {error}")
            if not may:
                return forbidden(request, f"user {user['user']!r} {words}: it takes {right}")
        return allowed(request, Outcome.VALID)


def _attributes(name: str, sub: str) -> dict[str, str]:
    kind = MANAGED_CLUSTER_SETS
    return {
        "verb": "create",
        "group": kind.group,
        "version": kind.version,
        "resource": kind.plural,
        "subresource": sub,
        "name": name,
    }


def _judged(
    request: Request, found: Iterator[tuple[str, str]], before: Iterator[tuple[str, str]], warnings: list[str]
) -> Answer:
    """Answer with faults; earlier faults are only a warning, so that users can repair one at a time."""
    had = set(before)
    faults = [Fault(*each) for each in found]
    new = [fault for fault in faults if (fault.field, fault.reason) not in had]
    if new:
        return refused(request, new)
    return allowed(request, Outcome.VALID, [*(f"{fault.field}: {fault.reason}" for fault in faults), *warnings])


def _flaws(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, choices in _CHOICES.items():
        value = annotations.get(key)
        if value is not None and value not in choices:
            reason = f"must be {' or '.join(choices)}, not {value!r}; remove it for {_DEFAULTS[key]}"
            yield f"metadata.annotations[{key}]", reason


_DEFAULTS = {EVALUATE: "false", KEEP_DECIDED: "false", WHEN_UNPLACED: STAY}


def _annotations(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return (obj.get("metadata") or {}).get("annotations") or {}


def _set_of(obj: Mapping[str, Any]) -> str:
    return str(((obj.get("metadata") or {}).get("labels") or {}).get(LABEL_CLUSTER_SET) or "")
