"""State of a shared Service's endpoints between two clusters: driver, publication, and the reason.

Pure. States and reasons have the names used in conditions of links: Ready is True, False or Unknown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.names.links import BY_GATEWAY, GATEWAY_USABLE, SERVICES_SHARED, external
from agent.model import podranges
from agent.model.pod_networks import ANSWERS, Networks, overlap

LOCAL_NAME = "local-cluster"
"""Name of the local cluster in Open Cluster Management."""
NO_GATEWAY = "it has no gateway: install the chart there with gateway.enabled"
"""Message for a target that publishes no gateway."""
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
"""Reasons of drivers in the condition ServicesShared; `external/NAME` has External."""
_DRIVERS = {reason: name for name, reason in REASONS.items()}


def reason_of(driver: str) -> str:
    """Return the reason of a driver, or its name if another controller implements it; empty for no driver."""
    return driver if external(driver) else REASONS.get(driver, "")


def told_by(annotations: Mapping[str, str] | None, said: Mapping[str, Any]) -> str:
    """Return the reason of the driver in a Target's condition; its name if it is `external/NAME`."""
    named = names.annotation(annotations, names.NETWORK_DRIVER) or ""
    reason = str(said.get("reason", ""))
    return named if reason == _EXTERNAL and external(named) else reason


def between_targets(one: str, other: str, *, apart: bool, gateways: bool) -> str:
    """Return the reason of the driver between two targets; empty if none fits.

    :param one: reason of the first target's driver with the local cluster; `other` is the second's
    :param apart: whether pods of both may have the same addresses
    :param gateways: whether both have usable gateways
    """
    if one == other and not (one == _BY_ADDRESSES and apart):
        return one
    return BY_GATEWAY if gateways and one and other and _OFF not in (one, other) else ""


def no_gateway(target: Mapping[str, Any]) -> str:
    """Return the reason why a target's gateways cannot be used with those of other targets; empty if they can."""
    said = condition_of(target, GATEWAY_USABLE)
    if said is None:
        return NO_GATEWAY
    return "" if said.get("status") == "True" else str(said.get("message", "")) or NO_GATEWAY


@dataclass(frozen=True)
class Peer:
    """A target, with its Target's state of shared Services."""

    name: str
    status: str = ""
    """Status of its condition ServicesShared; empty if it has none."""
    reason: str = ""
    message: str = ""
    networks: Networks = ()
    """Its pod networks; empty if they are unknown or a user has declared them reachable."""
    no_gateway: str = NO_GATEWAY
    """Reason why its gateways cannot be used with those of other targets; empty if they can."""
    is_self: bool = False


@dataclass(frozen=True)
class Link:
    """Two clusters, and whether each receives the endpoints that a Service has in the other."""

    one: str
    other: str
    driver: str
    ready: str
    reason: str
    message: str

    @property
    def is_home(self) -> bool:
        """Whether the local cluster is one of the two."""
        return self.one == LOCAL_NAME


def peer(target: dict[str, Any], told: Networks) -> Peer:
    """Return the peer for a Target.

    :param told: networks that its cluster publishes
    """
    said = condition_of(target, SERVICES_SHARED) or {}
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
    """Return one link for each pair of clusters; those with the local cluster are first."""
    others = [each for each in peers if not each.is_self]
    home = [_with_home(each) for each in others]
    return [*home, *(_between(one, other) for one, other in combinations(others, 2))]


def link(one: Peer | None, other: Peer) -> Link:
    """Return the link between two targets, or between the local cluster and a target if `one` is None."""
    return _with_home(other) if one is None else _between(one, other)


def _with_home(other: Peer) -> Link:
    driver, ready, reason, message = _state(other)
    return Link(LOCAL_NAME, other.name, driver, ready, reason, message)


def _state(other: Peer) -> tuple[str, str, str, str]:
    """Return driver, ready, reason and message between the local cluster and a target."""
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
    """Return the link between two targets.

    They use the driver that both have with the local cluster, and receive endpoints through it. If that has no
    path, they use gateways, if both may.
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
