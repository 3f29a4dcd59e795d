"""Copies of Services, Ingresses and the Ingresses' Secrets in a federation's other clusters (wire contract, 7).

Fields that each cluster assigns are not copied: addresses, node ports, load balancers. Labels and annotations
that the other cluster adds to a copy stay.
"""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from agent.api import names
from agent.api.kinds import INGRESSES, ROLE_BINDINGS, SECRETS, SERVICES
from agent.api.names.links import ANNOTATION_LINKED_IN, ANNOTATION_LINKED_SERVICE, LABEL_LINK_OF
from agent.model import copies
from agent.model.annotations import size, within
from agent.model.copies import Content, Raw, travelling
from agent.model.diff import equivalent
from agent.model.service import is_headless, selector_of_copy

_CLUSTERS_OWN = frozenset(
    (
        "allocateLoadBalancerNodePorts",
        "clusterIP",
        "clusterIPs",
        "externalIPs",
        "healthCheckNodePort",
        "ipFamilies",
        "loadBalancerClass",
        "loadBalancerIP",
    )
)
_FROM_OUTSIDE = frozenset(("externalTrafficPolicy", "loadBalancerSourceRanges"))
_KEPT_IN_COPY = ("clusterIP", "clusterIPs", "ipFamilies", "healthCheckNodePort", "loadBalancerClass")
_FROM_NODES = ("NodePort", "LoadBalancer")


class Labelled(Protocol):
    """An object as in an informer's cache."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""


def service(
    original: Mapping[str, Any],
    cluster_name: str,
    cluster_uid: str,
    *,
    exact: bool = True,
    families: Collection[str] = (),
) -> Raw:
    """Return the copy of a Service.

    It selects the same pods as the original. It has its own address, and node ports if its type is NodePort.
    Type LoadBalancer becomes ClusterIP unless the annotation copy-load-balancer is `true`.

    :param exact: whether every delegate of the namespace in the target has the labels of this version
    :param families: IP families of the target's pods, empty if unknown. The copy has the original's families among
        them, in the original's order, since EndpointSlices of other families would serve none of its addresses
    :raises InvalidService, InvalidPattern: if its selector cannot be determined
    """
    annotations = original["metadata"].get("annotations") or {}
    copy = copies.copy_of(SERVICES, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    marks = {names.ANNOTATION_IS_DELEGATE: "", names.ANNOTATION_GLOBAL: "true"}
    if names.ANNOTATION_ORIGINAL_SELECTOR in annotations:
        marks[names.ANNOTATION_ORIGINAL_SELECTOR] = annotations[names.ANNOTATION_ORIGINAL_SELECTOR]
    spec = {key: value for key, value in original["spec"].items() if key not in _CLUSTERS_OWN}
    if is_headless(original["spec"]):
        spec |= {"clusterIP": "None"}
    if spec.get("type") == "LoadBalancer" and names.annotation(annotations, names.COPY_LOAD_BALANCER) != "true":
        spec["type"] = "ClusterIP"
    if spec.get("type") not in _FROM_NODES:
        spec = {key: value for key, value in spec.items() if key not in _FROM_OUTSIDE}
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        spec["ipFamilyPolicy"] = "PreferDualStack"
    if common := [each for each in original["spec"].get("ipFamilies") or () if each in families]:
        spec["ipFamilies"] = common
    if spec.get("ports"):
        spec["ports"] = [{key: value for key, value in port.items() if key != "nodePort"} for port in spec["ports"]]
    spec["selector"] = selector_of_copy(original, cluster_uid if exact else "")
    return marked({**copy, "spec": spec}, marks)


def linked(
    original: Mapping[str, Any], namespace: str, link: str, nodes: Collection[str], ports: Collection[int]
) -> Raw:
    """Return the Service in another namespace that routes traffic to the endpoints of the original.

    :param link: UID of the ServiceLink that requests it
    :param nodes: virtual nodes of the targets that receive a copy
    :param ports: port numbers to keep, empty for all
    :raises InvalidService, InvalidPattern: if the original's selector cannot be determined
    """
    metadata, spec = original["metadata"], service(original, "", "")["spec"]
    dropped = {"selector", "type", *_FROM_OUTSIDE}
    spec = {key: value for key, value in spec.items() if key not in dropped} | {"type": "ClusterIP"}
    if ports:
        spec["ports"] = [each for each in spec.get("ports") or () if each["port"] in ports]
    annotations = {
        names.ANNOTATION_GLOBAL: "true",
        ANNOTATION_LINKED_SERVICE: f"{metadata['namespace']}/{metadata['name']}",
        ANNOTATION_LINKED_IN: msgspec.json.encode(sorted(nodes)).decode(),
    }
    made = {
        "name": metadata["name"],
        "namespace": namespace,
        "labels": {LABEL_LINK_OF: link, names.LABEL_GLOBAL: "true"},
        "annotations": {},
    }
    head = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return marked({**head, "metadata": made, "spec": spec}, annotations)


def linked_service(service: Labelled) -> tuple[str, str] | None:
    """Return namespace and name of the Service that a linked Service routes to; None if it is not a linked one."""
    if LABEL_LINK_OF not in service.labels:
        return None
    namespace, _, name = service.annotations.get(ANNOTATION_LINKED_SERVICE, "").partition("/")
    return (namespace, name) if name else None


def linked_in(service: Labelled, node: str) -> bool:
    """Return whether links allow a copy of a shared Service in the target behind a virtual node."""
    if LABEL_LINK_OF not in service.labels:
        return True
    try:
        return node in msgspec.json.decode(service.annotations.get(ANNOTATION_LINKED_IN, "[]"), type=list[str])
    except msgspec.DecodeError:
        return False


def ingress(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """Return the copy of an Ingress."""
    copy = copies.copy_of(INGRESSES, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    return marked(copy, {names.ANNOTATION_IS_DELEGATE: "", names.ANNOTATION_GLOBAL: "true"})


def secret(original: Mapping[str, Any], cluster_name: str, cluster_uid: str) -> Raw:
    """Return the copy of a Secret that an Ingress names.

    Its source is in another label than for Secrets of pods, since another controller deletes it, for other reasons.
    """
    copy = copies.copy_of(SECRETS, original, cluster_name=cluster_name, cluster_uid=cluster_uid)
    copy["metadata"]["labels"][names.LABEL_INGRESS_SECRET] = copy["metadata"]["labels"].pop(
        names.LABEL_PARENT_CLUSTER_UID
    )
    return marked(copy, {names.ANNOTATION_IS_DELEGATE: ""})


def merged(copy: Mapping[str, Any], wanted: Raw) -> Raw:
    """Return the copy with the original's content, and with the fields that its own cluster assigns."""
    spec = wanted.get("spec")
    if spec is not None and wanted["kind"] == SERVICES.name:
        spec = _merged_spec(copy.get("spec") or {}, spec)
    ours = set(_copied_keys(copy))
    metadata = {
        **copy["metadata"],
        **{
            field: _theirs(copy["metadata"].get(field), ours) | wanted["metadata"][field]
            for field in ("labels", "annotations")
        },
    }
    status = {"status": copy["status"]} if "status" in copy else {}
    return {**wanted, "metadata": metadata, **({"spec": spec} if spec is not None else {}), **status}


