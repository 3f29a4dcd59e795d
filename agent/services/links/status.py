"""Status of a ServiceLink: its rows, its conditions, and the host name for callers. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from agent.api.conditions import Status, set_condition
from agent.model.abridged import abridged
from agent.model.servicelinks import (
    ACCEPTED,
    AWAY,
    CONNECTED,
    NO_ENDPOINTS,
    PROGRAMMED,
    READY,
    UNVERIFIED,
    Finding,
    Pair,
    federated,
)
from agent.model.servicerule import service_of

Raw = dict[str, Any]

_MESSAGE_LIMIT = 1024
_SHOWN = 3


class Offered(NamedTuple):
    """Endpoints of all clusters that a link offers: those in its `from`, or all."""

    ready: int
    silent: tuple[str, ...] = ()
    """Clusters whose endpoints are unknown."""


def status(link: Mapping[str, Any], accepted: Finding, pairs: Sequence[Pair], offered: Offered, now: datetime) -> Raw:
    """Return the status of a link."""
    lacking = _lacking(link, offered)
    programmed, connected = _programmed(accepted, pairs), _connected(accepted, pairs, lacking)
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
    host = _host(link, pairs)
    rows = _rows(link, pairs, host) if accepted.status == "True" else []
    return {"host": host, "clusters": rows, "conditions": conditions}


def _host(link: Mapping[str, Any], pairs: Sequence[Pair]) -> str:
    """Return the host name with which callers reach all endpoints; the Service's own name if no single one does."""
    leading = [pair for pair in pairs if _has_path(pair)] or [pair for pair in pairs if pair.driver]
    found = {_host_by(link, pair.driver) for pair in leading}
    return found.pop() if len(found) == 1 else service_of(link)


def _has_path(pair: Pair) -> bool:
    return bool(pair.driver) and pair.connected.reason != "NoPath"


def _host_by(link: Mapping[str, Any], driver: str) -> str:
    """Return the host name for a driver. With the Multi-Cluster Services API or Linkerd, the Service's own name
    selects only local endpoints.
    """
    name = service_of(link)
    if driver == "linkerd":
        return federated(name)
    return f"{name}.{link['metadata']['namespace']}.svc.clusterset.local" if driver == "mcs" else name


def _rows(link: Mapping[str, Any], pairs: Sequence[Pair], host: str) -> list[Raw]:
    """Return one row for similar pairs of a cluster's callers, in the order of the pairs."""
    alike: dict[tuple[str, ...], list[Pair]] = {}
    for pair in pairs:
        alike.setdefault((pair.consumer, pair.namespace, pair.driver or "none", pair.finding.reason), []).append(pair)
    rows: dict[tuple[str, ...], Raw] = {}
    for (consumer, elsewhere, driver, _), these in alike.items():
        found, called = _together(these), _host_by(link, driver)
        told = found.message
        if called != host and _has_path(these[0]):
            told = f"callers use {called}; {told}".removesuffix("; ")
        row = rows.setdefault(
            (consumer, elsewhere, driver, found.reason),
            {
                "cluster": consumer,
                "namespace": elsewhere or link["metadata"]["namespace"],
                "driver": driver,
                "from": [],
                "ready": _usable(found),
                "reason": found.reason,
                "message": told[:_MESSAGE_LIMIT],
                "endpoints": 0,
            },
        )
        row["from"] += [pair.source for pair in these]
        row["endpoints"] += sum(pair.endpoints for pair in these)
    return list(rows.values())


def _together(alike: Sequence[Pair]) -> Finding:
    """Return the finding of pairs in one row; if no source has a ready endpoint, the row is not ready."""
    found = alike[0].finding
    if _usable(found) != "True" or any(pair.endpoints for pair in alike):
        return found
    return Finding("False", NO_ENDPOINTS, "no endpoint is ready there: see the pods of the Service")


def _programmed(accepted: Finding, pairs: Sequence[Pair]) -> Finding:
    if accepted.status != "True":
        return Finding("Unknown", "Pending", "the link is not accepted")
    return _worst([(pair, pair.programmed) for pair in pairs]) or Finding("True", PROGRAMMED)


def _connected(accepted: Finding, pairs: Sequence[Pair], lacking: Finding | None) -> Finding:
    if accepted.status != "True":
        return Finding("Unknown", "Pending", "the link is not accepted")
    if lacking is not None:
        return lacking
    return _worst([(pair, pair.connected) for pair in pairs]) or Finding("True", CONNECTED)


def _lacking(link: Mapping[str, Any], offered: Offered) -> Finding | None:
    """Return the reason why there are no endpoints to reach; None if there are some."""
    if offered.ready:
        return None
    named = sorted((link.get("spec") or {}).get("from") or ())
    if not named:
        return Finding("False", NO_ENDPOINTS, "no endpoint is ready in any cluster: see the pods of the Service")
    if offered.silent:
        return Finding("Unknown", AWAY, f"nobody can tell what {abridged(offered.silent, _SHOWN)} has: see its Target")
    where = f"no endpoint is ready in {abridged(named, _SHOWN)}, which spec.from names"
    return Finding("False", NO_ENDPOINTS, f"{where}: see the pods of the Service there, or name other clusters")


def _worst(found: Sequence[tuple[Pair, Finding]]) -> Finding | None:
    """Return the False, or else the Unknown, finding with its pairs; None if all are True."""
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
    """Return the first False finding, or else the first Unknown one."""
    for status in ("False", "Unknown"):
        for found in aspects:
            if _usable(found) == status:
                return found
    return Finding("True", READY)


def _usable(found: Finding) -> Status:
    """Return the status of a finding, where an unverified path counts as True."""
    return "True" if found.reason == UNVERIFIED and found.status == "Unknown" else found.status
