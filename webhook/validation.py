"""Errors of a Target, ClusterTarget, Source or ClusterSource that its schema cannot express. Pure.

Existing objects may have older faults: an update is refused only for new ones, so that controllers can still write
finalizers and users can repair one fault at a time.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api.kinds import CLUSTER_SOURCES, CLUSTER_TARGETS, SOURCES, TARGETS, Kind
from agent.api.names import (
    GROUP,
    LABEL_CLUSTER_TARGET_NAME,
    LABEL_TARGET_NAME,
    PREFIX,
    SHORT_LIMIT,
    SHORT_PREFIX,
    WEIGHT,
)
from agent.model import podranges
from agent.model.pattern import InvalidPattern
from agent.model.quantity import InvalidQuantity, Quantity
from agent.model.source import flaw, policy_flaws
from agent.model.target_health import flaws
from agent.model.virtualnode import excluded_labels
from webhook.review import Fault, Malformed, Request

Raw = Mapping[str, Any]

DEFAULT_KEY = "config"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
"""Valid names of Secrets and namespaces."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result for an object: it is refused for `faults`; `tolerated` ones existed before."""

    faults: tuple[Fault, ...] = ()
    tolerated: tuple[Fault, ...] = ()


class SecretReference(msgspec.Struct, frozen=True):
    """Reference to the kubeconfig Secret of a target, with the defaults filled in."""

    namespace: str
    name: str
    key: str
    context: str | None


def judge(request: Request) -> Verdict:
    """The faults of the object of a request. Raises Malformed when it is none of ours."""
    if request.get("operation") not in ("CREATE", "UPDATE") or request.get("subResource"):
        return Verdict()
    obj = request.get("object")
    found = faults(obj)
    if not isinstance(obj, dict) or is_going(obj):
        return Verdict()
    had = faults(request["oldObject"]) if isinstance(request.get("oldObject"), dict) else []
    return Verdict(tuple(fault for fault in found if fault not in had), tuple(fault for fault in found if fault in had))


def is_going(obj: Raw) -> bool:
    """Return whether an object is being deleted."""
    return "deletionTimestamp" in _part(obj, "metadata")


def faults(obj: Any) -> list[Fault]:
    """Everything that is wrong with an object. Raises Malformed when it is none of ours."""
    kind = obj.get("kind") if isinstance(obj, dict) else None
    check = _CHECKS.get(str(kind))
    if check is None or not str(obj.get("apiVersion", "")).startswith(f"{GROUP}/"):
        raise Malformed(f"request.object is none of {', '.join(_CHECKS)}: the webhook's rules may name only these")
    return check(obj)


def secret_of(obj: Raw, namespace: str) -> SecretReference | None:
    """The Secret that a target names, None when it names none that can exist. `namespace` is that of a Target."""
    reference = _part(_part(obj, "spec"), "kubeconfigSecret")
    where = reference.get("namespace") if obj.get("kind") == CLUSTER_TARGETS.name else namespace
    name, key, context = (reference.get(field) for field in ("name", "key", "context"))
    if not all(isinstance(each, str) and _NAME.fullmatch(each) for each in (where, name)):
        return None
    if not all(isinstance(each, str | None) for each in (key, context)):
        return None
    return SecretReference(str(where), str(name), key or DEFAULT_KEY, context or None)


def _target(kind: Kind) -> Callable[[Raw], list[Fault]]:
    label = LABEL_TARGET_NAME if kind.namespaced else LABEL_CLUSTER_TARGET_NAME

    def check(obj: Raw) -> list[Fault]:
        spec = _part(obj, "spec")
        return [
            *_label_value(obj, label),
            *_regexp(spec.get("excludedLabelsRegexp")),
            *_limits(_part(spec, "limits")),
            *_ranges(spec.get("podCIDRs")),
            *_weight(_part(_part(obj, "metadata"), "annotations")),
            *(Fault(*found) for found in flaws(_part(_part(obj, "metadata"), "annotations"))),
        ]

    return check


def _label_value(obj: Raw, label: str) -> list[Fault]:
    name = _part(obj, "metadata").get("name")
    if not isinstance(name, str) or len(name) <= SHORT_LIMIT:
        return []
    reason = (
        f"has {len(name)} characters, and becomes the value of label {label} on the virtual node, "
        f"of which {SHORT_LIMIT} at most are allowed: choose a shorter name"
    )
    return [Fault("metadata.name", reason)]


def _regexp(pattern: Any) -> list[Fault]:
    if not isinstance(pattern, str):
        return []
    try:
        excluded_labels(pattern)
    except InvalidPattern as error:
        return [Fault("spec.excludedLabelsRegexp", f"{error}; correct it, or remove the field to exclude no labels")]
    return []


def _limits(limits: Raw) -> list[Fault]:
    faults = []
    for name, amount in limits.items():
        field = f"spec.limits[{name}]"
        if name.startswith(("requests.", "limits.", "count/")):
            reason = f"limits what pods request: name the resource itself, {name.partition('.')[2] or 'pods'}"
            faults.append(Fault(field, reason))
            continue
        try:
            negative = Quantity.of(amount).nano < 0
        except InvalidQuantity as error:
            faults.append(Fault(field, f"{error}; correct it, or remove it for no limit"))
            continue
        if negative:
            faults.append(Fault(field, f"must be 0 or more, not {amount}; remove it for no limit"))
    return faults


def _ranges(cidrs: Any) -> list[Fault]:
    found = [each for each in cidrs if isinstance(each, str)] if isinstance(cidrs, list) else []
    judged = [(f"spec.podCIDRs[{index}]", podranges.flaw(each)) for index, each in enumerate(found)]
    return [Fault(field, reason) for field, reason in judged if reason]


def _weight(annotations: Raw) -> list[Fault]:
    faults = []
    for prefix in (PREFIX, SHORT_PREFIX):
        text = annotations.get(prefix + WEIGHT)
        if text is not None and not (_INTEGER.fullmatch(str(text)) and -100 <= int(text) <= 100):
            reason = f"must be a whole number from -100 (used last) to 100 (used first), not {text!r}"
            faults.append(Fault(f"metadata.annotations[{prefix}{WEIGHT}]", reason))
    return faults


def _source(kind: Kind) -> Callable[[Raw], list[Fault]]:
    def check(obj: Raw) -> list[Fault]:
        spec = _part(obj, "spec")
        found = [each for each in (flaw(spec, namespaced=kind.namespaced), *policy_flaws(spec)) if each]
        return [Fault(*each) for each in dict.fromkeys(found)]

    return check


def _part(obj: Raw, field: str) -> Raw:
    part = obj.get(field)
    return part if isinstance(part, dict) else {}


_CHECKS: dict[str, Callable[[Raw], list[Fault]]] = {
    TARGETS.name: _target(TARGETS),
    CLUSTER_TARGETS.name: _target(CLUSTER_TARGETS),
    SOURCES.name: _source(SOURCES),
    CLUSTER_SOURCES.name: _source(CLUSTER_SOURCES),
}
