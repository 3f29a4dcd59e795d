"""Affinity `local` where other clusters are reached through gateways: endpoints of the own cluster come first. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent.api import names
from agent.model.endpoints import held

Raw = dict[str, Any]
FIELD = "localAffinity"
"""Of a GatewayPeer's spec: names of Services."""


def told(services: Iterable[str]) -> Raw:
    """What a GatewayPeer says of the Services whose callers prefer endpoints of their own cluster."""
    found = sorted(services)
    return {FIELD: found} if found else {}


def own_first(peer: Mapping[str, Any]) -> list[str]:
    """Those Services."""
    found: list[str] = peer["spec"].get(FIELD) or []
    return found


def held_back(slices: Mapping[str, Raw], services: Collection[str]) -> dict[str, Raw]:
    """EndpointSlices by name, without a ready endpoint where they are of one of these Services."""

    def waits(slice: Raw) -> bool:
        return slice["metadata"]["labels"][names.LABEL_SERVICE_NAME] in services

    return {name: held(slice) if waits(slice) else slice for name, slice in slices.items()}
