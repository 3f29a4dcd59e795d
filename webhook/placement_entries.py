"""Entries for cluster sets, Placements, ManifestWorks, applications, and namespaces that follow a Placement. Pure.

API servers must always check who binds a set or changes the set of a cluster: these requests wait for the webhook.
Other changes of ManagedClusters do not.
"""

from dataclasses import dataclass
from typing import Literal

from agent.api import cel
from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    PLACEMENTS,
    SCHEDULING_MANIFESTS,
    Kind,
)
from agent.api.names import PREFIX, SHORT_PREFIX
from agent.api.names.ocm import EVALUATE, KEEP_DECIDED, LABEL_CLUSTER_SET, PLACEMENT, PLACEMENT_GROUP, WHEN_UNPLACED

_ANNOTATIONS = "object.metadata.annotations"


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of the ValidatingWebhookConfiguration, for created or changed objects of one kind."""

    name: str
    path: str
    kind: Kind
    condition: str
    """CEL: which objects of the kind."""
    policy: Literal["Fail", "Ignore"] = "Ignore"
    labelled: bool = False
    """Only namespaces in which pods may be elected."""


def has_one_of(*keys: str) -> str:
    """CEL: an object with at least one of these annotations."""
    return f"has({_ANNOTATIONS}) && {cel.texts(*keys)}.exists(k, k in {_ANNOTATIONS})"


def _set_of(obj: str) -> str:
    labels = f"{obj}.metadata.labels"
    there = f"has({labels}) && '{LABEL_CLUSTER_SET}' in {labels}"
    return f"({there} ? {labels}['{LABEL_CLUSTER_SET}'] : '')"


ENTRIES = (
    Entry(
        "bind-sets",
        "/validate-managedclustersetbindings",
        MANAGED_CLUSTER_SET_BINDINGS,
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec",
        "Fail",
    ),
    Entry(
        "join-sets",
        "/validate-managedclusters",
        MANAGED_CLUSTERS,
        f"(request.operation == 'CREATE' ? '' : {_set_of('oldObject')}) != {_set_of('object')}",
        "Fail",
    ),
    Entry("placements", "/validate-placements", PLACEMENTS, has_one_of(EVALUATE, KEEP_DECIDED, WHEN_UNPLACED)),
    Entry(
        "namespaces",
        "/validate-namespaces",
        NAMESPACES,
        has_one_of(*(prefix + suffix for prefix in (PREFIX, SHORT_PREFIX) for suffix in (PLACEMENT, PLACEMENT_GROUP))),
        labelled=True,
    ),
    Entry(
        "works",
        "/validate-manifestworks",
        MANIFEST_WORKS,
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec",
        "Fail",
    ),
    Entry(
        "applications",
        "/warn-applications",
        SCHEDULING_MANIFESTS,
        "request.operation == 'CREATE' || !has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec",
    ),
)
