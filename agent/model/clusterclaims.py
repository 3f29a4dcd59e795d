"""Claims: what a cluster says of itself, as Open Cluster Management's ManagedClusters list it. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from agent.api.names import ocm

LIMIT = 20
"""Claims beside the reserved ones, which are told always."""
VALUE_LIMIT = 1024
_NAME_LIMIT = 253
RESERVED = (ocm.CLAIM_ID, ocm.CLAIM_KUBE_VERSION, ocm.CLAIM_PLATFORM, ocm.CLAIM_PRODUCT)


class Told(NamedTuple):
    """What a cluster's agent tells."""

    text: str = ""
    """As JSON, empty where there is nothing to tell."""
    found: int = 0
    """How many claims there are beside the reserved ones; what is beyond LIMIT is left out."""


def write(sources: Iterable[Mapping[str, str]]) -> Told:
    """What a cluster's agent tells; the last source wins."""
    fit = _fitting({name: value for source in sources for name, value in source.items()})
    told = _limited(fit)
    text = msgspec.json.encode(told).decode() if told else ""
    return Told(text, sum(name not in RESERVED for name in fit))


def read(text: str | None) -> dict[str, str]:
    """What a cluster's agent has told; what cannot be read is nothing."""
    try:
        return _limited(_fitting(msgspec.json.decode(text or "{}", type=dict[str, str])))
    except msgspec.DecodeError:
        return {}


def listed(uid: str, version: str, told: Mapping[str, str]) -> list[dict[str, str]]:
    """`clusterClaims` of a ManagedCluster: reserved ones first, then the others by name.

    :param uid: of the cluster; two that call themselves the same are two all the same
    :param version: of its API server
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
