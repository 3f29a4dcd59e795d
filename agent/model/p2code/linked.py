"""Workloads that call Services in other clusters, and whether ServiceLinks connect them. Pure."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agent.api.conditions import find_condition
from agent.api.kinds import SERVICE_LINKS
from agent.api.names.p2code import cut
from agent.model.abridged import abridged
from agent.model.links import Link
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.detect import Call, Key
from agent.model.p2code.status import Told
from agent.model.servicelinks import ACCEPTED, NO_ENDPOINTS

READY = "LinksReady"
NO_PATH = "NoPath"
POLICIES_STAY = "PoliciesStay"
_UNTOLD = "Untold"
PATIENCE = timedelta(seconds=30)
"""Seconds to wait for a link that is not ready yet."""
_SHOWN = 3


class Need(NamedTuple):
    """A call from pods in one cluster to a Service with pods in another cluster, or in another namespace."""

    caller: str
    """Name of the bundle."""
    call: Call
    consumer: str
    source: str
    """ManagedClusters of callers and Service; the source is empty for a Service outside the application."""
    namespace: str = ""
    """Namespace of the caller, if it is not that of the Service."""


class Standing(NamedTuple):
    """State of all needs."""

    told: Told
    broken: bool
    """Whether some callers cannot reach a Service."""
    again: float | None
    """Seconds until the next check without an event; None if none is due."""


def needs(
    bundles: Sequence[Bundle],
    clusters: Mapping[str, str],
    calls: Mapping[str, Iterable[Call]],
    *,
    elsewhere: bool = False,
    live: Collection[Key] = (),
) -> tuple[Need, ...]:
    """Return calls to other clusters, and with `elsewhere` also calls to other namespaces.

    :param live: Services outside the application that may be called as well
    """
    homes: dict[Key, set[str]] = {}
    for bundle in bundles:
        for each in bundle.manifests:
            if each.kind == "Service":
                homes.setdefault((each.namespace, each.name), set()).add(clusters[bundle.name])
    found = []
    for bundle in bundles:
        consumer = clusters[bundle.name]
        for call in calls.get(bundle.name, ()):
            sources = homes.get(call.service, set())
            away = bundle.manifests[0].namespace if elsewhere else call.service[0]
            if not sources and call.service not in live:
                continue
            if consumer not in sources or away != call.service[0]:
                source = consumer if consumer in sources else min(sources, default="")
                found.append(Need(bundle.name, call, consumer, source, away if away != call.service[0] else ""))
    return tuple(found)


def service_links(psm: str, wanted: Iterable[Need], called: Callable[[str, str], str]) -> list[dict[str, Any]]:
    """Return a ServiceLink for each Service and namespace of callers in other namespaces; other callers need none."""
    found: dict[tuple[Key, str], list[Need]] = {}
    for need in wanted:
        if need.namespace:
            found.setdefault((need.call.service, need.namespace), []).append(need)
    links = []
    for ((namespace, service), callers), some in sorted(found.items()):
        consumers = sorted({called(callers, need.consumer) for need in some} - {""})
        spec = {
            "service": service,
            "ports": sorted({need.call.port for need in some}),
            "to": [{"cluster": each, "namespace": callers} for each in consumers],
        }
        metadata = {"name": cut(f"{service}-{callers}-{psm}"), "namespace": namespace}
        kind = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name}
        links += [{**kind, "metadata": metadata, "spec": spec}] if consumers else []
    return links


def rows_of(link: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return a ServiceLink's rows by cluster of callers; with the reason in each row if it is not accepted."""
    status = link.get("status") or {}
    accepted = find_condition(status.get("conditions"), ACCEPTED) or {}
    if accepted.get("status") != "False":
        return status.get("clusters") or ()
    refused = {"ready": "False", "reason": accepted.get("reason"), "message": accepted.get("message")}
    return [{**each, **refused} for each in (link.get("spec") or {}).get("to") or ()]


