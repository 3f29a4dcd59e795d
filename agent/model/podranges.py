"""Addresses that pods of a target may have: `spec.podCIDRs` of a Target or ClusterTarget. Pure."""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.names import links
from agent.model.abridged import abridged

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Raw = dict[str, Any]

_LONGEST = 49
"""Maximum length of a CIDR in characters; an address has at most 45."""
_SHOWN = 5
_NOT_REACHED = "pods are not reached at their addresses"


def families(networks: Iterable[Network]) -> frozenset[str]:
    """Return the IP families of networks, as named in Services and EndpointSlices."""
    return frozenset(f"IPv{each.version}" for each in networks)


@dataclass(frozen=True)
class PodRanges:
    """Networks of a target's pods, None for any address."""

    networks: tuple[Network, ...] | None = None
    strange: str = ""
    """Reason of ServicesShared why the addresses are not the target's pods in the source; empty if they are."""
    excluded: tuple[Network, ...] = ()
    """Networks whose addresses are not published. Only for endpoints that a user has written."""

    def holds(self, address: object) -> bool:
        """Return whether a pod may have this address."""
        if self.networks is None and not self.excluded:
            return True
        found = _address(address) if isinstance(address, str) and len(address) <= _LONGEST else None
        if self.networks is None:
            if found is None:
                return _is_host_name(address)
            return not any(found in network for network in self.excluded)
        return found is not None and any(found in network for network in self.networks)


ANYWHERE = PodRanges()


def unreached(reason: str) -> str:
    """Return the note in ServicesShared if pod addresses cannot be used, and the driver does not need them."""
    return f"{_NOT_REACHED} ({reason})"


def why_unreached(said: Mapping[str, Any]) -> str:
    """Return why a target's pods are not reached at their addresses, by its condition; empty if no reason is known.

    If a user sets the driver `endpointslices` on the Target, the condition has no such reason.
    """
    reason, message = str(said.get("reason", "")), str(said.get("message", ""))
    if said.get("status") == "False" and reason in links.NOT_FLAT:
        return reason
    if _NOT_REACHED not in message:
        return ""
    return next((each for each in links.NOT_FLAT if unreached(each) in message), reason)


def last_verdict(said: Mapping[str, Any] | None) -> str | None:
    """Return why pods are not reached by the last verdict: empty if they are, None if the condition has no verdict."""
    if not said or said.get("status") not in ("True", "False"):
        return None
    reason = why_unreached(said)
    return None if reason == links.UNTOLD else reason


def why_withheld(said: Mapping[str, Any]) -> str:
    """Return why addresses of a target's pods are not published, by its condition: also for the driver `gateway`."""
    by_gateway = (said.get("status"), said.get("reason")) == ("True", links.BY_GATEWAY)
    return links.BY_GATEWAY if by_gateway else why_unreached(said)


def why_hidden(target: Mapping[str, Any]) -> str:
    """Return why addresses of a Target's pods are not published, empty if they are.

    Without a verdict they are not, unless the Target is the local cluster or has the driver `endpointslices`.
    """
    said = condition_of(target, links.SERVICES_SHARED)
    annotations = (target.get("metadata") or {}).get("annotations")
    if said is not None:
        return why_withheld(said)
    by_hand = names.annotation(annotations, names.NETWORK_DRIVER) == names.ENDPOINT_SLICES_DRIVER
    return "" if by_hand or (target.get("spec") or {}).get("self") else links.UNTOLD


def published(target: Mapping[str, Any]) -> PodRanges:
    """Return the ranges of a Target's pods, and whether their addresses are published."""
    return PodRanges(of(target).networks, why_hidden(target))


def of(target: Mapping[str, Any]) -> PodRanges:
    """Return the ranges that a Target sets; an invalid CIDR contains no address."""
    strange = why_withheld(condition_of(target, links.SERVICES_SHARED) or {})
    named = (target.get("spec") or {}).get("podCIDRs")
    if named is None:
        return PodRanges(None, strange)
    found = (network(each) for each in (named if isinstance(named, list) else ()))
    return PodRanges(tuple(each for each in found if each is not None), strange)


def flaw(text: str) -> str:
    """Return the problem of a CIDR, with the remedy; empty if it is valid."""
    found = network(text)
    if found is None:
        return f"{text[:_LONGEST]!r} is no CIDR: write an address and the length of its prefix, as 10.1.0.0/16"
    if str(found.network_address) != str(_address(text.partition("/")[0])):
        return f"{text!r} has bits set after its prefix: write {found}"
    return ""


class LeftOut(NamedTuple):
    """Addresses of a delegate that are omitted from its proxy pod, and the reason."""

    reason: str
    message: str


def without_outside(status: Raw, ranges: PodRanges) -> tuple[Raw, LeftOut | None]:
    """Return a pod's status without addresses outside the ranges, or unusable in the source."""
    if ranges.networks is None and not ranges.strange:
        return status, None
    entries = _entries(status)
    kept = [each for each in entries if ranges.holds(each.get("ip"))]
    outside = [str(each.get("ip"))[:_LONGEST] for each in entries if each not in kept]
    if ranges.strange and kept:
        where = (
            "it is not known yet where that leads from here, and it"
            if ranges.strange == links.UNTOLD
            else "from here that leads to other pods, if to any, and"
        )
        left_out = LeftOut(
            ranges.strange,
            f"{strangers(status, ranges)}: {where} is left out; see the condition ServicesShared of the Target",
        )
        kept = []
    elif outside:
        where = "outside spec.podCIDRs of the Target, and left out; add the range there if it is right"
        left_out = LeftOut("OutsidePodCIDRs", f"{shown(outside)}: {where}")
    else:
        return status, None
    rest = {key: value for key, value in status.items() if key not in ("podIP", "podIPs")}
    inside = {"podIP": kept[0]["ip"], "podIPs": kept} if kept else {}
    return {**rest, **inside}, left_out


def strangers(status: Raw, ranges: PodRanges) -> str:
    """Return a pod's addresses that cannot be used in the source, for its proxy pod's annotation; empty for none."""
    if not ranges.strange:
        return ""
    told = [each["ip"][:_LONGEST] for each in _entries(status) if isinstance(each.get("ip"), str)]
    return shown([each for each in told if ranges.holds(each)])


def addresses(pod: Mapping[str, Any]) -> set[str]:
    """Return a pod's addresses in its own cluster, even if its proxy pod has them only in an annotation."""
    found = {each["ip"] for each in (pod.get("status") or {}).get("podIPs") or () if each.get("ip")}
    told = (pod["metadata"].get("annotations") or {}).get(links.ANNOTATION_POD_IPS, "")
    return found | set(filter(None, told.split(", ")))


def _entries(status: Raw) -> list[Raw]:
    listed, first = status.get("podIPs"), status.get("podIP")
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if first and (not entries or entries[0].get("ip") != first):
        # If they differ, API servers use podIP.
        entries = [{"ip": first}, *entries]
    return entries


def shown(addresses: list[str]) -> str:
    """Return the first few of a list as text."""
    return abridged(addresses, _SHOWN)


@lru_cache(maxsize=4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Parse an address; None for one with a zone, which pods do not have."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_host_name(text: object) -> bool:
    """Return whether a text is a host name.

    Addresses that only Python rejects are none: Kubernetes reads 010.1.0.7 as 10.1.0.7.
    """
    return isinstance(text, str) and ":" not in text and text[-1:].isalpha()


def network(text: object) -> Network | None:
    """Parse a CIDR; return None if it is invalid."""
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    address, _, length = text.partition("/")
    if "%" in address or not (length.isascii() and length.isdecimal()):
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
