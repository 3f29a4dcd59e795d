"""Limit on the number of Services in a GatewayPeer: no list is longer than its schema permits. Pure."""

from collections.abc import Mapping
from typing import Any

from agent.api.names.links import PEER_SERVICES_LIMIT
from agent.model import gatewayaffinity
from agent.model.gatewayhosts import EVERY_CALLED, EVERY_OFFERED

Raw = dict[str, Any]

_LISTS = (*EVERY_CALLED, *EVERY_OFFERED, gatewayaffinity.FIELD)


def fits(peer: Mapping[str, Any]) -> bool:
    """Return whether no list of Services is too long."""
    return all(len(peer["spec"].get(field) or ()) <= PEER_SERVICES_LIMIT for field in _LISTS)


def within(wanted: Mapping[str, Any], had: Mapping[str, Any] | None) -> Raw:
    """Cut the lists of a GatewayPeer to the permitted length. Services that it already has take precedence.

    :param had: the present GatewayPeer, None if it does not exist yet
    """
    spec = dict(wanted["spec"])
    for field in _LISTS:
        if len(spec.get(field) or ()) > PEER_SERVICES_LIMIT:
            named = {_name(each) for each in ((had or {}).get("spec") or {}).get(field) or ()}
            found = sorted(spec[field], key=lambda each, named=named: _name(each) not in named)  # type: ignore[misc]
            spec[field] = sorted(found[:PEER_SERVICES_LIMIT], key=_name)
    return {**wanted, "spec": spec}


def is_full(peer: Mapping[str, Any]) -> bool:
    """Return whether a list of called Services in a GatewayPeer has reached the limit."""
    return any(len(peer["spec"].get(field) or ()) >= PEER_SERVICES_LIMIT for field in EVERY_CALLED)


def _name(each: Any) -> str:
    return each if isinstance(each, str) else str(each["name"])
