"""EndpointSlices that tell a cluster of endpoints in another one: *mirrors* (ruling 12).

A mirror has the addresses, ports, conditions, host names and zones of what it mirrors. It has no node and no pod, which
mean nothing elsewhere, and belongs to the Service of the cluster that it is in.
"""

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.api.names.mcs import MCS_LABELS
from agent.model.podranges import ANYWHERE, PodRanges

Raw = dict[str, Any]

ENDPOINTS_LIMIT = 100
HEADLESS_LABEL = "service.kubernetes.io/headless"
"""By it kube-proxy leaves EndpointSlices of headless Services alone."""
_COPIED = ("addresses", "hostname", "zone")


class Shelf(msgspec.Struct, frozen=True):
    """Where mirrors go: the Service of one cluster."""

    namespace: str
    service: str
    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Whatever it takes for the mirrors to be found there."""


def is_mirror(labels: Mapping[str, str]) -> bool:
    """Whether an EndpointSlice is one of ours."""
    return labels.get(names.LABEL_SLICE_MANAGED_BY) == names.SLICE_MANAGER


def mirrors(
    slice: Mapping[str, Any],
    origin: str,
    shelf: Shelf,
    away: Collection[str] = (),
    ranges: PodRanges = ANYWHERE,
    ports: Collection[str] | None = None,
) -> list[Raw]:
    """The mirrors of one EndpointSlice of `origin`, without the endpoints on nodes that are `away`, without the
    addresses that are outside the ranges of that cluster, and with the `ports` of these names alone.

    None where that leaves no endpoint; several where it has more than 100 of them.
    """
    found = [each for each in slice.get("endpoints") or () if each.get("nodeName") not in away]
    endpoints = [_mirrored(each) for each in _inside(found, ranges)]
    own = slice["metadata"].get("labels") or {}
    kept = {key: own[key] for key in (HEADLESS_LABEL, *MCS_LABELS) if key in own}
    labels = {
        **dict(shelf.labels),
        names.LABEL_SERVICE_NAME: shelf.service,
        names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER,
        names.LABEL_ORIGIN: origin,
        **kept,
    }
    return [
        {
            "apiVersion": ENDPOINT_SLICES.api_version,
            "kind": ENDPOINT_SLICES.name,
            "metadata": {
                "name": names.mirror(slice["metadata"]["name"], origin, part),
                "namespace": shelf.namespace,
                "labels": labels,
                "ownerReferences": [_owner(shelf)],
            },
            "addressType": slice["addressType"],
            "ports": [each for each in slice.get("ports") or () if ports is None or (each.get("name") or "") in ports],
            "endpoints": endpoints[start : start + ENDPOINTS_LIMIT],
        }
        for part, start in enumerate(range(0, len(endpoints), ENDPOINTS_LIMIT))
    ]


def _owner(shelf: Shelf) -> Raw:
    head = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return {**head, "name": shelf.service, "uid": shelf.uid, "controller": True}


def outside(slice: Mapping[str, Any], ranges: PodRanges) -> list[str]:
    """Addresses of an EndpointSlice that are outside the ranges of its cluster."""
    found = (address for each in slice.get("endpoints") or () for address in each.get("addresses") or ())
    return [str(address) for address in found if not ranges.holds(address)]


def silenced(mirror: Mapping[str, Any]) -> Raw:
    """The mirror of endpoints in a cluster that has gone silent: none of them is ready, as on a node that is lost."""
    return {
        **mirror,
        "endpoints": [
            {**each, "conditions": {**(each.get("conditions") or {}), "ready": False, "serving": False}}
            for each in mirror.get("endpoints") or ()
        ],
    }


def held(mirror: Mapping[str, Any]) -> Raw:
    """The mirror with no endpoint ready, for a cluster with ready ones of its own (affinity local): they still serve.

    A cluster that is silent later has its endpoints not serve either.
    """
    return {
        **mirror,
        "endpoints": [
            {**each, "conditions": {**(each.get("conditions") or {}), "ready": False}}
            for each in mirror.get("endpoints") or ()
        ],
    }


def ready(slice: Mapping[str, Any]) -> dict[str, list[str]]:
    """Addresses of ready endpoints by node name, empty for none. A condition that is not told counts as true."""
    found: dict[str, list[str]] = {}
    for each in slice.get("endpoints") or ():
        if (each.get("conditions") or {}).get("ready") is not False:
            found.setdefault(each.get("nodeName") or "", []).extend(each["addresses"])
    return found


def routed(slice: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the same without terminating endpoints, which a Service that publishes not-ready addresses calls ready."""
    endpoints = slice.get("endpoints") or ()
    return ready({"endpoints": [each for each in endpoints if not (each.get("conditions") or {}).get("terminating")]})


def count_ready(slices: Iterable[Mapping[str, Any]], away: Container[str]) -> int:
    """Return the number of ready endpoints that are not on the nodes `away`.

    A pod of a dual-stack Service has an endpoint in each IP family: those of the family with the most count.
    """
    count = Counter[str]()
    for slice in slices:
        found = ready(slice).items()
        count[slice["addressType"]] += sum(len(addresses) for node, addresses in found if node not in away)
    return max(count.values(), default=0)


def _inside(endpoints: list[Raw], ranges: PodRanges) -> list[Raw]:
    if ranges == ANYWHERE:
        return endpoints
    kept = ({**each, "addresses": list(filter(ranges.holds, each.get("addresses") or ()))} for each in endpoints)
    return [each for each in kept if each["addresses"]]


def _mirrored(endpoint: Mapping[str, Any]) -> Raw:
    result = {field: endpoint[field] for field in _COPIED if endpoint.get(field)}
    conditions = {key: value for key, value in (endpoint.get("conditions") or {}).items() if value is not None}
    if conditions:
        result["conditions"] = conditions
    zones = (endpoint.get("hints") or {}).get("forZones")
    if zones:
        result["hints"] = {"forZones": zones}
    return result
