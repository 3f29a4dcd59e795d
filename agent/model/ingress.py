"""Services and Secrets that an Ingress names (wire contract, 7.2)."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

import msgspec

from agent.api import names

LIMIT = 1000
"""Maximum number of Services, and of Secrets, in a copied Ingress: each is an index key at each of its events."""


class Named(NamedTuple):
    """Names in the namespace of the Ingress, at most LIMIT of each kind."""

    services: frozenset[str]
    secrets: frozenset[str]
    flaw: str = ""
    """Reason why it is not copied; empty if it may be."""


class _Service(msgspec.Struct, gc=False):
    name: str = ""


class _Backend(msgspec.Struct, gc=False):
    service: _Service | None = None


class _Path(msgspec.Struct, gc=False):
    backend: _Backend | None = None


class _Http(msgspec.Struct, gc=False):
    paths: list[_Path] | None = None


class _Rule(msgspec.Struct, gc=False):
    http: _Http | None = None


class _Tls(msgspec.Struct, rename="camel", gc=False):
    secret_name: str = ""


class _Spec(msgspec.Struct, rename="camel", gc=False):
    default_backend: _Backend | None = None
    rules: list[_Rule] | None = None
    tls: list[_Tls] | None = None


class _Ingress(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Ingress).decode


def named(raw: bytes) -> Named:
    """Return the Services that an Ingress routes traffic to, default backend included, and its TLS Secrets.

    Rules without `http`, and backends that are other resources, name none.

    :raises msgspec.DecodeError: if it is not an Ingress
    """
    spec = _decode(raw).spec
    services = _some(each.service.name for each in _backends(spec) if each is not None and each.service is not None)
    secrets = _some(each.secret_name for each in spec.tls or ())
    for field, found, what in (("spec.rules", services, "Services"), ("spec.tls", secrets, "Secrets")):
        if len(found) > LIMIT:
            flaw = f"{field}: it names more than {LIMIT} {what}, and is not copied: split it into several Ingresses"
            return Named(frozenset(islice(services, LIMIT)), frozenset(islice(secrets, LIMIT)), flaw)
    return Named(frozenset(services), frozenset(secrets))


def _backends(spec: _Spec) -> Iterator[_Backend | None]:
    yield spec.default_backend
    for rule in spec.rules or ():
        for path in (rule.http.paths if rule.http is not None else None) or ():
            yield path.backend


def _some(found: Iterable[str]) -> dict[str, None]:
    """Return distinct names in their order, without empty ones; stop beyond the limit."""
    some: dict[str, None] = {}
    for name in found:
        if name:
            some[name] = None
        if len(some) > LIMIT:
            break
    return some


def unmarked(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Return the merge patch that removes the agent's sharing annotations, unless a user has changed them."""
    ours = annotations.get(names.ANNOTATION_GLOBAL) == "true"
    return {names.ANNOTATION_MARKS: None, **({names.ANNOTATION_GLOBAL: None} if ours else {})}
