"""ServiceLinks: the default one of a shared Service, their validation, and the state of a pair of clusters. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status, condition_of
from agent.api.kinds import SERVICE_LINKS, SERVICES
from agent.api.names.links import external
from agent.model.servicerule import Firsts, misread, named_driver, namespace_of, no_driver, overruled, service_of

Raw = dict[str, Any]

ACCEPTED, PROGRAMMED, CONNECTED, READY = "Accepted", "Programmed", "Connected", "Ready"
_EFFECTIVE = {"local": (names.ENDPOINT_SLICES_DRIVER, "gateway", "cilium"), "remote": ("cilium",)}
"""Drivers that support an affinity. kube-proxy prefers no ready endpoint to another one, and Kubernetes' own
EndpointSlices have the local ones: so no driver of EndpointSlices can prefer remote ones."""
UNVERIFIED = "Unverified"
NO_ENDPOINTS = "NoEndpoints"
AWAY = "TargetUnreachable"


def made_for(service: Mapping[str, Any]) -> Raw:
    """Return the link of a shared Service whose user has written none."""
    metadata = service["metadata"]
    owner = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return {
        "apiVersion": SERVICE_LINKS.api_version,
        "kind": SERVICE_LINKS.name,
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [{**owner, "name": metadata["name"], "uid": metadata["uid"], "controller": True}],
        },
        "spec": {"service": metadata["name"]},
    }


def is_made(link: Mapping[str, Any]) -> bool:
    """Return whether a link is an unchanged default one of any Service."""
    name = link["metadata"]["name"]
    owners = [(each["kind"], each["name"]) for each in link["metadata"].get("ownerReferences") or ()]
    return link.get("spec") == {"service": name} and owners == [(SERVICES.name, name)]


def is_untouched(link: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Return whether a link is the unchanged default one of this Service."""
    (uid,) = [each["uid"] for each in link["metadata"]["ownerReferences"]] if is_made(link) else [""]
    return bool(uid == service["metadata"]["uid"])


@dataclass(frozen=True)
class Finding:
    """State of one aspect, with the fields of a condition."""

    status: Status
    reason: str
    message: str = ""


def accepted(
    link: Mapping[str, Any],
    service: Mapping[str, Any] | None,
    shared: bool,
    clusters: set[str],
    elsewhere: set[str] | None = None,
    of_service: Firsts | None = None,
) -> Finding:
    """Return whether all of a link is valid, as its condition Accepted.

    :param shared: whether the Service is shared
    :param clusters: all names of clusters that pods of the namespace may be in
    :param elsewhere: names of clusters in which other namespaces can be linked, None if that is not allowed
    :param of_service: `firsts` of all links of the Service
    """
    problem = _with_service(link, service, shared) or _with_spec(link, service or {}, clusters, elsewhere)
    problem = problem or overruled(link, of_service or {})
    return Finding("False", *problem) if problem is not None else Finding("True", ACCEPTED)


def _with_service(link: Mapping[str, Any], service: Mapping[str, Any] | None, shared: bool) -> tuple[str, str] | None:
    name = service_of(link)
    if service is None:
        return "NoService", f"there is no Service {name} in this namespace: create it, or correct spec.service"
    if service["spec"].get("type") == "ExternalName":
        return "InvalidServiceType", f"Service {name} is of type ExternalName, which has no endpoints: use another type"
    if not shared:
        share = f"annotate it {names.SHORT_PREFIX}{names.GLOBAL}: true"
        return "NoService", f"Service {name} is not shared with other clusters: {share}, or delete this link"
    return None


def _with_spec(
    link: Mapping[str, Any], service: Mapping[str, Any], clusters: set[str], elsewhere: set[str] | None
) -> tuple[str, str] | None:
    spec, namespace = link.get("spec") or {}, link["metadata"]["namespace"]
    ports = {each["port"] for each in service["spec"].get("ports") or ()}
    if strange := [each for each in spec.get("ports") or () if each not in ports]:
        has = ", ".join(map(str, sorted(ports))) or "no port"
        return "NoPort", f"spec.ports: the Service has no port {strange[0]} (it has {has}): correct it"
    for field, named in (("from", spec.get("from") or ()), ("to", [each["cluster"] for each in spec.get("to") or ()])):
        if unknown := [each for each in named if each not in clusters]:
            return "UnknownCluster", f"spec.{field}: {_unknown(unknown[0], clusters)}"
    for each in spec.get("to") or ():
        if (there := namespace_of(each, namespace)) == namespace:
            continue
        if elsewhere is None:
            where = f"spec.to: namespace {there} is not that of this link"
            return "NamespaceUnsupported", f"{where}: set --link-namespaces of the agent, or remove it"
        if each["cluster"] not in elsewhere:
            where = f"spec.to: the Target {each['cluster']} is for namespace {namespace} alone, and not for {there}"
            return "UnknownCluster", f"{where}: name a ClusterTarget"
    driver = spec.get("driver")
    if driver is not None and not named_driver(driver):
        return "UnknownDriver", no_driver("spec.driver", driver)
    return misread(service["metadata"].get("annotations"))


def _unknown(name: str, clusters: set[str]) -> str:
    return (
        f"no Target of this namespace and no ClusterTarget is called {name} (there is: {', '.join(sorted(clusters))});"
        " correct it, or create the Target"
    )


class Pair(msgspec.Struct, frozen=True):
    """Callers in one cluster, and the endpoints that another one offers."""

    consumer: str
    source: str
    driver: str
    """Empty if there is no path."""
    programmed: Finding
    connected: Finding
    endpoints: int
    """Number of ready endpoints that the source offers."""
    namespace: str = ""
    """Namespace of the callers, empty for that of the link."""

    @property
    def finding(self) -> Finding:
        """The first aspect that is not True, else the last one."""
        return self.programmed if self.programmed.status != "True" else self.connected


def without_effect(affinity: str, drivers: Collection[str]) -> str:
    """Return which of these drivers an affinity has no effect with, and the remedy; empty if it has with all."""
    found = sorted({each for each in drivers if each and each not in _EFFECTIVE.get(affinity, (each,))})
    if not found or any(map(external, found)):
        return ""
    supporting = ", ".join(_EFFECTIVE[affinity])
    return f"affinity {affinity} has no effect with the driver {', '.join(found)} (it has with {supporting}): remove it"


def said_by(name: str, link: Mapping[str, Any]) -> tuple[Finding, Finding]:
    """Return the conditions of another controller, the driver `external/NAME`, for the link's present generation."""
    programmed, connected = (_said(name, type, link) for type in (PROGRAMMED, CONNECTED))
    return programmed, connected


def _said(name: str, type: str, link: Mapping[str, Any]) -> Finding:
    said = condition_of(link, f"{name}/{type}")
    bad: Status = "False" if type == PROGRAMMED else "Unknown"
    if said is None:
        return Finding(bad, "Pending", f"its controller has told no condition {name}/{type} here: see that it runs")
    generation = link["metadata"].get("generation", 0)
    if said.get("observedGeneration", generation) < generation:
        return Finding(bad, "Pending", f"condition {name}/{type} is not of generation {generation} yet")
    status: Status = said["status"] if said.get("status") in ("True", "False") else "Unknown"
    if status == "True":
        return Finding(status, type, str(said.get("message", "")))
    return Finding(status, str(said.get("reason") or "Pending"), str(said.get("message", "")))


def federated(service: str) -> str:
    """Return the name of Linkerd's federated Service for Services of one name in several clusters."""
    return f"{service}-federated"
