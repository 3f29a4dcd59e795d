"""AC3's MultiClusterNetworks: their ServiceLinks, the Services shared for them, and their status. Pure."""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from agent.api import names
from agent.api.conditions import Status, condition_of, set_condition
from agent.api.kinds import SERVICE_LINKS
from agent.api.names.ac3 import ANNOTATION_NETWORK, ANNOTATION_SHARED_FOR, LABEL_NETWORK_UID
from agent.model.abridged import abridged
from agent.model.service import is_copy, is_left_alone, is_shared, selects
from agent.model.servicelinks import ACCEPTED, READY, Finding

Raw = Mapping[str, Any]
Key = tuple[str, str]

SHARED_FOR = "ac3"
CONFLICT = "Conflict"
"""Reason of a condition: a ServiceLink of the same name exists that was not made for this network."""
_OWN_GLOBAL = names.SHORT_PREFIX + names.GLOBAL
_NAME_LIMIT = 63
_HASH_LENGTH = 8
_MESSAGE_LIMIT = 1024
_SHOWN = 5
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_CLUSTERS = ("sourceCluster", "targetCluster")
_NAMESPACES = ("sourceNamespace", "targetNamespace")


@dataclass(frozen=True)
class World:
    """Objects of this cluster that networks refer to."""

    namespaces: frozenset[str]
    deployments: Mapping[Key, Raw]
    """Existing Deployments that networks name as applications."""
    services: Mapping[str, Sequence[Raw]]
    """Services by namespace, for each namespace in which a network names an application."""


@dataclass(frozen=True)
class Told:
    """A finding about one field of a network."""

    where: str
    finding: Finding


@dataclass(frozen=True)
class Plan:
    """ServiceLinks of a network, and the fields that were refused."""

    links: Mapping[Key, dict[str, Any]]
    """ServiceLinks by namespace and name."""
    fields: Mapping[Key, str]
    """Field of the network that each ServiceLink comes from."""
    refused: Sequence[Told]
    """Findings about invalid or forbidden fields."""


def plan(network: Raw, world: World, everywhere: str) -> Plan:
    """Return the ServiceLinks of a network. An invalid link of the network does not affect its other links.

    :param everywhere: namespace whose networks may name Services of other namespaces; empty for none
    """
    links: dict[Key, dict[str, Any]] = {}
    fields: dict[Key, str] = {}
    refused: list[Told] = []
    for index, each in enumerate((network.get("spec") or {}).get("links") or ()):
        where = f"spec.links[{index}]"
        problem = _flaw(each, where) or _forbidden(network, each, world, everywhere)
        if problem is not None:
            refused.append(Told(where, problem))
            continue
        ports, problems = _services(each, where, world)
        refused += problems
        if _is_within_one_place(each):
            continue
        for service, wanted in ports.items():
            key = (each["sourceNamespace"], _name(network, each, service))
            if key in links:
                wanted = _union(links[key]["spec"].get("ports"), wanted)
            links[key] = _link(network, each, service, wanted, key[1])
            fields.setdefault(key, where)
    return Plan(links, fields, refused)


def network_of(link: Raw) -> Key | None:
    """Return namespace and name of the network that a ServiceLink was made for; None if there is none."""
    metadata = link["metadata"]
    if LABEL_NETWORK_UID not in (metadata.get("labels") or {}):
        return None
    namespace, slash, name = (metadata.get("annotations") or {}).get(ANNOTATION_NETWORK, "").partition("/")
    return (namespace, name) if slash and namespace and name else None


def places(network: Raw) -> set[Key]:
    """Return namespace and name of the Deployments that a network names."""
    return {
        (str(each.get("sourceNamespace")), str(application))
        for each in (network.get("spec") or {}).get("links") or ()
        for application in each.get("applications") or ()
    }


