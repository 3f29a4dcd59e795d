"""Local ports of a cluster's gateways: which numbers represent which ports of Services in other clusters. Pure.

One pool serves all namespaces of a cluster, and each number costs every gateway pod a listener. Quotas keep one
namespace, or one source in it, from using up the pool. A number that has been allotted stays allotted, also where a
quota is exceeded: quotas limit only new numbers.
"""

from collections import deque
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from agent.model.abridged import abridged
from agent.model.gatewaypeer import FIRST_PORT, LAST_PORT

SOURCE_LIMIT = 8_000
"""Local ports of one source in one namespace: 2,000 Services with four each, with which an Envoy takes 334 MiB."""
NAMESPACE_LIMIT = 10_000
"""Local ports of all sources in one namespace. The source in an object's label does not prove its author."""
RESERVED = 4_000
"""The last free ports of the pool. Only namespaces with fewer than `SMALL` get one of these."""
SMALL = 200
_OF_WEIGHTS = 0.75
"""Fraction of a quota up to which a port of a Service may have more than one local port."""
_SHOWN = 5


class Want(NamedTuple):
    """A Service, or a host of a headless one, that needs local ports. It gets one for each port, or none at all."""

    name: str
    ports: tuple[tuple[Any, ...], ...]
    """A key for each port; empty if this Service is one too many."""
    weight: int = 1
    """Local ports for each port, if quotas allow that many."""


class Held(NamedTuple):
    """Numbers of local ports that other GatewayPeers of the same namespace have."""

    namespace: int = 0
    source: int = 0
    """Numbers of the same source alone."""


class Allotted(NamedTuple):
    """Local ports by key, and the names without any."""

    ports: dict[Hashable, list[int]]
    refused: tuple[str, ...] = ()
    """Names of Services and hosts without local ports."""
    reason: str = ""
    """The limit that they exceed."""

    @property
    def problem(self) -> str:
        """A message with names, limit and remedy; empty if nothing is refused."""
        if not self.refused:
            return ""
        what = abridged(self.refused, _SHOWN)
        return f"no local ports for {what}: {self.reason}: share fewer Services, or ports of them, by gateways"


def allot(
    wants: Sequence[Want], had: Mapping[Hashable, Collection[int]], taken: Collection[int], held: Held, namespace: str
) -> Allotted:
    """Keep the local ports of each want, and add new ones as far as quotas allow.

    A released number is not reused at once, since gateways may still listen on it for its former port.

    :param had: current local ports by key, including keys that are no longer wanted
    :param taken: numbers that represent something of another GatewayPeer
    """
    used, kept = set(taken), dict[Hashable, list[int]]()
    for key in (port for want in wants for port in want.ports if port not in kept):
        kept[key] = []
        for number in had.get(key, ()):
            if FIRST_PORT <= number <= LAST_PORT and number not in used:
                kept[key].append(number)
                used.add(number)
    used.update(number for numbers in had.values() for number in numbers)
    free = [number for number in range(FIRST_PORT, LAST_PORT + 1) if number not in used]
    quota = _quota(held, sum(map(len, kept.values())), len(free), namespace)
    new, refused = deque(free[: quota.ports]), list[str]()
    for want in wants:
        lacking = [port for port in want.ports if not kept[port]]
        if len(lacking) > len(new) or not want.ports:
            refused.append(want.name)
            continue
        for port in lacking:
            kept[port].append(new.popleft())
    for _ in range(quota.ports - quota.weights):
        if new:
            new.pop()
    for want in wants:
        for port in want.ports:
            while new and 0 < len(kept[port]) < want.weight:
                kept[port].append(new.popleft())
    return Allotted({key: found for key, found in kept.items() if found}, tuple(refused), quota.reason)


class _Quota(NamedTuple):
    ports: int
    """Number of port numbers that may be added."""
    weights: int
    """Number of them that may be second and further local ports of a port."""
    reason: str


def _quota(held: Held, kept: int, free: int, namespace: str) -> _Quota:
    """Return the number of new local ports for a GatewayPeer, and the limit that decides it."""
    in_namespace, of_source = held.namespace + kept, held.source + kept
    unreserved = max(0, free - RESERVED)
    pool = max(unreserved, min(free, SMALL - in_namespace))
    where = f"local ports in namespace {namespace}"
    pooled = f"{free} of all local ports ({FIRST_PORT} to {LAST_PORT}) are free, {RESERVED} of them for namespaces with"
    limits = (
        (SOURCE_LIMIT - of_source, f"its source has {of_source} of {SOURCE_LIMIT} {where}"),
        (NAMESPACE_LIMIT - in_namespace, f"all sources have {in_namespace} of {NAMESPACE_LIMIT} {where}"),
        (pool, f"{pooled} fewer than {SMALL}"),
    )
    ports, reason = min(limits)
    spread = (
        int(SOURCE_LIMIT * _OF_WEIGHTS) - of_source,
        int(NAMESPACE_LIMIT * _OF_WEIGHTS) - in_namespace,
        unreserved,
    )
    return _Quota(max(0, ports), max(0, min(ports, *spread)), reason)
