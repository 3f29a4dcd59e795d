"""Derived Services with the address of exported Services (`serviceexports`), and their ServiceImports.

The derived Service in the agent's cluster is shared like any other, so that the network driver of each pair of
clusters delivers its endpoints. In a cluster that exports, it selects the same pods as the exported Service.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agent.api import names
from agent.api.conditions import Status
from agent.api.kinds import SERVICE_IMPORTS, SERVICES
from agent.api.names import mcs
from agent.model.service import is_headless
from agent.model.serviceexports import HEADLESS, Export, Merged, failure, flaw, selector
from agent.model.sharedcopies import marked

Raw = dict[str, Any]
Told = dict[str, tuple[Status, str, str]]
"""Conditions by type: status, reason, message."""

CONDITIONS = {"Valid", "Ready", "Conflict"}
"""Condition types of exports and imports that the agent writes."""
NOBODY = {names.SHORT_PREFIX + "not-exported": "true"}
"""Selector of a derived Service in a cluster that exports nothing. If a Service lost its selector, Kubernetes
would not remove its present EndpointSlices."""
NO_SUCH_PORT = "not-exported"
"""Target port of a port that a cluster does not export: no pod has a port of this name, so it has no endpoints."""
_DUAL = 2


class _There(msgspec.Struct, rename="camel", omit_defaults=True):
    """Export of another cluster."""

    cluster: str
    selector: dict[str, str] = msgspec.field(default_factory=lambda: dict(NOBODY))
    target_ports: dict[str, int | str] = {}
    """Target ports by port name, for imported ports that the cluster exports."""


def derived(key: tuple[str, str], merged: Merged, here: Export | None, there: Mapping[str, Export]) -> Raw:
    """Return the derived Service in the agent's own cluster.

    :param key: namespace and name of the exported Service
    :param here: export of the local cluster, if it is in effect
    :param there: exports of other clusters, by virtual node
    """
    labels = {mcs.LABEL_DERIVED: key[1], names.LABEL_GLOBAL: "true"}
    told = {node: _there(export, merged) for node, export in sorted(there.items())}
    spec: Raw = {**merged.spec, "type": "ClusterIP", "ports": merged.ports}
    if merged.type == HEADLESS:
        spec["clusterIP"] = "None"
    spec["ipFamilyPolicy"] = "PreferDualStack" if len(merged.families) == _DUAL else "SingleStack"
    own = _there(here, merged) if here is not None else _There("")
    if here is not None and merged.type == HEADLESS:
        told[""] = own
    elif here is not None:
        labels |= _mcs_labels(key[1], here.cluster)
    spec |= {"selector": own.selector, "ports": _with_targets(merged.ports, own)}
    made = {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {"name": mcs.derived(key[1]), "namespace": key[0], "labels": labels, "annotations": {}},
        "spec": spec,
    }
    exported = msgspec.json.encode(told).decode()
    return marked(made, {names.ANNOTATION_GLOBAL: "true", mcs.ANNOTATION_EXPORTED_IN: exported})


def _mcs_labels(service: str, cluster: str) -> dict[str, str]:
    return {mcs.LABEL_MCS_SERVICE: service, mcs.LABEL_SOURCE_CLUSTER: cluster}


class Hosts(NamedTuple):
    """Headless Services with the host names of the pods behind a derived one.

    endpointslice-controller: a pod has a host name only in slices of the Service that its `subdomain` names. Slices of
    the derived Service lack it, and so have no labels of the API. Mirrors of the exported Services' slices have both.
    """

    service: str
    """Name of the exported Services."""
    clusters: Mapping[str, str]
    """Exporting clusters: their names by virtual node, empty for the local cluster."""

    def labels(self, node: str) -> tuple[tuple[str, str], ...]:
        """Return the labels of the API for mirrors of a cluster's endpoints."""
        return tuple(_mcs_labels(self.service, self.clusters[node]).items())


def hosts(service: Mapping[str, Any]) -> Hosts | None:
    """Return the exported Services behind a headless derived Service of the agent's cluster; None for others."""
    exported = (service["metadata"].get("labels") or {}).get(mcs.LABEL_DERIVED)
    if exported is None or not is_headless(service["spec"]):
        return None
    return Hosts(exported, {node: each.cluster for node, each in exporting(service).items()})


def _there(export: Export, merged: Merged) -> _There:
    """Return a cluster's export, without ports that differ from the imported port of their name, as in a conflict."""
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
    """Return exports from a derived Service's annotation, by virtual node: those of other clusters, and of a headless
    one also that of the local cluster."""
    text = (service["metadata"].get("annotations") or {}).get(mcs.ANNOTATION_EXPORTED_IN, "")
    try:
        return msgspec.json.decode(text, type=dict[str, _There])
    except msgspec.DecodeError:
        return {}


def ports_exported(service: Mapping[str, Any], node: str) -> set[str] | None:
    """Return names of a shared Service's ports with endpoints in a cluster; None for all, if it is not derived.

    :param node: virtual node of the cluster, empty for the local cluster
    """
    if mcs.LABEL_DERIVED not in (service["metadata"].get("labels") or {}):
        return None
    if node:
        return set(exporting(service).get(node, _There("")).target_ports)
    return {each.get("name") or "" for each in service["spec"]["ports"] if each.get("targetPort") != NO_SUCH_PORT}


def seen_from(service: Raw, node: str) -> Raw:
    """Return a shared Service as the source of its copy in the target behind a virtual node. A derived one
    selects the pods that the target exports; others are unchanged.
    """
    metadata = service["metadata"]
    exported = (metadata.get("labels") or {}).get(mcs.LABEL_DERIVED)
    if exported is None:
        return service
    there = exporting(service).get(node, _There(""))
    dropped = (names.ANNOTATION_ORIGINAL_SELECTOR, names.ANNOTATION_MARKS, mcs.ANNOTATION_EXPORTED_IN)
    annotations = {key: value for key, value in metadata["annotations"].items() if key not in dropped}
    labels = {key: value for key, value in metadata["labels"].items() if key not in mcs.MCS_LABELS}
    if there.cluster and not is_headless(service["spec"]):
        labels |= _mcs_labels(exported, there.cluster)
    spec = {**service["spec"], "selector": there.selector, "ports": _with_targets(service["spec"]["ports"], there)}
    return {**service, "metadata": {**metadata, "labels": labels, "annotations": annotations}, "spec": spec}


def service_import(name: str, merged: Merged, there: Mapping[str, Any], cluster_uid: str) -> Raw:
    """Return the ServiceImport of one cluster.

    :param there: its derived Service, which owns the ServiceImport
    :param cluster_uid: UID of the cluster whose agent creates it
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
    """Return the condition Ready of a ServiceImport: whether a cluster can use its endpoints."""
    families = there["spec"].get("ipFamilies") or []
    if merged.families and families and set(merged.families).isdisjoint(families):
        message = f"endpoints are {', '.join(merged.families)}, and Services of this cluster {', '.join(families)}"
        return "False", "IPFamilyNotSupported", message
    return "True", "Ready", ""


def told(export: Export, merged: Merged | None, waits: str) -> Told:
    """Return the conditions of a ServiceExport.

    :param waits: reason why it is not exported yet, empty if it is
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
