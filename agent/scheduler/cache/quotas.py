"""ResourceQuotas of targets, as types of the scheduler. Unreadable ones are omitted and reported on the Target."""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from agent.api.kinds import RESOURCE_QUOTAS
from agent.clusters.optional_watch import OptionalWatch
from agent.clusters.target import Target
from agent.kube.store import Key, Object
from agent.model.summaryflaw import amounts_flaw
from agent.ranking.snapshot import Amounts, Quota, Scope, amounts

Quotas = Mapping[str, tuple[Quota, ...]]


class InvalidQuota(ValueError):
    """A ResourceQuota that cannot be read; the message names it and the field, and gives the remedy."""


class QuotaCache:
    """The ResourceQuotas of one target. Calls `changed` whenever the result of `read` changes."""

    def __init__(self, target: Target, interval: float, changed: Callable[[], None]) -> None:
        self._target = target
        self._changed = changed
        self._read: dict[Key, Quota] = {}
        self._flaws: dict[Key, str] = {}
        self._discovered = OptionalWatch(
            target.port, RESOURCE_QUOTAS, target.namespace or None, interval, self._seen, self._turned
        )
        self.look = self._discovered.look
        self.stop = self._discovered.stop

    def read(self) -> Quotas:
        """Return the quotas by namespace, sorted by name; empty while they cannot be watched."""
        return _by_namespace(self._read) if self._discovered.store is not None else {}

    def _seen(self, old: Object | None, new: Object | None) -> None:
        for obj in (old, new):
            if obj is not None:
                self._read.pop(obj.key, None)
                self._flaws.pop(obj.key, None)
        if new is not None:
            try:
                found = quota(new)
            except InvalidQuota as error:
                self._flaws[new.key] = str(error)
            else:
                if found is not None:
                    self._read[new.key] = found
        self._tell()

    def _turned(self) -> None:
        if self._discovered.store is None:
            self._read.clear()
            self._flaws.clear()
        self._tell()

    def _tell(self) -> None:
        first = min(self._flaws.values(), default="")
        others = len(self._flaws) - 1
        self._target.ignore(f"{first} (and {others} more like it)" if others > 0 else first)
        self._changed()


class _Expression(msgspec.Struct, rename="camel"):
    scope_name: str
    operator: str = "Exists"
    values: list[str] | None = None


class _Selector(msgspec.Struct, rename="camel"):
    match_expressions: list[_Expression] | None = None


class _QuotaSpec(msgspec.Struct, rename="camel"):
    scopes: list[str] | None = None
    scope_selector: _Selector | None = None


class _QuotaStatus(msgspec.Struct):
    hard: dict[str, Any] | None = None
    used: dict[str, Any] | None = None


class _Quota(msgspec.Struct):
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


_quota_decoder = msgspec.json.Decoder(_Quota)


def quota(obj: Object) -> Quota | None:
    """Read a ResourceQuota as quota admission applies it; None while its status is empty.

    :raises InvalidQuota: if it cannot be read
    """
    try:
        told = _quota_decoder.decode(obj.raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise _invalid(obj, str(error)) from error
    hard, used = (_amounts(obj, field, getattr(told.status, field)) for field in ("hard", "used"))
    if not hard:
        return None
    scopes = [Scope(name) for name in told.spec.scopes or ()]
    if told.spec.scope_selector is not None:
        scopes += [
            Scope(item.scope_name, item.operator, tuple(item.values or ()))
            for item in told.spec.scope_selector.match_expressions or ()
        ]
    return Quota(obj.name, hard, used, tuple(scopes))


def quotas_of(objects: Iterable[Object]) -> Quotas:
    """Return readable ResourceQuotas by namespace, sorted by name."""
    found: dict[Key, Quota] = {}
    for obj in objects:
        with contextlib.suppress(InvalidQuota):
            read = quota(obj)
            if read is not None:
                found[obj.key] = read
    return _by_namespace(found)


def _by_namespace(quotas: Mapping[Key, Quota]) -> dict[str, tuple[Quota, ...]]:
    found: dict[str, list[Quota]] = {}
    for namespace, name in sorted(quotas):
        found.setdefault(namespace, []).append(quotas[namespace, name])
    return {namespace: tuple(each) for namespace, each in found.items()}


def _amounts(obj: Object, field: str, told: Mapping[str, Any] | None) -> Amounts:
    if flaw := amounts_flaw(f"status.{field}", told):
        raise _invalid(obj, f"{flaw.field}: {flaw.reason}")
    return amounts(told)


def _invalid(obj: Object, reason: str) -> InvalidQuota:
    what = f"ResourceQuota {obj.namespace}/{obj.name} in the target does not count"
    return InvalidQuota(f"{what}: {reason}: correct it there, or delete it")
