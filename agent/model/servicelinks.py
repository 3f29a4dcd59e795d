"""ServiceLinks: the one that every shared Service has, and what is told on each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import Status, condition_of, set_condition
from agent.api.kinds import SERVICE_LINKS, SERVICES
from agent.model.abridged import abridged
from agent.model.servicerule import misread, named_driver, namespace_of, no_driver, service_of

Raw = dict[str, Any]

ACCEPTED, PROGRAMMED, CONNECTED, READY = "Accepted", "Programmed", "Connected", "Ready"
UNVERIFIED = "Unverified"
_MESSAGE_LIMIT = 1024
_SHOWN = 3


def made_for(service: Mapping[str, Any]) -> Raw:
    """The link of a shared Service for which its user has written none."""
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
    """Whether a link is as we have made it for some Service."""
    name = link["metadata"]["name"]
    owners = [(each["kind"], each["name"]) for each in link["metadata"].get("ownerReferences") or ()]
    return link.get("spec") == {"service": name} and owners == [(SERVICES.name, name)]


def is_untouched(link: Mapping[str, Any], service: Mapping[str, Any]) -> bool:
    """Whether a link is as we have made it for this Service."""
    (uid,) = [each["uid"] for each in link["metadata"]["ownerReferences"]] if is_made(link) else [""]
    return bool(uid == service["metadata"]["uid"])


@dataclass(frozen=True)
class Finding:
    """One aspect, as a condition has it."""

    status: Status
    reason: str
    message: str = ""


def accepted(
    link: Mapping[str, Any],
    service: Mapping[str, Any] | None,
    shared: bool,
    clusters: set[str],
    elsewhere: set[str] | None = None,
) -> Finding:
    """Whether all of a link is understood.

    :param clusters: all names of clusters that pods of the namespace may be in
    :param elsewhere: those of clusters in which other namespaces can be linked, None where that is not allowed
    """
    problem = _with_service(link, service, shared) or _with_spec(link, service or {}, clusters, elsewhere)
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
    """Empty where there is no way."""
    programmed: Finding
    connected: Finding
    endpoints: int
    """Ready ones that the source offers."""
    namespace: str = ""
    """Of the callers, empty for that of the link."""

    @property
    def finding(self) -> Finding:
        """The first aspect that does not hold, else the last one."""
        return self.programmed if self.programmed.status != "True" else self.connected

    @property
    def ready(self) -> Status:
        """Whether callers reach the endpoints as far as anybody knows."""
        return _usable(self.finding)


def said_by(name: str, link: Mapping[str, Any]) -> tuple[Finding, Finding]:
    """What another controller, the driver `external/NAME`, tells: conditions of its own of the generation that is."""
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


def status(link: Mapping[str, Any], accepted: Finding, pairs: Sequence[Pair], own_endpoints: int, now: datetime) -> Raw:
    """The status of a link.

    :param own_endpoints: ready ones in all clusters that offer theirs
    """
    programmed, connected = _programmed(accepted, pairs), _connected(accepted, pairs, own_endpoints)
    conditions = (link.get("status") or {}).get("conditions")
    generation = link["metadata"].get("generation")
    for type, found in (
        (ACCEPTED, accepted),
        (PROGRAMMED, programmed),
        (CONNECTED, connected),
        (READY, _ready(accepted, programmed, connected)),
    ):
        message = found.message[:_MESSAGE_LIMIT]
        conditions = set_condition(conditions, type, found.status, found.reason, message, now, generation)
    rows = _rows(pairs, link["metadata"]["namespace"]) if accepted.status == "True" else []
    return {"host": _host(link, pairs), "clusters": rows, "conditions": conditions}


def federated(service: str) -> str:
    """Name of the Service that Linkerd makes of those of a name in several clusters."""
    return f"{service}-federated"


def _host(link: Mapping[str, Any], pairs: Sequence[Pair]) -> str:
    """Under its own name a Service leads to its own cluster, where the Multi-Cluster Services API or Linkerd do the
    rest.
    """
    name, drivers = service_of(link), {pair.driver for pair in pairs}
    if drivers == {"linkerd"}:
        return federated(name)
    return f"{name}.{link['metadata']['namespace']}.svc.clusterset.local" if drivers == {"mcs"} else name


def _rows(pairs: Sequence[Pair], namespace: str) -> list[Raw]:
    """One for the pairs of a cluster's callers that are alike, in the order of the pairs."""
    rows: dict[tuple[str, str, str, str], Raw] = {}
    for pair in pairs:
        driver, found = pair.driver or "none", pair.finding
        row = rows.setdefault(
            (pair.consumer, pair.namespace, driver, found.reason),
            {
                "cluster": pair.consumer,
                "namespace": pair.namespace or namespace,
                "driver": driver,
                "from": [],
                "ready": pair.ready,
                "reason": found.reason,
                "message": found.message[:_MESSAGE_LIMIT],
                "endpoints": 0,
            },
        )
        row["from"].append(pair.source)
        row["endpoints"] += pair.endpoints
    return list(rows.values())


def _programmed(accepted: Finding, pairs: Sequence[Pair]) -> Finding:
    if accepted.status != "True":
        return Finding("Unknown", "Pending", "the link is not accepted")
    return _worst([(pair, pair.programmed) for pair in pairs]) or Finding("True", PROGRAMMED)


def _connected(accepted: Finding, pairs: Sequence[Pair], own_endpoints: int) -> Finding:
    if accepted.status != "True":
        return Finding("Unknown", "Pending", "the link is not accepted")
    if not own_endpoints:
        return Finding("False", "NoEndpoints", "no endpoint is ready in any cluster: see the pods of the Service")
    return _worst([(pair, pair.connected) for pair in pairs]) or Finding("True", CONNECTED)


def _worst(found: Sequence[tuple[Pair, Finding]]) -> Finding | None:
    """What is False or else Unknown, with the pairs that it is about; None where all is True."""
    for status in ("False", "Unknown"):
        worse = [(pair, each) for pair, each in found if each.status == status]
        if worse:
            reason = min((each.reason for _, each in worse), key=lambda reason: reason == UNVERIFIED)
            these = [(pair, each) for pair, each in worse if each.reason == reason]
            told = [f"{_callers(pair)} from {pair.source}: {each.message}" for pair, each in these]
            return Finding(worse[0][1].status, reason, abridged(told, _SHOWN, "; "))
    return None


def _callers(pair: Pair) -> str:
    return f"{pair.consumer} (namespace {pair.namespace})" if pair.namespace else pair.consumer


def _ready(*aspects: Finding) -> Finding:
    """The first that is False, then the first that is not known."""
    for status in ("False", "Unknown"):
        for found in aspects:
            if _usable(found) == status:
                return found
    return Finding("True", READY)


def _usable(found: Finding) -> Status:
    """Nobody has measured it, and nothing speaks against it: that counts as well."""
    return "True" if found.reason == UNVERIFIED and found.status == "Unknown" else found.status