def sharing(annotations: Mapping[str, str] | None, wanted: bool) -> dict[str, str | None]:
    """Return the annotations to set on a Service, or to remove (None), so that it is shared while networks need it.

    Annotations of the user take precedence. Copies from other clusters are never shared.

    :param wanted: whether a network needs the Service
    """
    found = annotations or {}
    marked = ANNOTATION_SHARED_FOR in found
    if wanted:
        if is_shared(found) or is_copy(found) or is_left_alone(found):
            return {}
        return {_OWN_GLOBAL: "true", ANNOTATION_SHARED_FOR: SHARED_FOR}
    if not marked:
        return {}
    ours = found.get(_OWN_GLOBAL) == "true"
    return {ANNOTATION_SHARED_FOR: None, **({_OWN_GLOBAL: None} if ours else {})}


def heard(link: Raw | None, uid: str) -> Finding:
    """Return the finding about a ServiceLink, by its condition Ready.

    :param link: None if it does not exist yet
    :param uid: UID of the network that it has to belong to
    """
    if link is None:
        return Finding("Unknown", "Pending", "its ServiceLink has not been made yet")
    metadata = link["metadata"]
    title = f"ServiceLink {metadata['namespace']}/{metadata['name']}"
    if (metadata.get("labels") or {}).get(LABEL_NETWORK_UID) != uid:
        return Finding("False", CONFLICT, f"{title} is there and not made for this network: delete it")
    said = condition_of(link, READY)
    if said is None or said.get("observedGeneration", metadata.get("generation")) != metadata.get("generation"):
        return Finding("Unknown", "Pending", f"nothing is told of {title} yet")
    status: Status = said["status"]
    return Finding(status, str(said["reason"]), str(said.get("message", "")))


def status(
    network: Raw, refused: Sequence[Told], told: Sequence[Told], now: datetime, *, has_conditions: bool
) -> dict[str, Any]:
    """Return the new status of a network.

    :param has_conditions: whether the installed CRD has the field `conditions`
    """
    links = [dict(each) for each in (network.get("spec") or {}).get("links") or ()]
    new: dict[str, Any] = {"previousLinks": links}
    if has_conditions:
        conditions = (network.get("status") or {}).get("conditions")
        generation = network["metadata"].get("generation")
        for type, found in ((ACCEPTED, accepted(refused)), (READY, ready(refused, told))):
            message = found.message[:_MESSAGE_LIMIT]
            conditions = set_condition(conditions, type, found.status, found.reason, message, now, generation)
        new["conditions"] = conditions
    return new


def accepted(refused: Sequence[Told]) -> Finding:
    """Return the finding for the condition Accepted: whether all fields of a network are valid and allowed."""
    return _worst(refused) or Finding("True", ACCEPTED)


def ready(refused: Sequence[Told], told: Sequence[Told]) -> Finding:
    """Return the finding for the condition Ready: whether all ServiceLinks of a network are ready."""
    return _worst([*refused, *told]) or Finding("True", READY)


def _worst(told: Sequence[Told]) -> Finding | None:
    """Combine all False findings, or else all Unknown ones; return None if all are True."""
    for status in ("False", "Unknown"):
        worse = [each for each in told if each.finding.status == status]
        if worse:
            words = [f"{each.where}: {each.finding.message or each.finding.reason}" for each in worse]
            return Finding(worse[0].finding.status, worse[0].finding.reason, abridged(words, _SHOWN, "; "))
    return None


def _flaw(link: Raw, where: str) -> Finding | None:
    """Return why the names or ports of a link are invalid; None if they are valid."""
    for field in _CLUSTERS:
        if not 0 < len(link[field]) <= 253:
            return Finding("False", "InvalidName", f"{field} must name a cluster, as its Target is called: correct it")
    services = link.get("services") or ()
    named = [(field, link[field]) for field in _NAMESPACES] + [("services", each["name"]) for each in services]
    for field, name in named:
        if _NAME.fullmatch(name) is None:
            return Finding("False", "InvalidName", f"{field}: {name[:100]!r} is no name of that kind: correct it")
    for each in services:
        if not 0 < each["port"] < 65536:
            return Finding("False", "NoPort", f"services: {each['port']} is no port: give one from 1 to 65535")
    return None


