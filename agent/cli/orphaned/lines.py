"""Sources of a cluster by UID: their last heartbeats, and their objects in the cluster. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from agent.cli.fleet.units import NOTHING, since
from agent.cli.output import Table
from agent.model.heartbeats import Sign

SILENT = timedelta(minutes=15)
"""Sources send a heartbeat each minute; the rest allows for clock skew and an agent's restart."""


class State(StrEnum):
    """State of a source, judging by its heartbeats."""

    ALIVE = "alive"
    SILENT = "silent"
    """State of a cluster that has sent heartbeats, but none recently."""
    NO_SIGN = "no sign"
    """No heartbeat exists: the source's or the local agent is too old for them, or the source no longer exists."""
    HERE = "this cluster"


class Owned(msgspec.Struct, frozen=True):
    """An object that a source has created."""

    kind: str
    namespace: str
    name: str
    source: str
    """UID of the source."""
    source_name: str
    created: datetime | None


class SourceLine(msgspec.Struct, frozen=True):
    """Line of `flotilla orphans` about one source."""

    uid: str
    name: str
    state: State
    last_sign: datetime | None
    pods: int
    copies: int
    claims: int
    oldest: datetime | None
    namespaces: Sequence[str]

    @property
    def title(self) -> str:
        """Title of the source in messages."""
        return f"{self.uid} ({self.name})" if self.name else self.uid


def source_lines(
    owned: Iterable[Owned], signs: Mapping[str, Sign], own_uid: str, now: datetime, *, claims: str, chaperons: str
) -> list[SourceLine]:
    """Return lines for all sources with objects in this cluster, those without a heartbeat first.

    :param claims: kind of volume claims
    :param chaperons: kind of PodChaperons; every other kind is a copy
    """
    found: dict[str, list[Owned]] = {}
    for each in owned:
        found.setdefault(each.source, []).append(each)
    lines = [
        SourceLine(
            uid=uid,
            name=signs[uid].name if uid in signs else next((each.source_name for each in theirs), ""),
            state=_state(uid, signs.get(uid), own_uid, now),
            last_sign=signs[uid].seen if uid in signs else None,
            pods=sum(each.kind == chaperons for each in theirs),
            copies=sum(each.kind not in (chaperons, claims) for each in theirs),
            claims=sum(each.kind == claims for each in theirs),
            oldest=min((each.created for each in theirs if each.created is not None), default=None),
            namespaces=sorted({each.namespace for each in theirs}),
        )
        for uid, theirs in found.items()
    ]
    return sorted(lines, key=lambda line: (line.state in (State.ALIVE, State.HERE), line.name, line.uid))


def _state(uid: str, sign: Sign | None, own_uid: str, now: datetime) -> State:
    if uid == own_uid:
        return State.HERE
    if sign is None:
        return State.NO_SIGN
    return State.ALIVE if now - sign.seen < SILENT else State.SILENT


def table(lines: Iterable[SourceLine], now: datetime, *, wide: bool) -> Table:
    """Return the sources as a table."""
    heads = ["SOURCE", "UID", "STATE", "LAST SIGN", "PODS", "COPIES", "CLAIMS", "OLDEST"]
    rows, found = [], list(lines)
    for line in found:
        sign = f"{since(line.last_sign, now)} ago" if line.last_sign is not None else NOTHING
        counts = [str(line.pods), str(line.copies), str(line.claims)]
        rows.append([line.name or NOTHING, line.uid, line.state, sign, *counts, since(line.oldest, now)])
    if wide:
        heads.append("NAMESPACES")
        rows = [[*row, ",".join(line.namespaces)] for row, line in zip(rows, found, strict=True)]
    return heads, rows
