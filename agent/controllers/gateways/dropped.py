"""What of GatewayPeers a cluster's API server drops, because the CRD there is older than this agent."""

import logging
from collections.abc import Mapping
from typing import Any

from agent.model.gatewayhosts import EVERY_CALLED, EVERY_OFFERED

Raw = dict[str, Any]

log = logging.getLogger(__name__)

RETRY_SECONDS = 300.0
"""After so long a field is written once more: the CRD may be of this version by then."""


class DroppedFields:
    """Fields of the spec that were dropped, by cluster, which is given by its virtual node."""

    def __init__(self) -> None:
        self._until: dict[tuple[str, str], float] = {}

    def look(self, node: str, wanted: Mapping[str, Any], got: Mapping[str, Any], now: float) -> bool:
        """Compare what was written with what came back; returns whether a field was dropped."""
        found = wanted["spec"].keys() - got["spec"].keys()
        for field in sorted(found):
            if (node, field) not in self._until:
                where = f"target {node}" if node else "this cluster"
                log.warning("GatewayPeers in %s have no spec.%s: apply the CRDs of this version there", where, field)
            self._until[node, field] = now + RETRY_SECONDS
        return bool(found)

    def without(self, node: str, peers: Mapping[str, Raw], now: float) -> dict[str, Raw]:
        """GatewayPeers by name without what is dropped there; those that name no Service any more are left out."""
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
