"""Local ports of one GatewayPeer, as its status lists them. Pure.

A port of a peer's Service gets local ports only if the Service exists in the cluster, the same source has shared it,
and it has that port. The writer of a GatewayPeer may name anything.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from agent.model import gatewaylink, localports
from agent.model.abridged import abridged
from agent.model.gatewayhosts import HEADLESS, locals_of
from agent.model.gatewaylink import CALLED, NO_PORT
from agent.model.gatewaypeer import Protocol
from agent.model.gatewayslices import weight
from agent.model.hostservices import HostService
from agent.model.localports import NAMESPACE_LIMIT, Held, Want
from agent.model.servicelinks import PROGRAMMED, Finding

Raw = dict[str, Any]
Port = tuple[int, Protocol]
Ports = Mapping[str, Collection[Port]]
"""Ports that may be called, by Service."""
NOTHING_HELD = Held()
LACKING = "Services that lack ports"
"""Beginning of the message if the Services of a peer exist, but not with all of their ports."""
_SHOWN = 5


class Usable(NamedTuple):
    """Services of a peer, as the cluster has them."""

    ports: Ports
    left_out: list[str]
    """Services without any port that may be called, and why."""
    lacking: list[str]
    """Services with some of their ports, and which one they lack."""


def ports_of(service: Mapping[str, Any]) -> frozenset[Port]:
    """Return the ports of a Service, by its spec."""
    return frozenset((number, each) for each in CALLED for _, number in gatewaylink.ports_of(service, each))


def named(peer: Mapping[str, Any]) -> dict[str, frozenset[Port]]:
    """Return the ports that a GatewayPeer names, by Service."""
    found = dict[str, set[Port]]()
    for protocol, each in gatewaylink.called(peer):
        found.setdefault(each["name"], set()).update((port["port"], protocol) for port in each["ports"])
    return {name: frozenset(ports) for name, ports in found.items()}


def missing(ports: Collection[Port]) -> str:
    """Return that a Service does not have these ports; empty if there are none."""
    if not ports:
        return ""
    number, protocol = min(ports)
    more = f" and {len(ports) - 1} more" if len(ports) > 1 else ""
    return f"it has no port {number}/{protocol}{more}"


def programmed(problem: str, services: Usable, of_hosts: str) -> Finding:
    """Return the condition Programmed. With the reason NoPort, the other Services of the peer are served.

    :param problem: which Services exceed a quota; empty if none
    :param of_hosts: which hosts of headless Services are left out; empty if none
    """
    if problem:
        return Finding("False", NO_PORT, problem)
    if services.left_out:
        every = abridged([*services.left_out, *services.lacking], _SHOWN)
        return Finding("False", "NoService", f"Services that cannot be called: {every}")
    if services.lacking:
        return Finding("False", NO_PORT, f"{LACKING}: {abridged(services.lacking, _SHOWN)}")
    return Finding("True", PROGRAMMED, of_hosts)


def allot(
    peer: Mapping[str, Any],
    ports: Ports,
    found: Sequence[HostService],
    taken: Collection[int],
    gateways: int,
    held: Held = NOTHING_HELD,
) -> tuple[Raw, str]:
    """Return local ports of a peer's Services and hosts, by field of the status, and why some have none.

    A port over the quota stays, with its connections, until the Service is no longer called.

    :param ports: ports of Services that exist and are shared
    :param found: hosts of its headless Services
    :param taken: numbers that represent something of another peer
    """
    services, hosts = list(_services(peer, ports, gateways)), list(_hosts(found, gateways))
    had: dict[Hashable, Collection[int]] = dict((*gatewaylink.locals_of(peer).items(), *locals_of(peer).items()))
    wants = [*(want for _, want in services), *(want for _, want in hosts)]
    allotted = localports.allot(wants, had, taken, held, peer["metadata"]["namespace"])
    made: Raw = {field: [] for field in (*CALLED.values(), HEADLESS)}
    for protocol, want in services:
        if told := _told(want, 1, allotted.ports):
            made[CALLED[protocol]].append({"name": want.name, "ports": told})
    for host, want in hosts:
        if told := _told(want, 2, allotted.ports):
            made[HEADLESS].append({"name": host.at[0], "host": host.at[1], "ports": told})
    return made, allotted.problem


def _services(peer: Mapping[str, Any], ports: Ports, gateways: int) -> Iterator[tuple[Protocol, Want]]:
    """Yield a want for each Service. Beyond the quota, evaluate only Services that have local ports."""
    count, had = 0, {(name, protocol) for name, _, protocol in gatewaylink.locals_of(peer)}
    for protocol, each in gatewaylink.called(peer):
        name, some = each["name"], ports.get(each["name"], ())
        if not some:
            continue
        if count >= NAMESPACE_LIMIT and (name, protocol) not in had:
            yield protocol, Want(name, ())
            continue
        numbers = dict.fromkeys(port["port"] for port in each["ports"] if (port["port"], protocol) in some)
        keys = tuple((name, number, protocol) for number in numbers)
        count += len(keys)
        if keys:
            yield protocol, Want(name, keys, weight(each.get("ready", 0), gateways))


def _hosts(found: Sequence[HostService], gateways: int) -> Iterator[tuple[HostService, Want]]:
    for host in found:
        keys = tuple((*host.at, number) for number in dict.fromkeys(number for _, number in host.ports))
        name = f"{host.at[1]} of {host.at[0]}" if host.at[1] else host.at[0]
        yield host, Want(name, keys, weight(host.ready, gateways))


def _told(want: Want, at: int, allotted: Mapping[Hashable, list[int]]) -> list[Raw]:
    """:param at: where in the keys of its ports the number is"""
    return [{"port": key[at], "locals": allotted[key]} for key in want.ports if key in allotted]
