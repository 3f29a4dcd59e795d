"""What is made of exported Services (`serviceexports`): a derived Service with the address, and a ServiceImport.

The derived Service of the cluster of the agent is shared as any other, so that the network driver of each pair of
clusters brings its endpoints; in a cluster that exports, it selects the same pods as the Service that is exported.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status
from agent.api.kinds import SERVICE_IMPORTS, SERVICES
from agent.api.names import mcs
from agent.model.serviceexports import HEADLESS, Export, Merged, failure, flaw, selector
from agent.model.sharedcopies import marked

Raw = dict[str, Any]
Told = dict[str, tuple[Status, str, str]]
"""Conditions by type: status, reason, message."""

CONDITIONS = {"Valid", "Ready", "Conflict"}
"""That we tell of exports and imports, no others."""
NOBODY = {names.SHORT_PREFIX + "not-exported": "true"}
"""Selector of a derived Service in a cluster that exports nothing. From a Service that has no selector any more
Kubernetes would not take the slices that it had before."""
NO_SUCH_PORT = "not-exported"
"""Name of the target port, which no pod has, of a port that a cluster does not export: its endpoints have none then."""
_DUAL = 2


class _There(msgspec.Struct, rename="camel", omit_defaults=True):
    """What another cluster exports."""

    cluster: str
    selector: dict[str, str] = msgspec.field(default_factory=lambda: dict(NOBODY))
    target_ports: dict[str, int | str] = {}
    """By the name of a port, of those that it exports as they are imported."""


def derived(key: tuple[str, str], merged: Merged, here: Export | None, there: Mapping[str, Export]) -> Raw:
    """The derived Service in the agent's own cluster.

    :param key: namespace and name of the Service that is exported
    :param here: the export of this cluster, if it counts
    :param there: those of others, by virtual node
    """
    labels = {mcs.LABEL_DERIVED: key[1], names.LABEL_GLOBAL: "true"}
    told = {node: _there(export, merged) for node, export in sorted(there.items())}
    spec: Raw = {**merged.spec, "type": "ClusterIP", "ports": merged.ports}
    if merged.type == HEADLESS:
        spec["clusterIP"] = "None"
    spec["ipFamilyPolicy"] = "PreferDualStack" if len(merged.families) == _DUAL else "SingleStack"
    if here is not None:
        labels |= {mcs.LABEL_MCS_SERVICE: key[1], mcs.LABEL_SOURCE_CLUSTER: here.cluster}
    own = _there(here, merged) if here is not None else _There("")
    spec |= {"selector": own.selector, "ports": _with_targets(merged.ports, own)}
    made = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {"name": mcs.derived(key[1]), "namespace": key[0], "labels": labels, "annotations": {}},
        "spec": spec,
    }
    exported = msgspec.json.encode(told).decode()
    return marked(made, {names.ANNOTATION_GLOBAL: "true", mcs.ANNOTATION_EXPORTED_IN: exported})


def _there(export: Export, merged: Merged) -> _There:
    """A port that differs from the imported one of its name, as in a conflict, is none of those that callers call."""
    assert export.service is not None
    imported = set(map(_number, merged.ports))
    exported = [each for each in export.service["spec"]["ports"] if _number(each) in imported]
    ports = {each.get("name") or "": each.get("targetPort") or each["port"] for each in exported}
    return _There(export.cluster, selector(export.service), ports)


def _number(port: Mapping[str, Any]) -> tuple[str, str, int]:
    return (port.get("name") or "", port.get("protocol") or "TCP", port["port"])


def _with_targets(ports: list[Raw], exported: _There) -> list[Raw]:
    targets = exported.target_ports
    return [{**each, "targetPort": targets.get(each.get("name") or "", NO_SUCH_PORT)} for each in ports]


def exporting(service: Mapping[str, Any]) -> dict[str, _There]:
    """What other clusters export of a derived Service, by virtual node, as its annotation has it."""
    text = (service["metadata"].get("annotations") or {}).get(mcs.ANNOTATION_EXPORTED_IN, "")
    try:
        return msgspec.json.decode(text, type=dict[str, _There])
    except msgspec.DecodeError:
        return {}


def ports_exported(service: Mapping[str, Any], node: str) -> set[str] | None:
    """Names of the ports of a shared Service that a cluster has endpoints for; None for all, as of any not derived.

    :param node: its virtual node, empty for this cluster
    """
    if mcs.LABEL_DERIVED not in (service["metadata"].get("labels") or {}):
        return None
    if node:
        return set(exporting(service).get(node, _There("")).target_ports)
    return {each.get("name") or "" for each in service["spec"]["ports"] if each.get("targetPort") != NO_SUCH_PORT}


def seen_from(service: Raw, node: str) -> Raw:
    """A shared Service as the target behind a virtual node is to have a copy of it: a derived one selects there what
    that cluster exports; any other as it is.
    """
    metadata = service["metadata"]
    exported = (metadata.get("labels") or {}).get(mcs.LABEL_DERIVED)
    if exported is None:
        return service
    there = exporting(service).get(node, _There(""))
    dropped = (names.ANNOTATION_ORIGINAL_SELECTOR, names.ANNOTATION_MARKS, mcs.ANNOTATION_EXPORTED_IN)
    annotations = {key: value for key, value in metadata["annotations"].items() if key not in dropped}
    labels = {key: value for key, value in metadata["labels"].items() if key not in mcs.MCS_LABELS}
    if there.cluster:
        labels |= {mcs.LABEL_MCS_SERVICE: exported, mcs.LABEL_SOURCE_CLUSTER: there.cluster}
    spec = {**service["spec"], "selector": there.selector, "ports": _with_targets(service["spec"]["ports"], there)}
    return {**service, "metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": spec}


def service_import(name: str, merged: Merged, there: Mapping[str, Any], cluster_uid: str) -> Raw:
    """The ServiceImport of one cluster.

    :param there: its derived Service, with which it goes
    :param cluster_uid: whose agent makes it
    """
    metadata, spec = there["metadata"], there["spec"]
    owner = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    owner |= {"name": metadata["name"], "uid": metadata["uid"]}
    labels, annotations = (
        {key: value for key, value in found.items() if not names.is_ours(key)}
        for found in (merged.labels, merged.annotations)
    )
    made: Raw = {
        "apiVersion": SERVICE_IMPORTS.api_version,
        "kind": SERVICE_IMPORTS.name,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {**labels, names.LABEL_PARENT_CLUSTER_UID: cluster_uid},
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {"type": merged.type, "ports": merged.ports, "ipFamilies": spec.get("ipFamilies") or [], **merged.spec},
    }
    if merged.type != HEADLESS:
        made["spec"]["ips"] = spec.get("clusterIPs") or [spec["clusterIP"]]
    return marked(made, {})


def is_ready(merged: Merged, there: Mapping[str, Any]) -> tuple[Status, str, str]:
    """Whether a cluster can use what it imports: the condition Ready of its ServiceImport."""
    families = there["spec"].get("ipFamilies") or []
    if merged.families and families and set(merged.families).isdisjoint(families):
        message = f"endpoints are {', '.join(merged.families)}, and Services of this cluster {', '.join(families)}"
        return "False", "IPFamilyNotSupported", message
    return "True", "Ready", ""


def told(export: Export, merged: Merged | None, waits: str) -> Told:
    """The conditions of a ServiceExport.

    :param waits: why it is not exported yet, empty where it is
    """
    if (found := flaw(export)) is not None:
        return {"Valid": ("False", *found), "Ready": ("False", "Failed", "it is not Valid")}
    valid: Told = {"Valid": ("True", "Valid", "")}
    if problem := failure(export):
        return valid | {"Ready": ("False", "Failed", problem)}
    conflict: tuple[Status, str, str] = ("False", "NoConflicts", "")
    if merged is not None and merged.reasons:
        conflict = ("True", ",".join(merged.reasons), merged.conflicts)
    ready: tuple[Status, str, str] = ("False", "Pending", waits) if waits else ("True", "Exported", "")
    return valid | {"Ready": ready, "Conflict": conflict}
