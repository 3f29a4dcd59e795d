"""Merge of the ServiceExports of several clusters, by the rules of the Multi-Cluster Services API (KEP-1645).

The oldest export takes precedence; ports are united. Conflicts between clusters are reported on every export of
a Service.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from agent.api.names.mcs import LABEL_DERIVED, is_derived
from agent.model.diff import equivalent
from agent.model.service import is_copy, is_headless, users_selector

Raw = dict[str, Any]

CLUSTER_SET_IP, HEADLESS = "ClusterSetIP", "Headless"
_CLIENT_IP = "ClientIP"
_PORT_FIELDS = ("name", "protocol", "appProtocol", "port")


class Export(msgspec.Struct, frozen=True):
    """A ServiceExport in one cluster, with its Service."""

    cluster: str
    manifest: Mapping[str, Any]
    service: Mapping[str, Any] | None

    @property
    def age(self) -> tuple[str, str]:
        """Sort key of exports, the oldest first. The cluster's name orders exports of the same second."""
        return (str(self.manifest["metadata"].get("creationTimestamp") or ""), self.cluster)


class Merged(msgspec.Struct, frozen=True):
    """One Service, merged from all its exports."""

    type: str
    ports: list[Raw]
    spec: Raw
    """Fields that ServiceImports and Services share: session affinity, traffic policy and distribution."""
    families: tuple[str, ...]
    labels: dict[str, str]
    annotations: dict[str, str]
    clusters: tuple[str, ...]
    """Clusters that export it, the oldest export first."""
    reasons: tuple[str, ...]
    """Conflicts, as reasons of the condition Conflict; empty if exports agree."""
    conflicts: str
    """Description of the conflicts for users."""


def flaw(export: Export) -> tuple[str, str] | None:
    """Return reason and message why an export is not Valid; None if it is."""
    name = export.manifest["metadata"]["name"]
    if export.service is None:
        return "NoService", f"there is no Service {name} in this namespace: create it, or delete the ServiceExport"
    metadata = export.service["metadata"]
    is_ours = LABEL_DERIVED in (metadata.get("labels") or {}) or is_copy(metadata.get("annotations"))
    if is_ours and is_derived(name):
        return "InvalidServiceType", f"Service {name} has the endpoints of what others export: export that one"
    if export.service["spec"].get("type") == "ExternalName":
        return "InvalidServiceType", f"Service {name} is of type ExternalName, which has no endpoints to be exported"
    return None


def failure(export: Export) -> str:
    """Return the reason why Flotilla cannot serve a valid export, empty if it can."""
    assert export.service is not None
    name = export.service["metadata"]["name"]
    try:
        found = selector(export.service)
    except ValueError as error:
        return f"Service {name}: {error}"
    if not found:
        return f"Service {name} has no selector: endpoints that are written by hand are not exported; give it one"
    return "" if export.service["spec"].get("ports") else f"Service {name} has no ports: give it one"


def selector(service: Mapping[str, Any]) -> dict[str, str]:
    """Return the selector of an exported Service's pods in its cluster; these include proxy pods, which have
    their delegates' addresses.

    :raises ValueError: if the selector cannot be determined
    """
    if is_copy(service["metadata"].get("annotations")):
        return service["spec"].get("selector") or {}
    return users_selector(service)


def is_served(export: Export) -> bool:
    """Return whether an export is valid and Flotilla can serve it."""
    return flaw(export) is None and not failure(export)


def merge(exports: Iterable[Export]) -> Merged | None:
    """Merge exports; return None if none can be served."""
    valid = sorted(filter(is_served, exports), key=lambda each: each.age)
    if not valid:
        return None
    oldest = valid[0]
    service, spec = _service(oldest), oldest.manifest.get("spec") or {}
    found = [(reason, words) for reason, of in _COMPARED.items() if (words := _differences(valid, of))]
    return Merged(
        type=_type(service),
        ports=_union(valid),
        spec=_shared_fields(service),
        families=tuple(service["spec"].get("ipFamilies") or ()),
        labels=dict(spec.get("exportedLabels") or {}),
        annotations=dict(spec.get("exportedAnnotations") or {}),
        clusters=tuple(each.cluster for each in valid),
        reasons=tuple(reason for reason, _ in found),
        conflicts="; ".join(f"{_TITLES[reason]}: {words}" for reason, words in found),
    )


