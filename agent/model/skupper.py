"""Skupper v2, as the driver `skupper` uses it: what is written for a shared Service, and what its states mean. Pure."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import (
    CONNECTORS,
    ENDPOINT_SLICES,
    LISTENERS,
    SERVICES,
    SITES,
    SKUPPER_GRANTS,
    SKUPPER_TOKENS,
    Kind,
)
from agent.api.names.links import LABEL_SKUPPER
from agent.model.servicelinks import CONNECTED, PROGRAMMED, Finding

Raw = dict[str, Any]

MANAGER = "skupper.flotilla"
"""Of the slices that have the addresses of routers: nobody takes these for what a cluster has itself."""
SITE = "flotilla"
_REASONS = (
    ("already exists in namespace", "Conflict"),
    ("No matches for selector", "NoEndpoints"),
    ("no matching connector", "NoMatchingConnector"),
)
"""What is in the messages of Skupper's controllers."""


def host(namespace: str, service: str) -> str:
    """Name of the Service that Skupper makes for callers; ours would be one that it does not touch."""
    return f"{service[:45].rstrip('-')}-link-{_digest(f'{namespace}/{service}')}"


def connector(service: Mapping[str, Any], port: int, number: int) -> Raw:
    """What offers pods of a Service to other clusters, for one port of it.

    :param number: of the port of its pods
    """
    selector = ",".join(f"{key}={value}" for key, value in sorted((service["spec"].get("selector") or {}).items()))
    return _owned(CONNECTORS, service, port, {"routingKey": _key(service, port), "port": number, "selector": selector})


def listener(service: Mapping[str, Any], port: int) -> Raw:
    """What brings callers of a Service to other clusters, for one port of it."""
    metadata = service["metadata"]
    where = {"host": host(metadata["namespace"], metadata["name"]), "port": port}
    return _owned(LISTENERS, service, port, {"routingKey": _key(service, port), **where})


def tcp_ports(service: Mapping[str, Any], named: Iterable[str] | None) -> list[tuple[str, int]]:
    """Name and number of the ports that Skupper can carry, of all or of those of some names."""
    ports = [each for each in service["spec"].get("ports") or () if (each.get("protocol") or "TCP") == "TCP"]
    found = [(str(each.get("name") or ""), int(each["port"])) for each in ports]
    return found if named is None else [each for each in found if each[0] in set(named)]


def mirror(service: Mapping[str, Any], made: Mapping[str, Any], slices: Sequence[Mapping[str, Any]]) -> Raw | None:
    """The slice by which a Service leads to Skupper's routers; None while these have no address.

    :param made: the Service that Skupper has made for the host of its Listeners
    :param slices: those of that
    """
    ours = {port: name for name, port in tcp_ports(service, None)}
    theirs = {str(each.get("name") or ""): ours.get(each["port"]) for each in made["spec"].get("ports") or ()}
    for slice in slices:
        ports = [
            {**each, "name": name}
            for each in slice.get("ports") or ()
            if (name := theirs.get(str(each.get("name") or ""))) is not None
        ]
        endpoints = [
            {"addresses": each["addresses"], "conditions": each.get("conditions") or {}}
            for each in slice.get("endpoints") or ()
        ]
        if ports and endpoints:
            metadata = service["metadata"]
            labels = {names.LABEL_SERVICE_NAME: metadata["name"], names.LABEL_SLICE_MANAGED_BY: MANAGER}
            head = _head(ENDPOINT_SLICES, made["metadata"]["name"], metadata["namespace"])
            head["metadata"] |= {"labels": {**labels, LABEL_SKUPPER: metadata["name"]}, "ownerReferences": _by(service)}
            return {**head, "addressType": slice["addressType"], "ports": ports, "endpoints": endpoints}
    return None


def site(namespace: str, *, reached: bool) -> Raw:
    """The Site of a namespace; one that is `reached` takes links of others."""
    return {**_head(SITES, SITE, namespace), "spec": {"linkAccess": "default"} if reached else {}}


