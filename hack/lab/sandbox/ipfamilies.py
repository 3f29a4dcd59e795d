"""IP families of a sandbox, and the ranges of its clusters in each. Pure.

Cluster number n has the pods 10.(224+n).0.0/16 and fd66:6c74:e0:n::/64, and the Services 10.(96+n).0.0/16 and
fd66:6c74:60:n::/112. All IPv6 ranges are private ones of RFC 4193.
"""

import ipaddress
from collections.abc import Mapping
from typing import Literal

Family = Literal["ipv4", "ipv6", "dual"]
Version = Literal[4, 6]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

VERSIONS: Mapping[Family, tuple[Version, ...]] = {"ipv4": (4,), "ipv6": (6,), "dual": (4, 6)}
"""IP versions of a family, the primary one of each cluster first."""
POD_NETWORKS: Mapping[Version, str] = {4: "10.224.0.0/11", 6: "fd66:6c74:e0::/48"}
"""Networks of all pods of a sandbox, by IP version."""

SUBNETS = 92 * 256
"""Number of IPv4 subnets between the pod and service networks."""
_IPV6_SUBNETS = 1 << 24


def pods(version: Version, number: int) -> Network:
    """Return the pod network of a cluster by its number."""
    return ipaddress.ip_network(f"10.{224 + number}.0.0/16" if version == 4 else f"fd66:6c74:e0:{number:x}::/64")


def services(version: Version, number: int) -> Network:
    """Return the network of ClusterIPs of a cluster by its number."""
    return ipaddress.ip_network(f"10.{96 + number}.0.0/16" if version == 4 else f"fd66:6c74:60:{number:x}::/112")


def subnet(version: Version, number: int) -> Network:
    """Return one of the networks that can join the clusters of a sandbox; numbers start again after the last one.

    Those of IPv4 are 10.128.0.0/24 to 10.219.255.0/24: service and pod networks have the rest of 10.0.0.0/8.
    """
    if version == 4:
        high, low = divmod(number % SUBNETS, 256)
        return ipaddress.ip_network(f"10.{128 + high}.{low}.0/24")
    high, low = divmod(number % _IPV6_SUBNETS, 1 << 16)
    return ipaddress.ip_network(f"fd66:6c75:{high:x}:{low:x}::/64")


def version_of(text: str) -> Version:
    """Return the IP version of an address or of a range."""
    return 6 if ":" in text else 4
