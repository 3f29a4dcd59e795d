"""Mirrors: EndpointSlices in one cluster with the endpoints of another cluster (ruling 12).

A mirror has the addresses, ports, conditions, host names and zones of its original. It has no nodeName and no
targetRef, which are valid only in the original's cluster. The Service in the mirror's own cluster owns it.
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
"""Label of EndpointSlices of headless Services; kube-proxy ignores slices with it."""
_COPIED = ("addresses", "hostname", "zone")


class Shelf(msgspec.Struct, frozen=True):
    """Service that owns mirrors, in their cluster."""

    namespace: str
    service: str
    uid: str
    labels: tuple[tuple[str, str], ...] = ()
    """Additional labels of the mirrors, by which agents select them."""


_OUR_MANAGERS = ".flotilla"
"""Suffix of the managers of EndpointSlices that the agent writes: mirrors, and those of gateways and of Skupper."""


def is_own(labels: Mapping[str, str]) -> bool:
    """Return True if an EndpointSlice has endpoints of its own cluster: Kubernetes or a user has written it."""
    return not labels.get(names.LABEL_SLICE_MANAGED_BY, "").endswith(_OUR_MANAGERS)


def is_mirror(labels: Mapping[str, str]) -> bool:
    """Return True if an EndpointSlice with these labels is a mirror."""
    return labels.get(names.LABEL_SLICE_MANAGED_BY) == names.SLICE_MANAGER


def mirrors(
    slice: Mapping[str, Any],
    origin: str,
    shelf: Shelf,
    away: Collection[str] = (),
    ranges: PodRanges = ANYWHERE,
    ports: Collection[str] | None = None,
    more: Mapping[str, str] | None = None,
) -> list[Raw]:
    """Return the mirrors of one EndpointSlice of `origin`: [] without endpoints, several for more than 100.

    :param away: names of nodes whose endpoints are left out; addresses outside of `ranges` are, too
    :param ports: names of the ports to keep; None for all
    :param more: further labels of the mirrors
    """
    found = [each for each in slice.get("endpoints") or () if each.get("nodeName") not in away]
    endpoints = [_mirrored(each) for each in _inside(found, ranges)]
    labels = {**_labels(slice, origin, shelf), **(more or {})}
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


def _labels(slice: Mapping[str, Any], origin: str, shelf: Shelf) -> dict[str, str]:
    own = slice["metadata"].get("labels") or {}
    return {
        **dict(shelf.labels),
        names.LABEL_SERVICE_NAME: shelf.service,
        names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER,
        names.LABEL_ORIGIN: origin,
        **{key: own[key] for key in (HEADLESS_LABEL, *MCS_LABELS) if key in own},
    }


def _owner(shelf: Shelf) -> Raw:
    head = {"apiVersion": SERVICES.api_version, "kind": SERVICES.name}
    return {**head, "name": shelf.service, "uid": shelf.uid, "controller": True}


def outside(slice: Mapping[str, Any], ranges: PodRanges) -> list[str]:
    """Return the addresses of an EndpointSlice that are outside the ranges of its cluster."""
    found = (address for each in slice.get("endpoints") or () for address in each.get("addresses") or ())
    return [str(address) for address in found if not ranges.holds(address)]


def silenced(mirror: Mapping[str, Any]) -> Raw:
    """Return the mirror for a disconnected cluster: no endpoint is ready or serving, as on a lost node."""
    return {
        **mirror,
        "endpoints": [
            {**each, "conditions": {**(each.get("conditions") or {}), "ready": False, "serving": False}}
            for each in mirror.get("endpoints") or ()
        ],
    }


def held(mirror: Mapping[str, Any]) -> Raw:
    """Return the mirror without a ready endpoint, for a cluster with ready endpoints of its own (affinity `local`).

    The endpoints are still serving; `silenced` changes that if their cluster becomes disconnected.
    """
    return {
        **mirror,
        "endpoints": [
            {**each, "conditions": {**(each.get("conditions") or {}), "ready": False}}
            for each in mirror.get("endpoints") or ()
        ],
    }


def ready(slice: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses of ready endpoints by node name (empty for none). A missing condition counts as true."""
    found: dict[str, list[str]] = {}
    for each in slice.get("endpoints") or ():
        if (each.get("conditions") or {}).get("ready") is not False:
            found.setdefault(each.get("nodeName") or "", []).extend(each["addresses"])
    return found


def routed(slice: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the addresses of ready endpoints that do not terminate, by node name.

    A Service with `publishNotReadyAddresses` reports terminating endpoints as ready.
    """
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
