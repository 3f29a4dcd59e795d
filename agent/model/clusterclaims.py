"""Claims: named properties of a cluster, as in Open Cluster Management's ManagedClusters. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from agent.api.names import ocm

LIMIT = 20
"""Maximum number of claims in addition to the reserved ones."""
VALUE_LIMIT = 1024
_NAME_LIMIT = 253
RESERVED = (ocm.CLAIM_ID, ocm.CLAIM_KUBE_VERSION, ocm.CLAIM_PLATFORM, ocm.CLAIM_PRODUCT)


class Told(NamedTuple):
    """Claims that a cluster's agent publishes."""

    text: str = ""
    """Claims as JSON; empty without claims."""
    found: int = 0
    """Number of claims without the reserved ones; those beyond LIMIT are not published."""


def write(sources: Iterable[Mapping[str, str]]) -> Told:
    """Return the claims to publish.

    :param sources: claims by name; a later source overrides an earlier one
    """
    fit = _fitting({name: value for source in sources for name, value in source.items()})
    told = _limited(fit)
    text = msgspec.json.encode(told).decode() if told else ""
    return Told(text, sum(name not in RESERVED for name in fit))


def read(text: str | None) -> dict[str, str]:
    """Return published claims by name; {} if the text is missing or invalid."""
    try:
        return _limited(_fitting(msgspec.json.decode(text or "{}", type=dict[str, str])))
    except msgspec.DecodeError:
        return {}


def listed(uid: str, version: str, told: Mapping[str, str]) -> list[dict[str, str]]:
    """Return `clusterClaims` of a ManagedCluster: reserved claims first, then the others by name.

    :param uid: UID of the cluster, which overrides a published ID; empty if it is unknown
    :param version: version of its API server; empty if it is unknown
    """
    known = {ocm.CLAIM_ID: uid, ocm.CLAIM_KUBE_VERSION: version}
    found = {**told, **{name: value for name, value in known.items() if value}}
    order = [*(name for name in RESERVED if name in found), *sorted(name for name in found if name not in RESERVED)]
    return [{"name": name, "value": found[name]} for name in order]


def _fitting(claims: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(claims.items())
        if 0 < len(name) <= _NAME_LIMIT and 0 < len(value) <= VALUE_LIMIT
    }


def _limited(fit: Mapping[str, str]) -> dict[str, str]:
    custom = [name for name in fit if name not in RESERVED][:LIMIT]
    return {name: value for name, value in fit.items() if name in RESERVED or name in custom}
