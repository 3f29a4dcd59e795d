"""Objects that are written for an application: Placements, and its manifests with the targets of their pods. Pure."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.kinds import PLACEMENTS, SCHEDULING_MANIFESTS
from agent.api.names.moves import TARGETS
from agent.api.names.p2code import LABEL_OWNER, LABEL_PSM_UID, bundle_placement, cut
from agent.model.p2code import following
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.manifests import Identity, Manifest, at, objects

Write = dict[str, Any]
Targets = Callable[[str, str], str]
"""Returns the value of the annotation `targets` for a namespace and a ManagedCluster."""
Live = Callable[[Identity], Mapping[str, Any]]
"""Returns a live workload, empty if it does not exist or is not cached."""


def placement(bundle: Bundle, cluster_set: str, psm: Mapping[str, Any]) -> Write:
    """Return the Placement of a bundle: one cluster of the set, with the required claims."""
    metadata = psm["metadata"]
    expressions = [{"key": each.key, "operator": "In", "values": [each.value]} for each in bundle.filters]
    claims = {"matchExpressions": expressions} if expressions else {}
    owner = {
        "apiVersion": SCHEDULING_MANIFESTS.api_version,
        "kind": SCHEDULING_MANIFESTS.name,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": PLACEMENTS.api_version,
        "kind": PLACEMENTS.name,
        "metadata": {
            "name": bundle_placement(bundle.name, metadata["name"]),
            "namespace": metadata["namespace"],
            "labels": {LABEL_OWNER: cut(metadata["name"]), LABEL_PSM_UID: metadata["uid"]},
            "ownerReferences": [owner],
        },
        "spec": {
            "numberOfClusters": 1,
            "clusterSets": [cluster_set],
            "predicates": [{"requiredClusterSelector": {"claimSelector": claims}}],
        },
    }


def differs(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether a Placement differs from the wanted one; API servers may have added defaults."""
    spec, want = at(found, "spec"), wanted["spec"]
    if any(spec.get(field) != want[field] for field in ("numberOfClusters", "clusterSets")):
        return True
    asked = [_expressions(each) for each in objects(spec, "predicates")]
    return asked != [_expressions(each) for each in want["predicates"]]


def _expressions(predicate: Mapping[str, Any]) -> list[Any]:
    selector = at(predicate, "requiredClusterSelector")
    return [
        list(at(selector, "labelSelector").values()),
        dict(at(selector, "claimSelector", "matchLabels")),
        [
            (each.get("key"), each.get("operator"), each.get("values"))
            for each in objects(selector, "claimSelector", "matchExpressions")
        ],
    ]


def rendered(
    bundles: Sequence[Bundle], clusters: Mapping[str, str], target: Targets, live: Live = lambda identity: {}
) -> dict[Identity, Write]:
    """Return all objects of an application, in order; an object in several bundles is rendered once."""
    found: dict[Identity, Write] = {}
    for bundle in bundles:
        for each in bundle.manifests:
            if each.identity in found:
                continue
            written = dict(each.raw)
            if each.identity[:2] == ("", "Namespace"):
                labels = {**at(written, "metadata", "labels"), names.LABEL_ENABLED: names.ENABLED_VALUE}
                written["metadata"] = {**at(written, "metadata"), "labels": labels}
            if each.is_workload:
                follow = following.written(
                    each,
                    bundle.following.get(each.identity, following.NOTHING),
                    following.template_annotations(each, live(each.identity)),
                    at(each.template, "metadata", "annotations"),
                )
                written = _elected(each, written, target(each.namespace, clusters[bundle.name]), follow)
            found[each.identity] = written
    return found


def _elected(manifest: Manifest, written: Write, target: str, follow: Mapping[str, str]) -> Write:
    """Elect a workload's pods, and set the target on the workload itself, so that a change creates no new revision."""
    template = manifest.template_path
    elect = {names.SHORT_PREFIX + names.ELECT: "", **follow}
    written = _annotated(written, (*template, "metadata"), elect)
    return _annotated(written, ("metadata",), {names.SHORT_PREFIX + TARGETS: target})


def _annotated(raw: Mapping[str, Any], path: tuple[str, ...], annotations: Mapping[str, str]) -> Write:
    if not path:
        return {**raw, "annotations": {**at(raw, "annotations"), **annotations}}
    return {**raw, path[0]: _annotated(at(raw, path[0]), path[1:], annotations)}
