"""Whether the pod networks of two clusters are flat: pods of each reach the other's at their own addresses. Pure.

This is measured, not assumed. Each cluster publishes its pod networks in its ClusterSummary, with an address at
which a pod of its agent answers with the cluster's UID. Networks are not flat if they overlap, or if another
cluster's agent answers at that address. No answer proves nothing: a NetworkPolicy may block the request. A
cluster whose summary has no networks (Admiralty's) counts as flat. While a summary is missing or invalid, the
last verdict remains; without an earlier verdict, no address is used.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import msgspec

from agent.api import names
from agent.api.names import links
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE
from agent.model import hostport
from agent.model.podranges import Network, network

Networks = tuple[Network, ...]
"""Pod networks of a cluster; empty if they are unknown."""

LIMIT = 256
"""Maximum number of networks in a summary. A cluster with more publishes fewer and wider ones."""
_TEXT_LIMIT = 65536
_SHOWN = 60


class Told(NamedTuple):
    """Pod networks that a cluster publishes."""

    pods: Networks = ()
    health: str = ""
    """ADDRESS:PORT at which a pod of its agent answers with the cluster's UID; empty if it is not published."""
    flaw: str = ""
    """Reason why the published networks cannot be used; `pods` has the valid ones. Empty if all are valid."""

    @property
    def names_all(self) -> bool:
        """Whether `pods` are all networks of the cluster."""
        return bool(self.pods) and not self.flaw


NOTHING_TOLD = Told()


class _Document(msgspec.Struct, omit_defaults=True):
    pods: list[str] = []
    health: str = ""


class _Unchecked(msgspec.Struct):
    """The document before validation: another agent or a user may have written it."""

    pods: Any = []
    health: Any = ""


_decoder = msgspec.json.Decoder(_Unchecked)
_encode = msgspec.json.Encoder(order="sorted").encode


