"""ManifestWorks: bundles for the work agents of their clusters, and the status that these report. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agent.api.conditions import find_condition, is_true
from agent.api.kinds import MANIFEST_WORKS
from agent.api.names.p2code import bundle_placement
from agent.model.applied import title
from agent.model.p2code.bundles import Bundle, Mode
from agent.model.p2code.manifests import Identity, Manifest, at, objects, text

Raw = Mapping[str, Any]
Write = dict[str, Any]

APPLIED, AVAILABLE = "Applied", "Available"
_CONDITION = '.status.conditions[?(@.type=="{}")].status'
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "Deployment": ("readyReplicas",),
    "StatefulSet": ("readyReplicas",),
    "ReplicaSet": ("readyReplicas",),
    "DaemonSet": ("desiredNumberScheduled", "numberReady"),
    "Job": ("ready", "succeeded"),
    "Pod": ("phase",),
}
"""Fields in the status of each kind of workload with the number of ready pods."""
_CONDITIONS = {"Job": "Complete", "Pod": "Ready"}
"""Conditions of workloads that report readiness."""
_OFTEN = frozenset(("Deployment", "ReplicaSet", "DaemonSet"))
"""Kinds of workloads that may run in two clusters for a while without harm."""


class Report(NamedTuple):
    """Status of a ManifestWork, as reported by the work agent."""

    current: bool
    """Whether it is about the present ManifestWork."""
    failures: tuple[str, ...]
    """Sentences about objects that do not exist, or differ from their manifests."""
    statuses: Mapping[Identity, Raw]
    """Statuses of workloads, with the requested fields."""


def work_name(bundle: Bundle, cluster: str, psm: str, mode: Mode) -> str:
    """Return the name of a bundle's ManifestWork."""
    return bundle_placement(cluster if mode == "cluster" else bundle.name, psm)


def manifest_work(bundle: Bundle, cluster: str, name: str) -> Write:
    """Return the ManifestWork of a bundle; it requests the number of ready pods of its workloads."""
    configs = [each for each in map(_config, bundle.manifests) if each]
    manifests = [dict(each.raw) for each in bundle.manifests]
    return {
        "apiVersion": MANIFEST_WORKS.api_version,
        "kind": MANIFEST_WORKS.name,
        "metadata": {"name": name, "namespace": cluster},
        "spec": {"workload": {"manifests": manifests}, **({"manifestConfigs": configs} if configs else {})},
    }


def _config(manifest: Manifest) -> Write:
    identity = manifest.identity
    named = {"group": identity.group, "resource": f"{identity.kind.lower()}s"}
    found = {"resourceIdentifier": {**named, "namespace": identity.namespace, "name": identity.name}}
    if identity[:2] == ("", "PersistentVolumeClaim"):
        # The cluster adds fields to its spec, and API servers reject an update without them.
        return {**found, "updateStrategy": {"type": "ServerSideApply"}}
    if manifest.is_workload and identity.kind in _FIELDS:
        paths = [{"name": field, "path": f".status.{field}"} for field in _FIELDS[identity.kind]]
        if condition := _CONDITIONS.get(identity.kind):
            paths.append({"name": condition, "path": _CONDITION.format(condition)})
        return {**found, "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]}
    return {}


def report(work: Raw) -> Report:
    """Return the report in a ManifestWork's status."""
    metadata, status = work["metadata"], at(work, "status")
    applied = find_condition(status.get("conditions"), APPLIED) or {}
    generation = metadata.get("generation")
    told = objects(status, "resourceStatus", "manifests")
    # Without manifests in the status nothing is known: the agent has not processed them, or could not begin.
    is_refused = applied.get("status") == "False"
    current = bool(applied) and applied.get("observedGeneration", generation) == generation
    failures = tuple(each for one in told for each in _failures(one, metadata["namespace"]))
    if is_refused and not failures:
        failures = (f"ManifestWork {metadata['namespace']}/{metadata['name']}: {applied.get('message', '')}",)
    statuses = {_identity(at(each, "resourceMeta")): _status(each) for each in told if is_there(each)}
    return Report(current and (bool(told) or is_refused), failures, statuses)


def is_there(told: Raw) -> bool:
    """Return whether an object of the ManifestWork exists, by its reported conditions."""
    return is_true(told.get("conditions"), AVAILABLE)


def _failures(told: Raw, cluster: str) -> Iterator[str]:
    for type in (APPLIED, AVAILABLE):
        found = find_condition(told.get("conditions"), type) or {}
        if found.get("status") == "False":
            identity = _identity(at(told, "resourceMeta"))
            yield f"{title(*identity[1:])} in {cluster}: {found.get('message', '')}"
            return


def _identity(meta: Raw) -> Identity:
    return Identity(*(text(meta, field) for field in ("group", "kind", "namespace", "name")))


def _status(told: Raw) -> Raw:
    """Rebuild an object's status from its ManifestWork feedback values."""
    status: dict[str, Any] = {}
    conditions = []
    for each in objects(told, "statusFeedback", "values"):
        name, value = text(each, "name"), at(each, "fieldValue")
        found = value.get("integer", value.get("string"))
        if name in _CONDITIONS.values():
            conditions.append({"type": name, "status": found})
        else:
            status[name] = found
    return {**status, "conditions": conditions} if conditions else status


def workloads(bundle: Bundle) -> frozenset[Identity]:
    """Return the workloads of a bundle."""
    return frozenset(each.identity for each in bundle.manifests if each.is_workload)


def once(bundle: Bundle) -> frozenset[Identity]:
    """Return workloads of a bundle that must never run in two clusters at once; with a claim, all of them."""
    found = workloads(bundle)
    with_claim = any(each.kind == "PersistentVolumeClaim" for each in bundle.manifests)
    return found if with_claim else frozenset(each for each in found if each.kind not in _OFTEN)


def holds(work: Raw) -> frozenset[Identity]:
    """Return the objects in a ManifestWork."""
    found = set()
    for each in objects(work, "spec", "workload", "manifests"):
        group = text(each, "apiVersion").rpartition("/")[0]
        found.add(
            Identity(group, text(each, "kind"), text(each, "metadata", "namespace"), text(each, "metadata", "name"))
        )
    return frozenset(found)
