"""Services in a pod's environment variables and arguments, by names that cluster DNS resolves. Pure.

A name of one word counts only as part of an address: with a scheme, a port or a user, after an option, or in a
variable with an address-like name.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

Service = tuple[str, str]
"""Namespace and name."""

_SEPARATORS = re.compile(r"[\s,;=|\"'()\[\]{}<>]+")
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:(?://)?(?=[^/\d])", re.IGNORECASE)
_PATH = re.compile(r"[/?#].*$")
_PORT = re.compile(r":\d+$")
_HOST = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_VARIABLE = re.compile(
    r"HOST|ADDR|SERVER|SERVICE|URL|URI|ENDPOINT|UPSTREAM|BROKER|DSN|PEER|SEED|CONNECT", re.IGNORECASE
)
_CONTAINERS = ("initContainers", "containers")


def mentioned(pod: Mapping[str, Any], known: AbstractSet[Service]) -> set[Service]:
    """Return the Services among `known` that a pod mentions."""
    namespace = pod["metadata"]["namespace"]
    meant = (service for host, sure in _hosts(pod["spec"]) for service in _meant(host, namespace, sure=sure))
    return {service for service in meant if service in known}


def _hosts(spec: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield possible host names, and whether each is part of an address."""
    for container in (each for field in _CONTAINERS for each in spec.get(field) or ()):
        for variable in container.get("env") or ():
            address = _VARIABLE.search(variable.get("name") or "") is not None
            yield from _in(variable.get("value") or "", address=address)
        before = ""
        for word in (*(container.get("command") or ()), *(container.get("args") or ())):
            yield from _in(word, address=before.startswith("-") and "=" not in before)
            before = word


def _in(text: str, *, address: bool) -> Iterator[tuple[str, bool]]:
    pieces = [piece for piece in _SEPARATORS.split(text) if piece]
    option = text.startswith("-") and len(pieces) > 1
    for index, piece in enumerate(pieces):
        rest = _SCHEME.sub("", piece)
        authority = _PATH.sub("", rest)
        host = _PORT.sub("", authority.rpartition("@")[2]).rstrip(".").lower()
        if _HOST.fullmatch(host):
            yield host, address or (option and index > 0) or rest != piece or host != authority.lower()


def _meant(host: str, namespace: str, *, sure: bool) -> Iterator[Service]:
    """Yield the Services that a name may represent: NAME, or NAME.NAMESPACE with an optional `.svc` suffix. A
    pod's host name may precede it."""
    labels = host.split(".")
    if "svc" in labels[1:]:
        labels = labels[: labels.index("svc", 1)]
        yield from _qualified(labels)
    elif len(labels) == 1 and sure:
        yield namespace, labels[0]
    elif len(labels) > 1:
        yield from _qualified(labels)
        if len(labels) == 2:
            yield namespace, labels[1]


def _qualified(labels: list[str]) -> Iterator[Service]:
    if len(labels) in (2, 3):
        yield labels[-1], labels[-2]