def _forbidden(network: Raw, link: Raw, world: World, everywhere: str) -> Finding | None:
    own, source = network["metadata"]["namespace"], link["sourceNamespace"]
    if source != own and own != everywhere:
        message = f"sourceNamespace {source} is not that of this network ({own}): write it there"
        return Finding("False", "NamespaceNotAllowed", message + (f", or in {everywhere}" if everywhere else ""))
    if source not in world.namespaces:
        message = f"there is no namespace {source} in this cluster: create it, or correct sourceNamespace"
        return Finding("False", "NamespaceMissing", message)
    return None


def _services(link: Raw, where: str, world: World) -> tuple[dict[str, list[int] | None], list[Told]]:
    """Return the ports of a link's Services (None for all ports), and findings about applications without Services."""
    ports: dict[str, list[int] | None] = {}
    for each in link.get("services") or ():
        ports[each["name"]] = _union(ports.get(each["name"], []), [each["port"]])
    problems = []
    for application in link.get("applications") or ():
        found = _behind(link["sourceNamespace"], application, world)
        if isinstance(found, Finding):
            problems.append(Told(where, found))
            continue
        for service in found:
            # A Service that the link names itself keeps only the ports named there.
            ports.setdefault(service, None)
    return ports, problems


def _behind(namespace: str, application: str, world: World) -> list[str] | Finding:
    """Return the names of the Services that select the pods of a Deployment, or why none does."""
    deployment = world.deployments.get((namespace, application))
    if deployment is None:
        message = f"applications: there is no Deployment {application} in namespace {namespace}: create it, or correct"
        return Finding("False", "NoApplication", message)
    labels = (deployment["spec"]["template"].get("metadata") or {}).get("labels") or {}
    found = []
    for each in world.services.get(namespace, ()):
        try:
            if selects(each, labels):
                found.append(each["metadata"]["name"])
        except ValueError:
            # The controller of ServiceLinks reports a Service with an invalid annotation or selector.
            continue
    if not found:
        message = f"applications: no Service selects the pods of Deployment {application}: create one"
        return Finding("False", "NoService", message)
    return sorted(found)


def _is_within_one_place(link: Raw) -> bool:
    """Return True if a link stays in one namespace of one cluster, which needs no ServiceLink."""
    return bool(link["sourceCluster"] == link["targetCluster"] and link["sourceNamespace"] == link["targetNamespace"])


def _union(one: Iterable[int] | None, other: Iterable[int] | None) -> list[int] | None:
    return sorted({*one, *other}) if one is not None and other is not None else None


def _name(network: Raw, link: Raw, service: str) -> str:
    place = (network["metadata"]["uid"], *(link[field] for field in (*_CLUSTERS, *_NAMESPACES)), service)
    digest = hashlib.sha256("\n".join(place).encode()).hexdigest()[:_HASH_LENGTH]
    return f"{service[: _NAME_LIMIT - _HASH_LENGTH - 1].rstrip('-')}-{digest}"


def _link(network: Raw, link: Raw, service: str, ports: list[int] | None, name: str) -> dict[str, Any]:
    metadata = network["metadata"]
    to = {"cluster": link["targetCluster"]}
    if link["targetNamespace"] != link["sourceNamespace"]:
        to["namespace"] = link["targetNamespace"]
    return {
        "apiVersion": SERVICE_LINKS.api_version,
        "kind": SERVICE_LINKS.name,
        "metadata": {
            "name": name,
            "namespace": link["sourceNamespace"],
            "labels": {LABEL_NETWORK_UID: metadata["uid"]},
            "annotations": {ANNOTATION_NETWORK: f"{metadata['namespace']}/{metadata['name']}"},
        },
        "spec": {
            "service": service,
            "from": [link["sourceCluster"]],
            "to": [to],
            **({"ports": ports} if ports is not None else {}),
        },
    }
