"""ManifestWorks: a bundle as the work agent of its cluster takes it, and what that agent tells of it. Pure."""

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
"""Fields of the status of each kind of workload that say how many of its pods are ready."""
_CONDITIONS = {"Job": "Complete", "Pod": "Ready"}
"""The condition that says the same."""
_OFTEN = frozenset(("Deployment", "ReplicaSet", "DaemonSet"))
"""Workloads of which two at a time, for a while, do no harm."""


class Report(NamedTuple):
    """What a work agent tells of a ManifestWork."""

    current: bool
    """Whether it is about the ManifestWork as it is."""
    failures: tuple[str, ...]
    """What is not there, or not as its manifest has it: sentences."""
    statuses: Mapping[Identity, Raw]
    """Of workloads, as far as they were asked for."""


def work_name(bundle: Bundle, cluster: str, psm: str, mode: Mode) -> str:
    """Name of the ManifestWork of a bundle."""
    return bundle_placement(cluster if mode == "cluster" else bundle.name, psm)


def manifest_work(bundle: Bundle, cluster: str, name: str) -> Write:
    """The ManifestWork of a bundle; of its workloads the agent is asked to tell how many pods are ready."""
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
        # Its spec is filled in there, and an update that does not have all of that is refused.
        return {**found, "updateStrategy": {"type": "ServerSideApply"}}
    if manifest.is_workload and identity.kind in _FIELDS:
        paths = [{"name": field, "path": f".status.{field}"} for field in _FIELDS[identity.kind]]
        if condition := _CONDITIONS.get(identity.kind):
            paths.append({"name": condition, "path": _CONDITION.format(condition)})
        return {**found, "feedbackRules": [{"type": "JSONPaths", "jsonPaths": paths}]}
    return {}


def report(work: Raw) -> Report:
    """What is told of one that is there."""
    metadata, status = work["metadata"], at(work, "status")
    applied = find_condition(status.get("conditions"), APPLIED) or {}
    generation = metadata.get("generation")
    told = objects(status, "resourceStatus", "manifests")
    # Without what it is about, nothing is known: the agent has not come so far, or could not begin.
    is_refused = applied.get("status") == "False"
    current = bool(applied) and applied.get("observedGeneration", generation) == generation
    failures = tuple(each for one in told for each in _failures(one, metadata["namespace"]))
    if is_refused and not failures:
        failures = (f"ManifestWork {metadata['namespace']}/{metadata['name']}: {applied.get('message', '')}",)
    statuses = {_identity(at(each, "resourceMeta")): _status(each) for each in told if is_there(each)}
    return Report(current and (bool(told) or is_refused), failures, statuses)


def is_there(told: Raw) -> bool:
    """Whether one of its manifests is there, by what is told of it."""
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
    """The status that the values of its feedback are of."""
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
    """Those of a bundle."""
    return frozenset(each.identity for each in bundle.manifests if each.is_workload)


def once(bundle: Bundle) -> frozenset[Identity]:
    """Workloads of a bundle that must not run in two clusters, not even for a while; with a claim, all of them."""
    found = workloads(bundle)
    with_claim = any(each.kind == "PersistentVolumeClaim" for each in bundle.manifests)
    return found if with_claim else frozenset(each for each in found if each.kind not in _OFTEN)


def holds(work: Raw) -> frozenset[Identity]:
    """What is in a ManifestWork."""
    found = set()
    for each in objects(work, "spec", "workload", "manifests"):
        group = text(each, "apiVersion").rpartition("/")[0]
        found.add(
            Identity(group, text(each, "kind"), text(each, "metadata", "namespace"), text(each, "metadata", "name"))
        )
    return frozenset(found)