def named_by(node: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the pod networks in a node's spec, as written."""
    spec = node.get("spec") or {}
    return tuple(spec.get("podCIDRs") or ([spec["podCIDR"]] if spec.get("podCIDR") else []))


def united(written: Iterable[str]) -> Networks:
    """Merge networks; if more than `LIMIT` remain, widen the closest ones.

    Ignore strings that are not CIDRs.
    """
    found = _united({each for each in map(network, written) if each is not None})
    if len(found) <= LIMIT:
        return found
    four, six = ([each for each in found if each.version == version] for version in (4, 6))
    most = LIMIT - min(len(six), LIMIT // 2)
    return (*_widened(four, most), *_widened(six, LIMIT - min(len(four), most)))


def _widened(networks: list[Network], most: int) -> Networks:
    """Cover sorted, disjoint networks of one family with at most `most` networks; join the closest ones first."""
    if len(networks) <= most:
        return tuple(networks)
    shared = [_shared_bits(one, other) for one, other in pairwise(networks)]
    joined = set(sorted(range(len(shared)), key=lambda gap: -shared[gap])[: len(networks) - most])
    found: list[Network] = []
    for index, each in enumerate(networks):
        if index - 1 in joined:
            bits = min(shared[index - 1], found[-1].prefixlen)
            found[-1] = found[-1].supernet(new_prefix=bits)
        else:
            found.append(each)
    return tuple(found)


def _shared_bits(one: Network, other: Network) -> int:
    return one.max_prefixlen - (int(one.network_address) ^ int(other.network_address)).bit_length()


def _united(networks: Iterable[Network]) -> Networks:
    four, six = list[ipaddress.IPv4Network](), list[ipaddress.IPv6Network]()
    for each in networks:
        if isinstance(each, ipaddress.IPv4Network):
            four.append(each)
        else:
            six.append(each)
    return (*ipaddress.collapse_addresses(four), *ipaddress.collapse_addresses(six))


def write(pods: Networks, agent: str = "", port: int = 0) -> str:
    """Return the annotation that publishes pod networks; empty if there are none and no address.

    If the agent's own pod is in none of the networks, the network plugin uses ranges other than the nodes'
    `podCIDRs`. The networks are not published in that case.

    :param agent: address of this pod, empty if unknown
    """
    address = _address(agent)
    if address is not None and not _holds(pods, address):
        pods = ()
    health = "" if address is None else f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
    if not pods and not health:
        return ""
    return _encode(_Document([str(each) for each in pods], health)).decode()


def read(annotations: Mapping[str, str] | None) -> Told:
    """Return the networks in a summary's annotations; an invalid field does not invalidate the others."""
    text = (annotations or {}).get(links.ANNOTATION_NETWORKS)
    return _read(text) if text else NOTHING_TOLD


@lru_cache(maxsize=256)  # Each comparison of a copy reads its target's networks: 3.5 ms with 256 networks.
def _read(text: str) -> Told:
    if len(text) > _TEXT_LIMIT:
        return Told(flaw=f"it has {len(text)} characters, and {_TEXT_LIMIT} are allowed")
    try:
        found = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return Told(flaw="it is no JSON object of pods and health")
    health = found.health if isinstance(found.health, str) and _can_be_asked(found.health) else ""
    if not isinstance(found.pods, list):
        return Told(health=health, flaw="pods: is no list of CIDRs")
    pods = [network(each) for each in found.pods[:LIMIT]]
    flaw = ""
    if len(found.pods) > LIMIT:
        flaw = f"pods: has {len(found.pods)} networks, and {LIMIT} are allowed"
    elif None in pods:
        flaw = f"pods: {str(found.pods[pods.index(None)])[:_SHOWN]!r} is no CIDR"
    return Told(_united(each for each in pods if each is not None), health, flaw)


def _can_be_asked(health: str) -> bool:
    """Return whether a pod can have the address: the agent must not send requests to its own node or link."""
    try:
        host, port = hostport.split(health)
    except ValueError:
        return False
    address = _address(host)
    if address is None or not port or (isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped):
        return False
    return not (address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified)


def overlap(one: Networks, other: Networks) -> str:
    """Return a network that is in both, as text; empty if they do not overlap."""
    for a in one:
        for b in other:
            if a.version == b.version and a.overlaps(b):
                return str(max(a, b, key=lambda each: each.prefixlen))
    return ""


class AgentAnswer(msgspec.Struct, frozen=True):
    """Answer at the address that a cluster publishes for its agent."""

    health: str
    answer: str = ""
    """UID of the cluster in the last answer; empty if there has never been an answer."""
    silent: bool = False
    """Whether the address has stopped answering."""


class Flatness(NamedTuple):
    """Whether one cluster reaches pods of another at their own addresses."""

    state: Literal["flat", "not flat", "unverified", "unknown"]
    reason: str = ""
    """Reason for the condition ServicesShared if pod addresses may not be used."""
    message: str = ""
    stands: bool = False
    """Whether this repeats the last verdict because no new one is possible."""

    @property
    def usable(self) -> bool:
        """Whether endpoints may have pod addresses: a missing answer withdraws none."""
        return self.state not in ("not flat", "unknown")


NOT_TOLD = Flatness("unverified")
ANSWERS = "its agent answers at the address of its pod"
"""Message of the state `flat`."""


def waits(here: Told, there: Told, asked: AgentAnswer | None) -> bool:
    """Return whether only the target's agent can decide: it is in a shared network, and has not been asked yet."""
    if not there.health or not _is_in(here.pods, there.health) or (asked is not None and asked.health == there.health):
        return False
    return bool(overlap(here.pods, there.pods))


def judge(
    here: Told | None, there: Told | None, uid: str, asked: AgentAnswer | None, before: str | None = ""
) -> Flatness:
    """Judge whether the local cluster reaches pods of a target at their own addresses.

    :param here: networks of the local cluster; None while its own summary is not cached
    :param there: networks of the target; None while its summary is not cached
    :param uid: of the target; if its agent answers from a network that both have, the overlapping addresses do not
        conflict
    :param asked: answer of the target's agent; None before the first request
    :param before: reason of the last verdict if addresses were not usable, empty if they were, None without a
        verdict
    """
    if here is None or there is None:
        missing = "this cluster" if here is None else "the target"
        return _last(before, f"the ClusterSummary of {missing} is missing or cannot be read. {UNREAD_REMEDY}")
    known = asked is not None and asked.health == there.health
    answer = asked.answer if asked is not None and known else ""
    silence = f"not verified: nobody answers at {there.health}; a NetworkPolicy may be in the way"
    common, flaw = overlap(here.pods, there.pods), here.flaw or there.flaw
    if answer and answer == uid and not flaw and (not common or _is_in(here.pods, there.health)):
        if asked is not None and asked.silent:
            return Flatness("unverified", message=silence)
        return Flatness("flat", message=ANSWERS)
    if common:
        return Flatness("not flat", links.OVERLAP, f"{common} is in the pod networks of both clusters. {REMEDY}")
    if answer and uid and answer != uid:
        who = f"at {there.health}, where its agent is, answers that of cluster {answer[:_SHOWN]}"
        return Flatness("not flat", links.STRANGERS, f"{who}: routes lead elsewhere. {REMEDY}")
    if flaw:
        where = "this cluster" if here.flaw else "the target"
        field = f"annotation {links.ANNOTATION_NETWORKS} of the ClusterSummary of {where}"
        return _last(before, f"{field} cannot be used: {flaw}. {UNREAD_REMEDY}")
    if before == links.STRANGERS:
        return Flatness("not flat", before, f"another cluster's pod answered before, and now nobody does. {REMEDY}")
    if before == links.OVERLAP and not (here.names_all and there.names_all):
        return _last(before, f"both clusters had a pod network in common, and now one of them names none. {REMEDY}")
    return Flatness("unverified", message=silence) if there.health and known else NOT_TOLD


def not_granted(whose: str, refusal: str, before: str | None) -> Flatness:
    """Judge while the local cluster may not read a ClusterSummary; `before` is as for `judge`."""
    return _last(before, f"the ClusterSummary of {whose} may not be read: {refusal}. {REFUSED_REMEDY}")


def _last(before: str | None, why: str) -> Flatness:
    """Return the last verdict while no new one is possible."""
    if before is None or before == links.UNTOLD:
        return Flatness("unknown", links.UNTOLD, f"pod networks are not known: {why}", stands=True)
    if before:
        return Flatness("not flat", before, f"the last verdict stands: {why}", stands=True)
    return Flatness("unverified", stands=True)


REFUSED_REMEDY = (
    f"See that ClusterRole {CLUSTER_SUMMARY_VIEWER_ROLE} is bound there to this account, which the agent there does"
    " for its Sources, and lets it get, list and watch clustersummaries; or annotate the Target"
    f" {names.SHORT_PREFIX}{names.NETWORK_DRIVER} with a driver"
)
UNREAD_REMEDY = (
    "See that the agent runs there and may write its ClusterSummary, and that this agent may read it; or annotate the"
    f" Target {names.SHORT_PREFIX}{names.NETWORK_DRIVER} with a driver"
)
REMEDY = (
    "Give the clusters pod networks of their own that are routed to each other; name the right ranges in spec.podCIDRs"
    f" of the Target, if these are not; or annotate it {names.SHORT_PREFIX}{names.NETWORK_DRIVER}: endpointslices if"
    " its pods are reached all the same, or another driver that needs no addresses of pods: gateway, skupper, or mcs or"
    " istio where that network copes with it"
)


def _is_in(networks: Networks, health: str) -> bool:
    address = _address(hostport.split(health)[0])
    return address is not None and _holds(networks, address)


def _holds(networks: Networks, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    return any(address in each for each in networks)


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None
