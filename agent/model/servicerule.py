"""Rules from a Service's links and annotations: which clusters receive which endpoints, by which driver. Pure.

An invalid part of a link (for example an unknown cluster) has no effect and is reported in its condition
Accepted; the rest of the link is in effect.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api import names
from agent.api.names.links import AFFINITIES, AFFINITY, external


class Wish(msgspec.Struct, frozen=True):
    """The valid part of one ServiceLink's spec."""

    ports: frozenset[int] | None = None
    sources: frozenset[str] | None = None
    """Clusters whose endpoints are offered, None for all."""
    consumers: frozenset[str] | None = None
    """Clusters whose callers in the same namespace reach the endpoints, None for all."""
    elsewhere: frozenset[tuple[str, str]] = frozenset()
    """Clusters and other namespaces whose callers reach the endpoints."""
    driver: str = ""
    affinity: str = ""

    def offers(self, source: Collection[str]) -> bool:
        """Return whether a cluster's endpoints are offered.

        :param source: all names of the cluster
        """
        return self.sources is None or not self.sources.isdisjoint(source)

    def allows(self, source: Collection[str], consumer: Collection[str], namespace: str = "") -> bool:
        """Return whether callers in one cluster reach endpoints of another; both are given by all their names.

        :param namespace: of the callers, empty for that of the Service
        """
        if not self.offers(source):
            return False
        if namespace:
            return any((each, namespace) in self.elsewhere for each in consumer)
        return self.consumers is None or not self.consumers.isdisjoint(consumer)


@dataclass(frozen=True)
class Rule:
    """Combination of all links and annotations of a Service."""

    wishes: tuple[Wish, ...] = ()
    driver: str = ""
    """Driver that a user has chosen; empty if none."""
    affinity: str = ""

    @property
    def elsewhere(self) -> frozenset[tuple[str, str]]:
        """Clusters and other namespaces whose callers are named in any link."""
        return frozenset[tuple[str, str]]().union(*(wish.elsewhere for wish in self.wishes))

    def allows(self, source: Collection[str], consumer: Collection[str], namespace: str = "") -> bool:
        """Return whether any link allows callers in one cluster to reach endpoints of another. Without links,
        all callers in the Service's namespace may.
        """
        if not self.wishes:
            return not namespace
        return any(wish.allows(source, consumer, namespace) for wish in self.wishes)

    def ports(self, source: Collection[str], consumer: Collection[str], namespace: str = "") -> frozenset[int] | None:
        """Return ports of the Service that are published, None for all."""
        found = frozenset[int]()
        for wish in self.wishes:
            if wish.allows(source, consumer, namespace):
                if wish.ports is None:
                    return None
                found |= wish.ports
        return found if self.wishes else None


ANYTHING = Rule()
Firsts = Mapping[str, tuple[str, str]]
"""Field to the name of the first link with a value for it, and the value."""
_DECIDED_BY_FIRST = ("driver", "affinity")


def service_of(link: Mapping[str, Any]) -> str:
    """Return the name of a link's Service."""
    return str((link.get("spec") or {}).get("service") or link["metadata"]["name"])


def wish(link: Mapping[str, Any]) -> Wish:
    """Parse the spec of a link."""
    spec, namespace = link.get("spec") or {}, link["metadata"]["namespace"]
    to = [(str(each["cluster"]), namespace_of(each, namespace)) for each in spec.get("to") or ()]
    return Wish(
        frozenset(spec["ports"]) if spec.get("ports") else None,
        frozenset(spec["from"]) if spec.get("from") else None,
        None if not to else frozenset(cluster for cluster, where in to if where == namespace),
        frozenset(each for each in to if each[1] != namespace),
        named_driver(spec.get("driver")),
        _known(spec.get("affinity"), AFFINITIES),
    )


def rule(annotations: Mapping[str, str] | None, links: Iterable[Mapping[str, Any]]) -> Rule:
    """Return a Service's rule: driver and affinity of the first link by name that has any, else of its annotations."""
    return combined(annotations, [wish(each) for each in sorted(links, key=_name_of)])


def combined(annotations: Mapping[str, str] | None, in_order: Iterable[Wish]) -> Rule:
    """Return the rule for wishes, given in the order of their links' names."""
    wishes = tuple(in_order)
    driver = named_driver(names.annotation(annotations, names.NETWORK_DRIVER))
    affinity = _known(names.annotation(annotations, AFFINITY), AFFINITIES)
    return Rule(
        wishes,
        next((each.driver for each in wishes if each.driver), driver),
        next((each.affinity for each in wishes if each.affinity), affinity),
    )


def firsts(links: Iterable[Mapping[str, Any]]) -> Firsts:
    """Return the link of a Service that decides each field in `_DECIDED_BY_FIRST`: the first by name."""
    found: dict[str, tuple[str, str]] = {}
    for link in sorted(links, key=_name_of):
        its = wish(link)
        for field in _DECIDED_BY_FIRST:
            if (value := getattr(its, field)) and field not in found:
                found[field] = _name_of(link), value
    return found


def overruled(link: Mapping[str, Any], of_service: Firsts) -> tuple[str, str] | None:
    """Return reason and message if a field of the link has no effect because an earlier link has another value.
    Return None if all fields are in effect.
    """
    own = wish(link)
    for field in _DECIDED_BY_FIRST:
        mine, (first, theirs) = getattr(own, field), of_service.get(field, ("", ""))
        if mine and theirs not in ("", mine):
            counts = f"ServiceLink {first}, the first by name of this Service's, says {theirs}"
            return "Conflict", f"spec.{field}: {mine} has no effect, for {counts}: say the same, or remove it from one"
    return None


def misread(annotations: Mapping[str, str] | None) -> tuple[str, str] | None:
    """Return reason and message for an invalid annotation of a Service; None if all are valid."""
    driver, affinity = names.annotation(annotations, names.NETWORK_DRIVER), names.annotation(annotations, AFFINITY)
    if driver is not None and not named_driver(driver):
        return "UnknownDriver", no_driver(f"annotation {names.SHORT_PREFIX}{names.NETWORK_DRIVER}", driver)
    if affinity is not None and affinity not in AFFINITIES:
        where, choose = f"annotation {names.SHORT_PREFIX}{AFFINITY}", ", ".join(AFFINITIES)
        return "InvalidAffinity", f"{where}: {affinity[:100]!r} is none; choose one of {choose}, or remove it"
    return None


def no_driver(where: str, driver: str) -> str:
    """Return the message for an invalid driver name, with the remedy."""
    choose = ", ".join(names.DRIVER_CHOICES)
    return f"{where}: {driver[:100]!r} is no driver; choose one of {choose}, or remove it"


def named_driver(name: str | None) -> str:
    """Return the name if such a driver exists, else an empty string."""
    return name if name is not None and (name in names.NETWORK_DRIVERS or external(name)) else ""


def _known(value: str | None, among: Collection[str]) -> str:
    return value if value is not None and value in among else ""


def _name_of(link: Mapping[str, Any]) -> str:
    return str(link["metadata"]["name"])


def namespace_of(consumer: Mapping[str, Any], own: str) -> str:
    """Return the namespace of the callers that a link names."""
    return str(consumer.get("namespace") or own)
