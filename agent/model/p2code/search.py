"""Hosts in the environment variables, commands and arguments of an application's containers. Pure.

Each value of a ConfigMap or Secret is searched once, however many containers have it. Values of Secrets are
only compared, and never written anywhere.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from agent.model.p2code.manifests import Identity, Manifest, Raw, at, objects, text, texts

Host = tuple[str, int | None]
"""A host name and its port; None without a port."""

TEXT = 1 << 20
"""Maximum number of searched characters per application: about the size of the largest object in an API server."""
VARIABLES = 50_000
"""Maximum number of environment variables in an application, each counted in every container that has it."""
HOSTS = 10_000
"""Maximum number of different hosts of all workloads in an application."""

_SEPARATORS = re.compile(r"[\s,;=|\"'()\[\]{}<>]+")
_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_PORT_DIGITS = 5
_SCHEMES = {"http": 80, "ws": 80, "https": 443, "wss": 443, "amqp": 5672, "redis": 6379, "postgresql": 5432}
_SCHEMES |= {"postgres": 5432, "mysql": 3306, "mongodb": 27017, "nats": 4222, "ftp": 21, "ldap": 389}
_SOURCES: tuple[tuple[str, Literal["ConfigMap", "Secret"]], ...] = (("configMap", "ConfigMap"), ("secret", "Secret"))

_Source = tuple[str, str, str]
"""Kind, namespace and name of a ConfigMap or Secret."""


class _TooMuch(Exception):
    """A limit is exceeded; the message names it."""


class _Value:
    """A value of a variable, with its hosts after the search."""

    __slots__ = ("hosts", "said")

    def __init__(self, said: str) -> None:
        self.said = said
        self.hosts: tuple[Host, ...] | None = None


class Searched(NamedTuple):
    """The result of a search."""

    hosts: dict[Identity, tuple[Host, ...]]
    """Hosts by workload."""
    unsearched: dict[Identity, str]
    """Workloads that exceed a limit, with that limit."""


def search(manifests: Iterable[Manifest]) -> Searched:
    """Search the workloads among the manifests of an application, until a limit is exceeded."""
    manifests = list(manifests)
    searching, found = _Search(manifests), Searched({}, {})
    for workload in manifests:
        if workload.is_workload:
            try:
                found.hosts[workload.identity] = tuple(searching.hosts(workload))
            except _TooMuch as error:
                found.unsearched[workload.identity] = str(error)
    return found


class _Search:
    def __init__(self, manifests: Iterable[Manifest]) -> None:
        self._sources: dict[_Source, Raw] = {
            (each.kind, each.namespace, each.name): each.raw
            for each in manifests
            if each.kind in ("ConfigMap", "Secret")
        }
        self._read: dict[_Source, dict[str, _Value]] = {}
        self._text, self._variables, self._hosts = TEXT, VARIABLES, HOSTS

    def hosts(self, workload: Manifest) -> dict[Host, None]:
        """Return the hosts in the configuration of a workload's pods.

        :raises _TooMuch: if a limit is exceeded
        """
        spec = at(workload.template, "spec")
        found: dict[Host, None] = {}
        for container in (each for field in ("containers", "initContainers") for each in objects(spec, field)):
            found |= dict.fromkeys(self._in_container(container, workload.namespace))
            if len(found) > self._hosts:
                raise _TooMuch(f"more than {HOSTS} different hosts")
        self._hosts -= len(found)
        return found

    def _in_container(self, container: Raw, namespace: str) -> Iterator[Host]:
        variables: dict[str, _Value] = {}
        for name, value in self._environment(container, namespace):
            if self._variables <= 0:
                raise _TooMuch(f"more than {VARIABLES} environment variables in its containers")
            self._variables -= 1
            variables[name] = value
        for name, value in variables.items():
            port = variables.get(name.removesuffix("_HOST") + "_PORT") if name.endswith("_HOST") else None
            number, host = port.said.strip() if port is not None else "", value.said.strip()
            if _is_port(number) and _HOST.fullmatch(host):
                yield host, int(number)
            else:
                yield from self._in_value(value)
        for word in (*texts(container, "command"), *texts(container, "args")):
            yield from self._in_value(_Value(word))

    def _in_value(self, value: _Value) -> tuple[Host, ...]:
        if value.hosts is None:
            if len(value.said) > self._text:
                raise _TooMuch(f"more than {TEXT} characters in environment variables, commands and arguments")
            self._text -= len(value.said)
            value.hosts = tuple(dict.fromkeys(_addresses(value.said)))
        return value.hosts

    def _environment(self, container: Raw, namespace: str) -> Iterator[tuple[str, _Value]]:
        """Yield variables like the kubelet sets them: the last of several with one name takes precedence."""
        for source in objects(container, "envFrom"):
            for field, kind in _SOURCES:
                prefix = text(source, "prefix")
                values = self._values(kind, namespace, text(source, f"{field}Ref", "name"))
                yield from ((prefix + key, value) for key, value in values.items())
        for variable in objects(container, "env"):
            name = text(variable, "name")
            yield name, _Value(text(variable, "value"))
            for field, kind in _SOURCES:
                reference = at(variable, "valueFrom", f"{field}KeyRef")
                values = self._values(kind, namespace, text(reference, "name"))
                if (value := values.get(text(reference, "key"))) is not None:
                    yield name, value

    def _values(self, kind: Literal["ConfigMap", "Secret"], namespace: str, name: str) -> dict[str, _Value]:
        """Return the values of a ConfigMap or Secret, decoded once; {} if the application does not have it."""
        key = (kind, namespace, name)
        if (values := self._read.get(key)) is None:
            source = self._sources.get(key, {})
            keys = (*at(source, "data"), *at(source, "stringData"))
            values = self._read[key] = {each: _Value(_value(kind, source, each)) for each in keys}
        return values


def _value(kind: Literal["ConfigMap", "Secret"], source: Raw, key: str) -> str:
    if kind == "ConfigMap":
        return text(source, "data", key)
    try:
        encoded = base64.b64decode(text(source, "data", key), validate=True).decode()
    except (binascii.Error, ValueError):
        encoded = ""
    return text(source, "stringData", key) or encoded


def _addresses(said: str) -> Iterator[Host]:
    for piece in _SEPARATORS.split(said):
        before, scheme, rest = piece.rpartition("://")
        authority = rest.removeprefix("//").partition("/")[0].partition("?")[0].rpartition("@")[2]
        host, colon, port = authority.partition(":")
        host = host.rstrip(".").lower()
        if not _HOST.fullmatch(host) or (colon and not _is_port(port)):
            continue
        if colon:
            yield host, int(port)
        elif scheme:
            yield host, _SCHEMES.get(before.rpartition(":")[2].rpartition("+")[2].lower())
        elif "." in host:
            yield host, None


def _is_port(said: str) -> bool:
    return len(said) <= _PORT_DIGITS and said.isascii() and said.isdecimal()
