"""Signs of life that sources leave in a target: annotations of one Lease, which the agent there makes. Pure.

A source says with its own UID, once a minute, that it lives. A lease and not an object of each source: that an agent
may change this one by its name is all that it needs, and takes nobody's lock.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec

from agent.api import names


class Sign(msgspec.Struct, frozen=True):
    """What a source says of itself."""

    seen: datetime
    """When, by its own clock."""
    holder: str = ""
    """Which of its agents, by a name that each makes up when it begins to lead."""
    name: str = ""
    """Of the cluster, for people."""


_decoder = msgspec.json.Decoder(Sign)
_PREFIX = names.sign("")


def read(annotations: Mapping[str, str] | None) -> dict[str, Sign]:
    """The signs of a Lease by UID; one that cannot be read is none."""
    found = {}
    for key, text in (annotations or {}).items():
        if not key.startswith(_PREFIX):
            continue
        try:
            sign = _decoder.decode(text)
        except msgspec.DecodeError:
            continue
        if sign.seen.tzinfo is not None:
            found[key.removeprefix(_PREFIX)] = sign
    return found


def patch(uid: str, sign: Sign | None, version: str) -> dict[str, object]:
    """Merge patch of the Lease, for this version of it; None takes the sign away."""
    text = msgspec.json.encode(sign).decode() if sign is not None else None
    return {"metadata": {"resourceVersion": version, "annotations": {names.sign(uid): text}}}
