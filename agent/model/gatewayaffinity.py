"""Affinity `local` for Services that gateways call: endpoints of the own cluster come first. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from agent.api import names
from agent.model.endpoints import held

Raw = dict[str, Any]
FIELD = "localAffinity"
"""Field of a GatewayPeer's spec: names of Services with affinity `local`."""


def told(services: Iterable[str]) -> Raw:
    """Return the field of a GatewayPeer's spec for Services with affinity `local`; {} without such Services."""
    found = sorted(services)
    return {FIELD: found} if found else {}


def own_first(peer: Mapping[str, Any]) -> list[str]:
    """Return the names of a GatewayPeer's Services with affinity `local`."""
    found: list[str] = peer["spec"].get(FIELD) or []
    return found


def held_back(slices: Mapping[str, Raw], services: Collection[str]) -> dict[str, Raw]:
    """Return EndpointSlices by name; slices of the given Services have no ready endpoint."""

    def waits(slice: Raw) -> bool:
        return slice["metadata"]["labels"][names.LABEL_SERVICE_NAME] in services

    return {name: held(slice) if waits(slice) else slice for name, slice in slices.items()}