def grant(namespace: str, cluster: str) -> Raw:
    """What lets one cluster make a link to this one, once."""
    return {**_head(SKUPPER_GRANTS, link_name(cluster), namespace), "spec": {"redemptionsAllowed": 1}}


def token(granted: Mapping[str, Any], namespace: str, cluster: str) -> Raw | None:
    """What that cluster makes the link of; None while the grant is not ready, as it tells."""
    said = granted.get("status") or {}
    if said.get("status") != "Ready" or not all(said.get(key) for key in ("url", "code", "ca")):
        return None
    return {
        **_head(SKUPPER_TOKENS, link_name(cluster), namespace),
        "spec": {key: said[key] for key in ("url", "code", "ca")},
    }


def link_name(cluster: str) -> str:
    """Name of grant and token of one cluster."""
    return f"flotilla-{_digest(cluster)}"


def configured(found: Sequence[Mapping[str, Any]], what: str) -> Finding:
    """Whether Skupper has taken up all of some Connectors or Listeners."""
    if not found:
        return Finding("False", "Pending", f"it has no {what} yet")
    for each in found:
        if bad := _bad(each, "Configured"):
            return bad
    return Finding("True", PROGRAMMED)


def matched(sites: Sequence[Mapping[str, Any]], listeners: Sequence[Mapping[str, Any]], namespace: str) -> Finding:
    """Whether callers in a namespace of a cluster reach what others offer."""
    if not sites:
        ask = f"create one, or annotate namespace {namespace} {names.SHORT_PREFIX}{names.SKUPPER_SITE}: true"
        return Finding("False", "NoSite", f"namespace {namespace} has no Skupper Site there: {ask}")
    for each in sites:
        if bad := _bad(each, "Configured", "Running"):
            return bad
    done = configured(listeners, "Listener")
    if done.status != "True":
        return done
    for each in listeners:
        if bad := _bad(each, "Matched"):
            return bad if bad.reason != "Pending" else Finding(bad.status, "NoMatchingConnector", bad.message)
    return Finding("True", CONNECTED, "its Listeners are matched")


def _bad(found: Mapping[str, Any], *types: str) -> Finding | None:
    """What is wrong with an object of Skupper's, in its own words."""
    status, title = found.get("status") or {}, f"{found['kind']} {found['metadata']['name']}"
    message = str(status.get("message") or "")
    for type in types:
        said = find_condition(status.get("conditions"), type)
        if said is None or said.get("status") != "True":
            words = (
                str((said or {}).get("message") or message) or "Skupper's controller has said nothing: see that it runs"
            )
            reasons = (reason for text, reason in _REASONS if text.lower() in words.lower())
            default = "SkupperError" if "Error" in (status.get("status"), (said or {}).get("reason")) else "Pending"
            return Finding("False", next(reasons, default), f"{title}: {words}")
    return None


def _owned(kind: Kind, service: Mapping[str, Any], port: int, spec: Raw) -> Raw:
    metadata = service["metadata"]
    head = _head(kind, f"{metadata['name'][:50].rstrip('-')}-{port}-link", metadata["namespace"])
    head["metadata"] |= {"labels": {LABEL_SKUPPER: metadata["name"]}, "ownerReferences": _by(service)}
    return {**head, "spec": {**spec, "type": "tcp"}}


def _head(kind: Kind, name: str, namespace: str) -> Raw:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": namespace, "labels": {LABEL_SKUPPER: ""}},
    }


def _by(service: Mapping[str, Any]) -> list[Raw]:
    metadata = service["metadata"]
    head = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return [{**head, "name": metadata["name"], "uid": metadata["uid"]}]


def _key(service: Mapping[str, Any], port: int) -> str:
    return f"{service['metadata']['namespace']}.{service['metadata']['name']}.{port}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
