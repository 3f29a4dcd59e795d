"""Services that an application's pods call, from hosts in their configuration and from annotations. Pure.

A host counts only if a Service with its name and port exists.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from agent.api import names
from agent.api.names.p2code import DEPENDS_ON, IGNORE_LINKS
from agent.model.p2code.manifests import InvalidManifest, Manifest, Raw, objects
from agent.model.p2code.search import Searched, search

Key = tuple[str, str]
"""Namespace and name."""
Services = Mapping[Key, frozenset[int]]
"""Ports by Service."""

_REFERENCE = re.compile(r"(?:(?P<namespace>[a-z0-9-]+)/)?(?P<name>[a-z0-9-]+)(?::(?P<port>[0-9]{1,5}))?")
_REMEDY = "write NAMESPACE/NAME:PORT, several with commas"
_ALL = "*"
CALLS = 10_000
"""Maximum number of calls of an application, each Service and port once per workload."""


class Call(NamedTuple):
    """A Service that pods of a workload call."""

    service: Key
    port: int

    def __str__(self) -> str:
        return f"{'/'.join(self.service)}:{self.port}"


class _Reference(NamedTuple):
    """One entry of an annotation."""

    service: Key
    port: int
    """0 for all."""


def services(manifests: Iterable[Manifest]) -> dict[Key, frozenset[int]]:
    """Return the Services among manifests, with their ports."""
    return {(each.namespace, each.name): ports(each.raw) for each in manifests if each.kind == "Service"}


def ports(service: Raw) -> frozenset[int]:
    """Return the ports of a Service."""
    found = (each.get("port") for each in objects(service, "spec", "ports"))
    return frozenset(each for each in found if isinstance(each, int))


class Book:
    """Index for calls: the manifests of an application, and Services that exist already."""

    def __init__(self, manifests: Collection[Manifest], live: Services, searched: Searched | None = None) -> None:
        self.searched = search(manifests) if searched is None else searched
        self.defined = services(manifests)
        self.known = {**live, **self.defined}
        self.named: dict[str, list[Key]] = {}
        self.serving: dict[tuple[str, int], list[Key]] = {}
        """Services by name and port."""
        for key, its in self.defined.items():
            self.named.setdefault(key[1], []).append(key)
            for port in its:
                self.serving.setdefault((key[1], port), []).append(key)


def calls(workload: Manifest, book: Book) -> tuple[Call, ...]:
    """Return the Services that pods of a workload call, among those of its application and those in its namespaces.

    :raises InvalidManifest: if one of its annotations does not name Services
    """
    if (names.annotation(_annotations(workload), IGNORE_LINKS) or "").strip() == _ALL:
        return ()
    hosts = book.searched.hosts.get(workload.identity, ())
    wanted = {each for host, port in hosts if (each := _meant(host, port, workload.namespace, book)) is not None}
    found = {call for service, port in wanted for call in _calls(service, port, book)}
    for each in _declared(workload, DEPENDS_ON):
        found |= {Call(each.service, each.port)} if each.port else set(_calls(each.service, None, book))
    ignored = {tuple(each) for each in _declared(workload, IGNORE_LINKS)}
    return tuple(sorted(call for call in found if not ignored & {(call.service, 0), (call.service, call.port)}))


def check(workload: Manifest) -> None:
    """Check a workload's annotations.

    :raises InvalidManifest: if one of them does not name Services
    """
    for suffix in (DEPENDS_ON, IGNORE_LINKS):
        _declared(workload, suffix)


def _annotations(workload: Manifest) -> dict[str, str]:
    return {key: value for key, value in workload.annotations.items() if isinstance(value, str)}


def _declared(workload: Manifest, suffix: str) -> set[_Reference]:
    said = names.annotation(_annotations(workload), suffix) or ""
    found = set()
    for part in (each.strip() for each in said.split(",") if each.strip()):
        if part == _ALL and suffix == IGNORE_LINKS:
            continue
        match = _REFERENCE.fullmatch(part)
        if match is None or not int(match["port"] or 1) < 65536:
            key = names.SHORT_PREFIX + suffix
            raise InvalidManifest(
                f"invalid manifest: {workload.kind.lower()} {workload.name}: metadata.annotations[{key}]: {part!r} is "
                f"no Service: {_REMEDY}"
            )
        service = (match["namespace"] or workload.namespace, match["name"])
        found.add(_Reference(service, int(match["port"] or 0)))
    return found


def _meant(host: str, port: int | None, namespace: str, book: Book) -> tuple[Key, int | None] | None:
    """Return the Service and port that an address represents; None if it represents no Service."""
    key = next((each for each in _keys(host, namespace) if each in book.known), None)
    if key is None:
        # P2CODE's scheduler also reaches Services of other clusters by name alone, whatever the namespace.
        found = book.named.get(host, ()) if port is None else book.serving.get((host, port), ())
        if len(found) != 1:
            return None
        key = found[0]
    return key, port


def _calls(service: Key, port: int | None, book: Book) -> Iterable[Call]:
    """Return the calls of one port if the Service has it, or of all its ports if `port` is None."""
    there = book.known.get(service, frozenset())
    if port is None:
        return (Call(service, each) for each in there)
    return (Call(service, port),) if port in there else ()


def _keys(host: str, namespace: str) -> Iterator[Key]:
    """Yield the Services that a name may represent: NAME, or NAME.NAMESPACE with an optional `.svc` suffix. A
    pod's host name may precede it."""
    labels = host.split(".")
    if "svc" in labels[2:]:
        labels = labels[: labels.index("svc", 2)]
        if len(labels) <= 3:
            yield labels[-1], labels[-2]
    elif len(labels) == 1:
        yield namespace, host
    elif len(labels) in (2, 3):
        yield labels[-1], labels[-2]
        if len(labels) == 2:
            yield namespace, labels[1]
