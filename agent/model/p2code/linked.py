"""Which workloads call Services in other clusters, and whether they reach them, as ServiceLinks tell. Pure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from agent.api.conditions import find_condition
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.detect import Call, Key
from agent.model.p2code.status import Told

READY = "LinksReady"
NO_PATH = "NoPath"
PATIENCE = timedelta(seconds=30)
"""For how long a link that is being made is waited for."""
_SHOWN = 3


class Need(NamedTuple):
    """Pods in one cluster call a Service whose pods are in another."""

    caller: str
    """Name of the bundle."""
    call: Call
    consumer: str
    source: str
    """Of both the ManagedCluster."""


class Standing(NamedTuple):
    """How it is about all of them."""

    told: Told
    broken: bool
    """Whether some callers do not reach what they call."""
    again: float | None
    """In how many seconds to look again, though nothing changes."""


def needs(
    bundles: Sequence[Bundle], clusters: Mapping[str, str], calls: Mapping[str, Iterable[Call]]
) -> tuple[Need, ...]:
    """The calls that leave a cluster."""
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
            if sources and consumer not in sources:
                found.append(Need(bundle.name, call, consumer, min(sources)))
    return tuple(found)


def standing(
    wanted: Sequence[Need],
    rows: Callable[[Key], Sequence[Mapping[str, Any]]],
    called: Callable[[str, str], str],
    conditions: Iterable[Mapping[str, Any]] | None,
    now: datetime,
) -> Standing:
    """What ServiceLinks tell of these.

    :param rows: of a Service, what its links tell by cluster
    :param called: how links in a namespace call a ManagedCluster
    :param conditions: what was told before: since when a link is waited for
    """
    found = [(need, *_found(need, rows(need.call.service), called)) for need in wanted]
    cut = [(need, message) for need, reason, message in found if reason == NO_PATH]
    pending = [(need, message) for need, reason, message in found if reason not in (NO_PATH, "")]
    if cut:
        return Standing(Told(READY, NO_PATH, _words(cut), "False"), broken=True, again=None)
    if not pending:
        return Standing(Told(READY, "Connected" if wanted else ""), broken=False, again=None)
    told = Told(READY, "Pending", _words(pending), "False")
    before = find_condition(conditions, READY) or {}
    since = datetime.fromisoformat(before["lastTransitionTime"]) if before.get("status") == "False" else now
    left = (since + PATIENCE - now).total_seconds()
    return Standing(told, broken=left <= 0, again=max(left, 0.1) if left > 0 else None)


def _found(need: Need, rows: Sequence[Mapping[str, Any]], called: Callable[[str, str], str]) -> tuple[str, str]:
    """Why callers do not reach a Service, empty if they do, and in words."""
    namespace = need.call.service[0]
    consumer, source = called(namespace, need.consumer), called(namespace, need.source)
    for row in rows:
        if row.get("cluster") == consumer and source in (row.get("from") or ()):
            if row.get("ready") == "True":
                return "", ""
            return str(row.get("reason") or "Pending"), str(row.get("message") or "")
    return "Pending", "nothing is told of endpoints yet"


def _words(found: Sequence[tuple[Need, str]]) -> str:
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    each = (
        f"workload {need.caller} in {need.consumer} calls {need.call} in {need.source}: {message}"
        for need, message in found[:_SHOWN]
    )
    return "; ".join(each) + more