def _service(export: Export) -> Mapping[str, Any]:
    assert export.service is not None
    return export.service


def _type(service: Mapping[str, Any]) -> str:
    return HEADLESS if is_headless(service["spec"]) else CLUSTER_SET_IP


def _shared_fields(service: Mapping[str, Any]) -> Raw:
    spec = service["spec"]
    found: Raw = {"sessionAffinity": spec.get("sessionAffinity") or "None"}
    if found["sessionAffinity"] == _CLIENT_IP and spec.get("sessionAffinityConfig"):
        found["sessionAffinityConfig"] = spec["sessionAffinityConfig"]
    kept = ("internalTrafficPolicy", "trafficDistribution")
    return found | {field: spec[field] for field in kept if spec.get(field) is not None}


def _ports(service: Mapping[str, Any]) -> list[Raw]:
    found = [{field: each[field] for field in _PORT_FIELDS if each.get(field)} for each in service["spec"]["ports"]]
    return sorted(({"protocol": "TCP", **each} for each in found), key=_port_order)


def _port_order(port: Mapping[str, Any]) -> tuple[str, int, str]:
    return (port.get("name") or "", port["port"], port["protocol"])


def _union(valid: Sequence[Export]) -> list[Raw]:
    """Return the ports of all exports. Of two with one name, or one number and protocol, use the older export's."""
    taken = set[object]()
    united = list[Raw]()
    for export in valid:
        for port in _ports(_service(export)):
            name = port.get("name") or ""
            marks = {("name", name), ("port", port["port"], port["protocol"])}
            # A port without a name is the only one in a Service.
            alone = bool(united) and not (name and united[0].get("name"))
            if not alone and taken.isdisjoint(marks):
                united.append(port)
                taken |= marks
    return sorted(united, key=_port_order)


def _differences(valid: Sequence[Export], of: Callable[[Export], Any]) -> str:
    """Return the clusters that differ from the oldest export, with their values; empty if all agree."""
    first = of(valid[0])
    others = [each for each in valid[1:] if not equivalent(of(each), first)]
    if not others:
        return ""
    told = (f"{each.cluster} has {_words(of(each))}" for each in others)
    return f"{', '.join(told)}, where {valid[0].cluster}, the oldest export, has {_words(first)}"


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={_words(each)}" for key, each in sorted(value.items())) or "none"
    if isinstance(value, list):
        return " ".join(map(_words, value)) or "none"
    return str(value) if value not in ("", None) else "none"


def _told_ports(export: Export) -> list[str]:
    found = list[str]()
    for each in _ports(_service(export)):
        name, application = each.get("name"), each.get("appProtocol")
        number = f"{each['port']}/{each['protocol']}"
        found.append("".join((f"{name}:" if name else "", number, f"({application})" if application else "")))
    return found


def _field(field: str) -> Callable[[Export], Any]:
    return lambda export: _shared_fields(_service(export)).get(field)


def _exported(field: str) -> Callable[[Export], Any]:
    return lambda export: dict((export.manifest.get("spec") or {}).get(field) or {})


_COMPARED: dict[str, Callable[[Export], Any]] = {
    "PortConflict": _told_ports,
    "TypeConflict": lambda export: _type(_service(export)),
    "SessionAffinityConflict": _field("sessionAffinity"),
    "SessionAffinityConfigConflict": _field("sessionAffinityConfig"),
    "LabelsConflict": _exported("exportedLabels"),
    "AnnotationsConflict": _exported("exportedAnnotations"),
    "InternalTrafficPolicyConflict": _field("internalTrafficPolicy"),
    "TrafficDistributionConflict": _field("trafficDistribution"),
    "IPFamilyConflict": lambda export: sorted(_service(export)["spec"].get("ipFamilies") or ()),
}
"""Compared fields, by the reason of the condition Conflict."""
_TITLES = {
    "PortConflict": "ports",
    "TypeConflict": "type",
    "SessionAffinityConflict": "session affinity",
    "SessionAffinityConfigConflict": "configuration of session affinity",
    "LabelsConflict": "exported labels",
    "AnnotationsConflict": "exported annotations",
    "InternalTrafficPolicyConflict": "internal traffic policy",
    "TrafficDistributionConflict": "traffic distribution",
    "IPFamilyConflict": "IP families",
}
