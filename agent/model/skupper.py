"""Objects and conditions of Skupper v2, for shared Services with the driver `skupper`. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import CONNECTORS, ENDPOINT_SLICES, LISTENERS, SERVICES, Kind
from agent.api.names.links import LABEL_SKUPPER
from agent.model.service import is_headless
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding

Raw = dict[str, Any]

MANAGER = "skupper.flotilla"
"""Manager of slices with the addresses of routers; they do not count as a cluster's own endpoints."""
NO_CONNECTOR = "NoMatchingConnector"
HEADLESS = Finding(
    "False",
    "HeadlessUnsupported",
    "it is headless, and Skupper leads to routers at ports of their own: give it a cluster IP, or name another driver",
)
_REASONS = (
    ("already exists in namespace", "Conflict"),
    ("No matches for selector", "NoEndpoints"),
    ("no matching connector", NO_CONNECTOR),
)
"""Texts in messages of Skupper's controllers, with reasons."""
_NAME_LIMIT, _CUT = 50, 41
"""Maximum length of a Service's name in derived names, and the part that is kept of a longer one before its digest."""
_BARE = ("", "Pending")


def host(namespace: str, service: str) -> str:
    """Return the name of the Service that Skupper creates for callers.

    It is not the Service's own name, since Skupper does not change a Service that it has not created.
    """
    return f"{service[:45].rstrip('-')}-link-{digest(f'{namespace}/{service}')}"


def connector(service: Mapping[str, Any], port: int, number: int) -> Raw:
    """Return the Connector that offers a Service's pods to other clusters, for one of its ports.

    :param number: of the pods' port
    """
    selector = ",".join(f"{key}={value}" for key, value in sorted((service["spec"].get("selector") or {}).items()))
    return _owned(CONNECTORS, service, port, {"routingKey": _key(service, port), "port": number, "selector": selector})


def listener(service: Mapping[str, Any], port: int) -> Raw:
    """Return the Listener that connects callers of a Service to other clusters, for one of its ports."""
    metadata = service["metadata"]
    where = {"host": host(metadata["namespace"], metadata["name"]), "port": port}
    return _owned(LISTENERS, service, port, {"routingKey": _key(service, port), **where})


def tcp_ports(service: Mapping[str, Any], named: Iterable[str] | None) -> list[tuple[str, int]]:
    """Return names and numbers of the ports that Skupper supports; all, or only those named."""
    if is_headless(service["spec"]):
        return []
    ports = [each for each in service["spec"].get("ports") or () if (each.get("protocol") or "TCP") == "TCP"]
    found = [(str(each.get("name") or ""), int(each["port"])) for each in ports]
    return found if named is None else [each for each in found if each[0] in set(named)]


def mirror(service: Mapping[str, Any], made: Mapping[str, Any], slices: Sequence[Mapping[str, Any]]) -> Raw | None:
    """Return the EndpointSlice that routes a Service's traffic to Skupper's routers; None if these have no address.

    Its ports are in the Service's order. The order in Skupper's own slice is that in which Skupper observed the
    Listeners.

    :param made: the Service that Skupper has created for the host of its Listeners
    :param slices: EndpointSlices of that Service
    """
    ours = {port: name for name, port in tcp_ports(service, None)}
    theirs = {ours.get(each["port"]): str(each.get("name") or "") for each in made["spec"].get("ports") or ()}
    for slice in slices:
        opened = {str(each.get("name") or ""): each for each in slice.get("ports") or ()}
        ports = [{**opened[theirs[name]], "name": name} for name in ours.values() if theirs.get(name) in opened]
        endpoints = [
            {"addresses": each["addresses"], "conditions": each.get("conditions") or {}}
            for each in slice.get("endpoints") or ()
        ]
        if ports and endpoints:
            metadata = service["metadata"]
            labels = {names.LABEL_SERVICE_NAME: metadata["name"], names.LABEL_SLICE_MANAGED_BY: MANAGER}
            head = headed(ENDPOINT_SLICES, made["metadata"]["name"], metadata["namespace"])
            head["metadata"] |= {"labels": {**labels, LABEL_SKUPPER: metadata["name"]}, "ownerReferences": _by(service)}
            return {**head, "addressType": slice["addressType"], "ports": ports, "endpoints": endpoints}
    return None


def configured(found: Sequence[Mapping[str, Any]], what: str) -> Finding:
    """Return whether Skupper has configured all of some Connectors or Listeners."""
    if not found:
        return Finding("False", "Pending", f"it has no {what} yet")
    for each in found:
        if bad := lacking(each, "Configured"):
            return bad
    return Finding("True", PROGRAMMED)


def matched(listeners: Sequence[Mapping[str, Any]]) -> Finding:
    """Return whether callers reach the endpoints of other clusters, by the conditions of Listeners."""
    done = configured(listeners, "Listener")
    if done.status != "True":
        return done
    for each in listeners:
        if bad := lacking(each, "Matched"):
            return bad if bad.reason != "Pending" else Finding(bad.status, NO_CONNECTOR, bad.message)
    return Finding("True", CONNECTED, "its Listeners are matched")


def lacking(found: Mapping[str, Any], *types: str) -> Finding | None:
    """Return the problem of a Skupper object, with Skupper's message; None if all these conditions are True."""
    status, title = found.get("status") or {}, f"{found['kind']} {found['metadata']['name']}"
    for type in types:
        said = find_condition(status.get("conditions"), type) or {}
        if said.get("status") != "True":
            words = str(said.get("message") or status.get("message") or "")
            if words in _BARE:
                words = f"not {type} yet" if said else "Skupper's controller has said nothing: see that it runs"
            reasons = (reason for text, reason in _REASONS if text.lower() in words.lower())
            default = "SkupperError" if "Error" in (status.get("status"), said.get("reason")) else "Pending"
            return Finding("False", next(reasons, default), f"{title}: {words}")
    return None


def headed(kind: Kind, name: str, namespace: str) -> Raw:
    """Return an object without spec that belongs to no single Service."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL_SKUPPER: ""}},
    }


def digest(text: str) -> str:
    """Return the part of a shortened name that keeps it unique."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _owned(kind: Kind, service: Mapping[str, Any], port: int, spec: Raw) -> Raw:
    metadata = service["metadata"]
    head = headed(kind, f"{_short(metadata['name'])}-{port}-link", metadata["namespace"])
    head["metadata"] |= {"labels": {LABEL_SKUPPER: metadata["name"]}, "ownerReferences": _by(service)}
    return {**head, "spec": {**spec, "type": "tcp"}}


def _short(name: str) -> str:
    """Return a Service's name, cut and with a digest if it is too long for a name that contains it."""
    return name if len(name) <= _NAME_LIMIT else f"{name[:_CUT].rstrip('-')}-{digest(name)}"


def _by(service: Mapping[str, Any]) -> list[Raw]:
    metadata = service["metadata"]
    head = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return [{**head, "name": metadata["name"], "uid": metadata["uid"]}]


def _key(service: Mapping[str, Any], port: int) -> str:
    return f"{service['metadata']['namespace']}.{service['metadata']['name']}.{port}"