def standing(
    wanted: Sequence[Need],
    rows: Callable[[Key], Sequence[Mapping[str, Any]]],
    called: Callable[[str, str], str],
    conditions: Iterable[Mapping[str, Any]] | None,
    now: datetime,
) -> Standing:
    """Return the state of needs by their ServiceLinks.

    :param rows: returns the rows of a Service's links
    :param called: returns the name of a ManagedCluster in links of a namespace
    :param conditions: previous conditions, with the time since when a link is not ready
    """
    every = ((need, *_found(need, rows(need.call.service), called)) for need in wanted)
    found = [each for each in every if each[1] != _UNTOLD]
    cut = [(need, message) for need, reason, message in found if reason == NO_PATH]
    pending = [(need, message) for need, reason, message in found if reason not in (NO_PATH, "")]
    if cut:
        return Standing(Told(READY, NO_PATH, _words(cut), "False"), broken=True, again=None)
    if not pending:
        return Standing(Told(READY, "Connected" if found else ""), broken=False, again=None)
    told = Told(READY, "Pending", _words(pending), "False")
    before = find_condition(conditions, READY) or {}
    since = datetime.fromisoformat(before["lastTransitionTime"]) if before.get("status") == "False" else now
    left = (since + PATIENCE - now).total_seconds()
    return Standing(told, broken=left <= 0, again=max(left, 0.1) if left > 0 else None)


def unknown_path(namespace: str, one: str, other: str) -> Link:
    """Return a link with unknown state."""
    return Link(one, other, "", "Unknown", "Pending", "the agent has not said yet which driver it has")


def by_drivers(
    wanted: Iterable[Need], path: Callable[[str, str, str], Link], called: Callable[[str, str], str]
) -> Callable[[Key], Sequence[Mapping[str, Any]]]:
    """Return the rows for `standing`, from the drivers of Targets instead of ServiceLinks.

    :param path: returns the link between two ManagedClusters of a namespace's Targets
    """
    rows: dict[Key, list[dict[str, Any]]] = {}
    for need in wanted:
        if not need.source or need.source == need.consumer:
            continue
        namespace = need.call.service[0]
        link = path(namespace, need.consumer, need.source)
        reason = NO_PATH if link.ready == "False" else link.reason
        consumer, source = called(need.namespace or namespace, need.consumer), called(namespace, need.source)
        told = {"ready": link.ready, "reason": reason, "message": link.message}
        found = {"cluster": consumer, "namespace": need.namespace or namespace, "from": [source], **told}
        rows.setdefault(need.call.service, []).append(found)
    return lambda service: rows.get(service, ())


def with_policies(told: Told, left: str) -> Told:
    """Add the message `left` about NetworkPolicies that are not copied to targets; it is empty if all are."""
    if not left:
        return told
    if told.status == "False":
        return told._replace(message=f"{told.message}; {left}")
    return Told(READY, POLICIES_STAY, left)


def _found(need: Need, rows: Sequence[Mapping[str, Any]], called: Callable[[str, str], str]) -> tuple[str, str]:
    """Return reason and message why callers do not reach a Service; both empty if they do."""
    namespace = need.call.service[0]
    consumer = called(need.namespace or namespace, need.consumer)
    source = called(namespace, need.source) if need.source else ""
    for row in rows:
        if row.get("namespace", namespace) != (need.namespace or namespace):
            continue
        if row.get("cluster") == consumer and (not source or source in row.get("from", (source,))):
            # Links do not depend on ready pods.
            if row.get("ready") == "True" or row.get("reason") == NO_ENDPOINTS:
                return "", ""
            return str(row.get("reason") or "Pending"), str(row.get("message") or "")
    # The cluster of other applications' pods is unknown: links have no row if it is the callers' own.
    return ("Pending", "nothing is told of endpoints yet") if source else (_UNTOLD, "")


def _words(found: Sequence[tuple[Need, str]]) -> str:
    words = [
        f"workload {need.caller} in {need.consumer} calls {need.call}{f' in {need.source}' * bool(need.source)}: {told}"
        for need, told in found
    ]
    return abridged(words, _SHOWN, "; ")
