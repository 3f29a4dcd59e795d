"""What becomes of a shared Service's endpoints between two clusters: the driver, whether they are told, and if not why.

Pure. The names of states and reasons are those that conditions of links have: Ready is True, False or Unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.names.links import BY_GATEWAY, GATEWAY_USABLE, external
from agent.model import podranges
from agent.model.pod_networks import ANSWERS, Networks, overlap

LOCAL_NAME = "local-cluster"
"""This cluster, as Open Cluster Management calls it."""
NO_GATEWAY = "it has no gateway: install the chart there with gateway.enabled"
"""Of a target that tells of none."""
_BY_ADDRESSES, _OFF, _EXTERNAL = "EndpointSlices", "Off", "External"
REASONS = {
    names.ENDPOINT_SLICES_DRIVER: _BY_ADDRESSES,
    "cilium": "Cilium",
    "mcs": "MCS",
    "istio": "Istio",
    "linkerd": "Linkerd",
    names.SKUPPER_DRIVER: "Skupper",
    "gateway": BY_GATEWAY,
    "none": _OFF,
}
"""Of drivers, as the condition ServicesShared has them; `external/NAME` has External."""
_DRIVERS = {reason: name for name, reason in REASONS.items()}


def reason_of(driver: str) -> str:
    """What a driver is known by: its reason, its name where that is of another controller; empty for no driver."""
    return driver if external(driver) else REASONS.get(driver, "")


def told_by(annotations: Mapping[str, str] | None, said: Mapping[str, Any]) -> str:
    """The same of the driver that a Target tells, by its annotations and its condition."""
    named = names.annotation(annotations, names.NETWORK_DRIVER) or ""
    reason = str(said.get("reason", ""))
    return named if reason == _EXTERNAL and external(named) else reason


def between_targets(one: str, other: str, *, apart: bool, gateways: bool) -> str:
    """The driver of two targets, by the reasons of those that they have with this cluster; empty if there is none.

    :param apart: whether pods of both may have the same addresses
    :param gateways: whether both have gateways that may be used
    """
    if one == other and not (one == _BY_ADDRESSES and apart):
        return one
    return BY_GATEWAY if gateways and one and other and _OFF not in (one, other) else ""


def no_gateway(target: Mapping[str, Any]) -> str:
    """Why a target's gateways cannot be used with those of other targets, empty where they can."""
    said = condition_of(target, GATEWAY_USABLE)
    if said is None:
        return NO_GATEWAY
    return "" if said.get("status") == "True" else str(said.get("message", "")) or NO_GATEWAY


@dataclass(frozen=True)
class Peer:
    """A target, with what its Target says of shared Services."""

    name: str
    status: str = ""
    """Of its condition ServicesShared, empty where it has none."""
    reason: str = ""
    message: str = ""
    networks: Networks = ()
    """Where its pods are, empty where that is not known or a person says that they are reached."""
    no_gateway: str = NO_GATEWAY
    """Why its gateways cannot be used with those of other targets, empty where they can."""
    is_self: bool = False


@dataclass(frozen=True)
class Link:
    """Two clusters, and whether each learns of the endpoints that a Service has in the other one."""

    one: str
    other: str
    driver: str
    ready: str
    reason: str
    message: str

    @property
    def is_home(self) -> bool:
        """Whether this cluster is one of the two."""
        return self.one == LOCAL_NAME


def peer(target: dict[str, Any], told: Networks) -> Peer:
    """What a Target says; `told` are the networks that its cluster tells."""
    said = condition_of(target, "ServicesShared") or {}
    metadata, spec = target["metadata"], target.get("spec") or {}
    named = podranges.of(target).networks
    by_hand = names.annotation(metadata.get("annotations") or {}, names.NETWORK_DRIVER) == names.ENDPOINT_SLICES_DRIVER
    return Peer(
        metadata["name"],
        str(said.get("status", "")),
        told_by(metadata.get("annotations"), said),
        str(said.get("message", "")),
        () if by_hand else told if named is None else named,
        no_gateway(target),
        is_self=bool(spec.get("self")),
    )


def links(peers: Sequence[Peer]) -> list[Link]:
    """One for each pair of clusters, those with this cluster first."""
    others = [each for each in peers if not each.is_self]
    home = [_with_home(each) for each in others]
    return [*home, *(_between(one, other) for one, other in combinations(others, 2))]


def link(one: Peer | None, other: Peer) -> Link:
    """The one of two targets, or (without the first) of this cluster and a target."""
    return _with_home(other) if one is None else _between(one, other)


def _with_home(other: Peer) -> Link:
    driver, ready, reason, message = _state(other)
    return Link(LOCAL_NAME, other.name, driver, ready, reason, message)


def _state(other: Peer) -> tuple[str, str, str, str]:
    """Driver, ready, reason and message between this cluster and a target."""
    if other.status == "False":
        return "", "False", other.reason, other.message
    if other.status != "True":
        return "", "Unknown", "Pending", "the agent has not said yet which driver it has"
    if other.reason == _OFF:
        return "", "False", "NoPath", f"its Target is annotated {names.SHORT_PREFIX}{names.NETWORK_DRIVER}: none"
    connected = other.reason == _BY_ADDRESSES and ANSWERS in other.message
    driver = _DRIVERS.get(other.reason, other.reason)
    return driver, "True", "Connected" if connected else "Unverified", other.message


def _between(one: Peer, other: Peer) -> Link:
    """Two targets have the driver that both have with this cluster, and learn of each other through this cluster.

    Where that leads nowhere they have gateways, if both may use some.
    """
    states = [(each, _state(each)) for each in (one, other)]
    for each, (_, ready, reason, message) in states:
        if ready != "True":
            return Link(one.name, other.name, "", ready, reason, f"{each.name}: {message}")
    common = overlap(one.networks, other.networks)
    lacking = [f"{each.name}: {each.no_gateway}" for each in (one, other) if each.no_gateway]
    reason = between_targets(one.reason, other.reason, apart=bool(common), gateways=not lacking)
    if reason:
        message = "nobody can ask from one target whether it reaches the other"
        return Link(one.name, other.name, _DRIVERS.get(reason, reason), "True", "Unverified", message)
    drivers = [driver for _, (driver, *_) in states]
    apart = (
        f"{common} is in the pod networks of both: spec.podCIDRs of the Targets names the right ranges"
        if drivers[0] == drivers[1]
        else f"{one.name} has the driver {drivers[0]}, {other.name} {drivers[1]}: annotate both Targets with one"
    )
    message = f"{apart}; or have them use gateways ({'; '.join(lacking)})"
    return Link(one.name, other.name, "", "False", "NoPath", message)
