"""Addresses that pods of a target may have: `spec.podCIDRs` of a Target or ClusterTarget. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Raw = dict[str, Any]

_LONGEST = 49
"""Characters of a CIDR; no address has more than 45."""
_SHOWN = 5


@dataclass(frozen=True)
class PodRanges:
    """Networks, None for any address."""

    networks: tuple[Network, ...] | None = None

    def holds(self, address: object) -> bool:
        """Whether a pod may have this address."""
        if self.networks is None:
            return True
        found = _address(address) if isinstance(address, str) and len(address) <= _LONGEST else None
        return found is not None and any(found in network for network in self.networks)


ANYWHERE = PodRanges()


def of(target: Mapping[str, Any]) -> PodRanges:
    """The ranges that a Target names; what is no CIDR holds no address."""
    named = (target.get("spec") or {}).get("podCIDRs")
    if named is None:
        return ANYWHERE
    networks = (_network(each) for each in (named if isinstance(named, list) else ()))
    return PodRanges(tuple(network for network in networks if network is not None))


def flaw(text: str) -> str:
    """What is wrong with a CIDR, and the remedy; empty if nothing is."""
    network = _network(text)
    if network is None:
        return f"{text[:_LONGEST]!r} is no CIDR: write an address and the length of its prefix, as 10.1.0.0/16"
    if str(network.network_address) != str(_address(text.partition("/")[0])):
        return f"{text!r} has bits set after its prefix: write {network}"
    return ""


def without_outside(status: Raw, ranges: PodRanges) -> tuple[Raw, str]:
    """A pod's status without its addresses outside the ranges, and which these are; empty if there are none."""
    if ranges.networks is None:
        return status, ""
    listed, first = status.get("podIPs"), status.get("podIP")
    entries = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    if first and (not entries or entries[0].get("ip") != first):
        # Where they differ, API servers believe podIP.
        entries = [{"ip": first}, *entries]
    kept = [each for each in entries if ranges.holds(each.get("ip"))]
    outside = [str(each.get("ip"))[:_LONGEST] for each in entries if each not in kept]
    if not outside:
        return status, ""
    rest = {key: value for key, value in status.items() if key not in ("podIP", "podIPs")}
    inside = {"podIP": kept[0]["ip"], "podIPs": kept} if kept else {}
    return {**rest, **inside}, shown(outside)


def shown(addresses: list[str]) -> str:
    """The first few of a list."""
    more = len(addresses) - _SHOWN
    return ", ".join(addresses[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


@lru_cache(maxsize=4096)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address without a zone, which would say more than a pod's address can."""
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def _network(text: object) -> Network | None:
    if not isinstance(text, str) or len(text) > _LONGEST:
        return None
    address, _, length = text.partition("/")
    if "%" in address or not (length.isascii() and length.isdecimal()):
        return None
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
