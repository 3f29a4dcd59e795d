"""Fields of GatewayPeers that a cluster's API server drops, because its CRD is older than this agent."""

import logging
from collections.abc import Mapping
from typing import Any

from agent.model.gatewayhosts import EVERY_CALLED, EVERY_OFFERED

Raw = dict[str, Any]

log = logging.getLogger(__name__)

RETRY_SECONDS = 300.0
"""Seconds after which a dropped field is written again: the CRD may have been updated."""


class DroppedFields:
    """Dropped fields of the spec, by the virtual node of the cluster."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def look(self, node: str, wanted: Mapping[str, Any], got: Mapping[str, Any], now: float) -> bool:
        """Compare the written object with the API server's reply; return whether a field was dropped."""
        found = wanted["spec"].keys() - got["spec"].keys()
        for field in sorted(found):
            if (node, field) not in self._until:
                where = f"target {node}" if node else "this cluster"
                log.warning("GatewayPeers in %s have no spec.%s: apply the CRDs of this version there", where, field)
            self._until[node, field] = now + RETRY_SECONDS
        return bool(found)

    def without(self, node: str, peers: Mapping[str, Raw], now: float) -> dict[str, Raw]:
        """Return GatewayPeers by name without the fields that the cluster drops; omit peers without any Service
        left."""
        dropped = {field for (where, field), until in self._until.items() if where == node and now < until}
        found = {
            name: {**peer, "spec": {field: told for field, told in peer["spec"].items() if field not in dropped}}
            for name, peer in peers.items()
        }
        naming = (*EVERY_CALLED, *EVERY_OFFERED)
        return {name: peer for name, peer in found.items() if any(map(peer["spec"].get, naming))}

    def forget(self, node: str) -> None:
        """Write all fields again from now on."""
        self._until = {(where, field): until for (where, field), until in self._until.items() if where != node}