def must_be_replaced(copy: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Return whether API servers would reject an update of the copy, so that it has to be deleted and recreated."""
    if wanted["kind"] == SERVICES.name:
        old, new = copy.get("spec") or {}, wanted["spec"]
        if "ExternalName" in (old.get("type"), new.get("type")):
            return False
        return is_headless(old) != is_headless(new)
    if wanted["kind"] == ROLE_BINDINGS.name:
        return not equivalent(copy.get("roleRef"), wanted["roleRef"])
    return copies.must_be_replaced(copy, wanted)


MERGED = Content(lambda copy, wanted: equivalent(copy, merged(copy, wanted)), must_be_replaced, merged)
"""Comparison of content, labels and annotations, but not of the other cluster's additions."""


def _merged_spec(live: Mapping[str, Any], wanted: Raw) -> Raw:
    spec = dict(wanted)
    if spec.get("type") == "ExternalName":
        return spec
    if live.get("type") != "ExternalName":
        spec |= {field: live[field] for field in _KEPT_IN_COPY if field in live}
    if spec.get("type") not in _FROM_NODES:
        spec.pop("healthCheckNodePort", None)
        spec.pop("loadBalancerClass", None)
        return spec
    if "allocateLoadBalancerNodePorts" in live:
        spec["allocateLoadBalancerNodePorts"] = live["allocateLoadBalancerNodePorts"]
    taken = {_port_key(port): port["nodePort"] for port in live.get("ports") or () if port.get("nodePort")}
    spec["ports"] = [
        {**port, **({"nodePort": taken[_port_key(port)]} if _port_key(port) in taken else {})}
        for port in spec.get("ports") or ()
    ]
    return spec


def _port_key(port: Mapping[str, Any]) -> tuple[int, str]:
    return (port["port"], port.get("protocol") or "TCP")


def marked(copy: Raw, annotations: Mapping[str, str]) -> Raw:
    """Add Flotilla's annotations to a copy, and the list of all keys that a later revision may remove."""
    metadata = copy["metadata"]
    found: dict[str, str] = {key: value for key, value in metadata["annotations"].items() if not names.is_ours(key)}
    ours: dict[str, str] = {key: value for key, value in metadata["annotations"].items() if names.is_ours(key)}
    ours.update(annotations)
    labels = sum(len(key) + 4 for key in metadata["labels"]) + sum(len(key) + 4 for key in ours)
    taken = size(ours) + len(names.ANNOTATION_COPIED_KEYS) + labels
    metadata["annotations"] = within(travelling(found), taken, listed=True) | ours
    keys = sorted({*metadata["labels"], *metadata["annotations"]})
    metadata["annotations"][names.ANNOTATION_COPIED_KEYS] = msgspec.json.encode(keys).decode()
    return copy


def _copied_keys(copy: Mapping[str, Any]) -> list[str]:
    text = (copy["metadata"].get("annotations") or {}).get(names.ANNOTATION_COPIED_KEYS)
    try:
        return msgspec.json.decode(text, type=list[str]) if text else []
    except msgspec.DecodeError:
        return []


def _theirs(pairs: Mapping[str, str] | None, ours: set[str]) -> dict[str, str]:
    return {key: value for key, value in (pairs or {}).items() if key not in ours}
