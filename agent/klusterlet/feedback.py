"""Values of an object's status that a ManifestWork asks for, and the progress of workloads. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from agent.api.conditions import find_condition, is_true
from agent.model.jsonpath import InvalidPath, find

Raw = Mapping[str, Any]

LONGEST_JSON = 1024
"""Maximum number of bytes of a value that is a list or map."""
_VALUES = 200
"""Maximum number of values of one object; the CRD has no limit."""
_BYTES = 65_536
"""Maximum number of bytes of all values of one object."""
_INT64 = 2**63

_CONDITION = '.status.conditions[?(@.type=="{}")].status'
_REPLICAS = {
    "ReadyReplicas": ".status.readyReplicas",
    "Replicas": ".status.replicas",
    "AvailableReplicas": ".status.availableReplicas",
}
_WELL_KNOWN: Mapping[tuple[str, str], Mapping[str, str]] = {
    ("apps/v1", "Deployment"): _REPLICAS,
    ("apps/v1", "DaemonSet"): {
        "NumberReady": ".status.numberReady",
        "DesiredNumberScheduled": ".status.desiredNumberScheduled",
        "NumberAvailable": ".status.numberAvailable",
    },
    ("apps/v1", "StatefulSet"): _REPLICAS,
    ("apps/v1", "ReplicaSet"): _REPLICAS,
    ("batch/v1", "Job"): {"JobComplete": _CONDITION.format("Complete"), "JobSucceeded": ".status.succeeded"},
    ("v1", "Pod"): {"PodReady": _CONDITION.format("Ready"), "PodPhase": ".status.phase"},
    ("v1", "PersistentVolumeClaim"): {"ClaimPhase": ".status.phase"},
    ("v1", "Service"): {"LoadBalancer": ".status.loadBalancer.ingress"},
}
"""Paths of values by apiVersion and kind. Open Cluster Management knows Deployment, DaemonSet, Job and Pod only."""


class Feedback(NamedTuple):
    """Values of one object, and the errors of rules that gave none."""

    values: list[dict[str, Any]]
    errors: list[str]


def feedback(obj: Raw, rules: Iterable[Raw]) -> Feedback:
    """Return the values that rules select from an object; errors of other rules discard none."""
    values: list[dict[str, Any]] = []
    errors: list[str] = []
    size = 0
    for name, path in _paths(obj, rules, errors):
        try:
            value = _value(name, path, obj)
        except ValueError as error:
            errors.append(str(error))
            continue
        if value is None:
            continue
        size += len(json.dumps(value, ensure_ascii=False).encode())
        if len(values) == _VALUES or size > _BYTES:
            errors.append(f"only the first {len(values)} values are reported: the limit is {_VALUES} or {_BYTES} bytes")
            break
        values.append({"name": name, "fieldValue": value})
    return Feedback(values, errors)


def _paths(obj: Raw, rules: Iterable[Raw], errors: list[str]) -> Iterable[tuple[str, str]]:
    api_version, kind = str(obj.get("apiVersion")), str(obj.get("kind"))
    group, _, version = api_version.rpartition("/")
    for rule in rules:
        if rule.get("type") == "WellKnownStatus":
            known = _WELL_KNOWN.get((api_version, kind))
            if known is None:
                gvk = f"{group}/{version}, Kind={kind}"
                errors.append(f"cannot find the wellknown statuses for resource with gvk {gvk}")
            yield from (known or {}).items()
        else:
            for path in rule.get("jsonPaths") or ():
                if path.get("version") and path["version"] != version:
                    errors.append(f"version set in the path {path['name']} is not matched for the related resource")
                else:
                    yield path["name"], path["path"]


def _value(name: str, path: str, obj: Raw) -> Raw | None:
    """Return a field value. Raises ValueError with the reason if there is none."""
    try:
        found = find(path, obj)
    except InvalidPath as error:
        raise ValueError(f"failed to parse json path {path} of {name} with error: {error}") from error
    if not found or (len(found) == 1 and found[0] is None):
        return None
    value = found[0] if len(found) == 1 else found
    if isinstance(value, bool):
        return {"type": "Boolean", "boolean": value}
    if isinstance(value, int) and -_INT64 <= value < _INT64:
        return {"type": "Integer", "integer": value}
    if isinstance(value, str):
        return {"type": "String", "string": value}
    raw = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    if len(raw.encode()) > LONGEST_JSON:
        raise ValueError(
            f"the length of returned json raw string for name {name} is larger than the maximum length {LONGEST_JSON}"
        )
    return {"type": "JsonRaw", "jsonRaw": raw}


class Progress(NamedTuple):
    """Whether a workload is still rolling out, whether it has failed to, and why."""

    progressing: bool
    degraded: bool
    message: str


def progress(obj: Raw) -> Progress | None:
    """Return the progress of a workload; None for a kind without one."""
    of = _PROGRESS.get((str(obj.get("apiVersion")), str(obj.get("kind"))))
    return of(obj) if of is not None else None


def _replicated(obj: Raw) -> Progress:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    wanted = spec.get("replicas", 1)
    updated = _number(status, "replicas" if obj["kind"] == "ReplicaSet" else "updatedReplicas")
    available, all_of_them = _number(status, "availableReplicas"), _number(status, "replicas")
    failed = _failure(status.get("conditions"))
    unfinished = _is_unseen(obj) or updated < wanted or all_of_them > updated or available < wanted
    return Progress(
        unfinished, bool(failed), failed or f"{updated} of {wanted} replicas updated, {available} available"
    )


def _failure(conditions: Sequence[Raw] | None) -> str:
    progressing = find_condition(conditions, "Progressing") or {}
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return str(progressing.get("message") or "ProgressDeadlineExceeded")
    failure = find_condition(conditions, "ReplicaFailure") or {}
    return str(failure.get("message") or "ReplicaFailure") if failure.get("status") == "True" else ""


def _daemons(obj: Raw) -> Progress:
    status = obj.get("status") or {}
    wanted, updated = _number(status, "desiredNumberScheduled"), _number(status, "updatedNumberScheduled")
    available = _number(status, "numberAvailable")
    unfinished = _is_unseen(obj) or updated < wanted or available < wanted
    return Progress(unfinished, False, f"{updated} of {wanted} pods updated, {available} available")


def _job(obj: Raw) -> Progress:
    conditions = (obj.get("status") or {}).get("conditions")
    failed = find_condition(conditions, "Failed") or {}
    if failed.get("status") == "True":
        return Progress(progressing=True, degraded=True, message=str(failed.get("message") or "the Job has failed"))
    complete = is_true(conditions, "Complete")
    return Progress(not complete, degraded=False, message="Job is finished" if complete else "Job is not finished")


def _number(status: Raw, field: str) -> int:
    return int(status.get(field) or 0)


def _is_unseen(obj: Raw) -> bool:
    """Return whether the workload's controller has not seen the present generation yet."""
    return int((obj.get("status") or {}).get("observedGeneration") or 0) < int(obj["metadata"].get("generation") or 0)


_PROGRESS = {
    ("apps/v1", "Deployment"): _replicated,
    ("apps/v1", "StatefulSet"): _replicated,
    ("apps/v1", "ReplicaSet"): _replicated,
    ("apps/v1", "DaemonSet"): _daemons,
    ("batch/v1", "Job"): _job,
}
