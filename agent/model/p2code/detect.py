"""Which Services the pods of an application call, read from their environment, arguments and annotations. Pure.

An address counts where there is a Service of that name and port. Values of Secrets are compared, and go nowhere.
"""

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from agent.api import names
from agent.api.names.p2code import DEPENDS_ON, IGNORE_LINKS
from agent.model.p2code.manifests import InvalidManifest, Manifest, Raw, at, objects, text, texts

Key = tuple[str, str]
"""Namespace and name."""
Services = Mapping[Key, frozenset[int]]
"""Their ports."""

_SEPARATORS = re.compile(r"[\s,;=|\"'()\[\]{}<>]+")
_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_REFERENCE = re.compile(r"(?:(?P<namespace>[a-z0-9-]+)/)?(?P<name>[a-z0-9-]+)(?::(?P<port>[0-9]{1,5}))?")
_SCHEMES = {"http": 80, "ws": 80, "https": 443, "wss": 443, "amqp": 5672, "redis": 6379, "postgresql": 5432}
_SCHEMES |= {"postgres": 5432, "mysql": 3306, "mongodb": 27017, "nats": 4222, "ftp": 21, "ldap": 389}
_REMEDY = "write NAMESPACE/NAME:PORT, several with commas"
_ALL = "*"
_SOURCES: tuple[tuple[str, Literal["ConfigMap", "Secret"]], ...] = (("configMap", "ConfigMap"), ("secret", "Secret"))


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
    """The Services among manifests."""
    return {(each.namespace, each.name): ports(each.raw) for each in manifests if each.kind == "Service"}


def ports(service: Raw) -> frozenset[int]:
    """The ports of a Service."""
    found = (each.get("port") for each in objects(service, "spec", "ports"))
    return frozenset(each for each in found if isinstance(each, int))


class Book:
    """Everything in which calls are looked up: the manifests of an application, and Services that there are."""

    def __init__(self, manifests: Collection[Manifest], live: Services) -> None:
        self.defined = services(manifests)
        self.known = {**live, **self.defined}
        self.sources = {
            (each.kind, each.namespace, each.name): each.raw
            for each in manifests
            if each.kind in ("ConfigMap", "Secret")
        }
        self.named: dict[str, list[Key]] = {}
        for key in self.defined:
            self.named.setdefault(key[1], []).append(key)


def calls(workload: Manifest, book: Book) -> tuple[Call, ...]:
    """What pods of a workload call, of the Services of its application and those that there are in its namespaces.

    :raises InvalidManifest: if one of its annotations names no Services
    """
    if (names.annotation(_annotations(workload), IGNORE_LINKS) or "").strip() == _ALL:
        return ()
    hosts = dict.fromkeys(_hosts(workload, book.sources))
    found = {call for host, port in hosts for call in _meant(host, port, workload.namespace, book)}
    for each in _declared(workload, DEPENDS_ON):
        found |= {Call(each.service, port) for port in ([each.port] if each.port else book.known.get(each.service, ()))}
    ignored = _declared(workload, IGNORE_LINKS)
    return tuple(sorted(call for call in found if not any(_is(call, each) for each in ignored)))


def check(workload: Manifest) -> None:
    """Raises InvalidManifest if one of a workload's annotations names no Services."""
    for suffix in (DEPENDS_ON, IGNORE_LINKS):
        _declared(workload, suffix)


def _is(call: Call, reference: _Reference) -> bool:
    return call.service == reference.service and reference.port in (0, call.port)


def _annotations(workload: Manifest) -> dict[str, str]:
    return {key: value for key, value in workload.annotations.items() if isinstance(value, str)}


def _declared(workload: Manifest, suffix: str) -> list[_Reference]:
    said = names.annotation(_annotations(workload), suffix) or ""
    found = []
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
        found.append(_Reference(service, int(match["port"] or 0)))
    return found


def _hosts(workload: Manifest, known: Mapping[tuple[str, str, str], Raw]) -> Iterator[tuple[str, int | None]]:
    """Hosts that pods of a workload are told of, and their ports; None where none is told."""
    spec = at(workload.template, "spec")
    for container in (each for field in ("containers", "initContainers") for each in objects(spec, field)):
        variables = dict(_variables(container, workload.namespace, known))
        for name, value in variables.items():
            port = variables.get(name.removesuffix("_HOST") + "_PORT", "").strip() if name.endswith("_HOST") else ""
            if port.isascii() and port.isdecimal() and _HOST.fullmatch(value.strip()):
                yield value.strip(), int(port)
            else:
                yield from _addresses(value)
        for word in (*texts(container, "command"), *texts(container, "args")):
            yield from _addresses(word)


def _variables(container: Raw, namespace: str, known: Mapping[tuple[str, str, str], Raw]) -> Iterator[tuple[str, str]]:
    for source in objects(container, "envFrom"):
        for field, kind in _SOURCES:
            found = known.get((kind, namespace, text(source, f"{field}Ref", "name")), {})
            for key in (*at(found, "data"), *at(found, "stringData")):
                yield text(source, "prefix") + key, _value(kind, found, key)
    for variable in objects(container, "env"):
        name = text(variable, "name")
        yield name, text(variable, "value")
        for field, kind in _SOURCES:
            reference = at(variable, "valueFrom", f"{field}KeyRef")
            found = known.get((kind, namespace, text(reference, "name")), {})
            if found:
                yield name, _value(kind, found, text(reference, "key"))


def _value(kind: Literal["ConfigMap", "Secret"], source: Raw, key: str) -> str:
    if kind == "ConfigMap":
        return text(source, "data", key)
    try:
        encoded = base64.b64decode(text(source, "data", key), validate=True).decode()
    except (binascii.Error, ValueError):
        encoded = ""
    return text(source, "stringData", key) or encoded


def _addresses(said: str) -> Iterator[tuple[str, int | None]]:
    for piece in _SEPARATORS.split(said):
        before, scheme, rest = piece.rpartition("://")
        authority = rest.removeprefix("//").partition("/")[0].partition("?")[0].rpartition("@")[2]
        host, colon, port = authority.partition(":")
        host = host.rstrip(".").lower()
        if not _HOST.fullmatch(host) or (colon and not (port.isascii() and port.isdecimal())):
            continue
        if colon:
            yield host, int(port)
        elif scheme:
            yield host, _SCHEMES.get(before.rpartition(":")[2].rpartition("+")[2].lower())
        elif "." in host:
            yield host, None


def _meant(host: str, port: int | None, namespace: str, book: Book) -> Iterator[Call]:
    key = next((each for each in _keys(host, namespace) if each in book.known), None)
    if key is None:
        # Other clusters are reached by the name alone, whatever the namespace: so P2CODE's scheduler has it.
        found = [each for each in book.named.get(host, ()) if port is None or port in book.defined[each]]
        if len(found) != 1:
            return
        key = found[0]
    for each in book.known[key]:
        if port in (None, each):
            yield Call(key, each)


def _keys(host: str, namespace: str) -> Iterator[Key]:
    """What a name may stand for: NAME, NAME.NAMESPACE, with .svc and what follows it, after a pod's host name, too."""
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
