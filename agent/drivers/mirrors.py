"""Mirrors of remote EndpointSlices that a cluster should have, and the writes that it takes. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api import names
from agent.model.diff import json_patch
from agent.model.endpoints import Shelf, held, mirrors, silenced
from agent.model.podranges import ANYWHERE, PodRanges

Raw = dict[str, Any]


class Origin(msgspec.Struct, frozen=True):
    """Another cluster that shares the Service."""

    slices: Sequence[Raw] | None
    """The slices that it has itself; None while that is not known: then the mirrors stay."""
    silent: bool = False
    """True if the cluster has not answered for so long that its endpoints no longer count as ready."""
    ranges: PodRanges = ANYWHERE
    """Ranges that addresses of its pods may be in."""
    ports: frozenset[str] | None = None
    """Names of the ports that are published; None for all."""
    labels: tuple[tuple[str, str], ...] = ()
    """Further labels of the mirrors."""
    is_own: bool = False
    """True if the endpoints are in the cluster of the mirrors."""


@dataclass(frozen=True)
class Create:
    """A mirror that is to be created."""

    manifest: Raw


@dataclass(frozen=True)
class Change:
    """A JSON patch of a mirror."""

    name: str
    operations: list[Raw]


@dataclass(frozen=True)
class Delete:
    """Deletion of a mirror; with `instead`, the mirror is recreated."""

    name: str
    uid: str
    instead: Raw | None = None


Action = Create | Change | Delete


def decide(
    shelf: Shelf,
    origins: Mapping[str, Origin],
    existing: Mapping[str, Raw],
    away: Collection[str],
    *,
    standby: bool = False,
) -> list[Action]:
    """Return the writes that bring the existing mirrors of a Service in a cluster to the wanted state.

    Mirrors of clusters that are not among the origins are deleted.

    :param standby: True marks mirrors as not ready, because callers prefer the ready endpoints of their own cluster
    """
    wanted: dict[str, Raw] = {}
    for name, origin in origins.items():
        for mirror in _wanted(name, origin, shelf, existing, away):
            waiting = held(mirror) if standby and not origin.is_own else mirror
            wanted[mirror["metadata"]["name"]] = silenced(mirror) if origin.silent else waiting
    actions: list[Action] = [
        Delete(name, live["metadata"]["uid"]) for name, live in existing.items() if name not in wanted
    ]
    for name, mirror in wanted.items():
        action = _change(existing[name], mirror) if name in existing else Create(mirror)
        if action is not None:
            actions.append(action)
    return actions


def _wanted(name: str, origin: Origin, shelf: Shelf, existing: Mapping[str, Raw], away: Collection[str]) -> list[Raw]:
    if origin.slices is None:
        return [live for live in existing.values() if live["metadata"]["labels"].get(names.LABEL_ORIGIN) == name]
    return [
        mirror
        for slice in origin.slices
        for mirror in mirrors(slice, name, shelf, away, origin.ranges, origin.ports, dict(origin.labels))
    ]


def _change(live: Raw, wanted: Raw) -> Action | None:
    metadata = live["metadata"]
    if live["addressType"] != wanted["addressType"] or _owner(live) != _owner(wanted):
        return Delete(metadata["name"], metadata["uid"], wanted)
    operations = json_patch(_part(live), _part(wanted))
    if not operations:
        return None
    # Lists are patched by position: only in the very object that was compared.
    version = {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
    return Change(metadata["name"], [version, *operations])


def _part(slice: Raw) -> Raw:
    """Return the fields of a mirror that the agent decides. A missing field has no value that could be replaced."""
    part: Raw = {"metadata": {"labels": slice["metadata"].get("labels") or {}}}
    part |= {field: slice[field] for field in ("ports", "endpoints") if slice.get(field) is not None}
    return part


def _owner(slice: Raw) -> str:
    owners = slice["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("uid", ""))
