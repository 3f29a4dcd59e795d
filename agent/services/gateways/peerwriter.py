"""Writes GatewayPeers one by one, so that a refused one does not prevent the others."""

import asyncio
import contextlib
import logging
from typing import Any

from agent.api.kinds import GATEWAY_PEERS
from agent.api.names.links import PEER_SERVICES_LIMIT
from agent.clusters.deps import Deps
from agent.clusters.port import Port
from agent.drivers.sharing import Sharing
from agent.kube.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    ServerError,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.diff import merge_patch
from agent.model.peersize import fits, within
from agent.services.gateways.changes import At
from agent.services.gateways.dropped import DroppedFields
from agent.services.gateways.refused import RefusedPeers
from agent.services.gateways.withdrawn import WithdrawnPeers

Raw = dict[str, Any]

_log = logging.getLogger(__name__)

WRITE_SECONDS = 0.5
"""Minimum seconds between writes of GatewayPeers of one namespace in one cluster."""


class PeerWriter:
    """Writes GatewayPeers in all clusters."""

    def __init__(self, deps: Deps, sharing: Sharing, withdrawn: WithdrawnPeers) -> None:
        self._deps = deps
        self._withdrawn = withdrawn
        self._busy_until: dict[At, float] = {}
        self._full = set[tuple[str, str]]()
        """Namespace and name of GatewayPeers that leave out Services and have been logged."""
        self.refused = RefusedPeers(deps, sharing)
        self.dropped = DroppedFields()

    def busy(self, key: At, now: float) -> float:
        """Return the seconds for which writes to a namespace of a cluster still pause."""
        return max(0.0, self._busy_until.get(key, 0.0) - now)

    def forget(self, node: str) -> None:
        """Forget dropped fields and refusals of a cluster that has reconnected or changed, and try again."""
        self.dropped.forget(node)
        self.refused.forget(node)

    async def write(
        self, key: At, written: Informer, existing: dict[str, Object], wanted: dict[str, Raw], stay: set[str]
    ) -> None:
        """Create, update and delete the GatewayPeers of a namespace in a cluster, except those in `stay`.

        Problems of single peers are reported, or raised as KubeError after the others have been written.
        """
        now, later = asyncio.get_running_loop().time(), None
        self._busy_until.pop(key, None)
        self.refused.keep(key, existing.keys() | wanted.keys() | stay)
        kept = wanted.keys() | stay
        gone = [name for name, obj in existing.items() if name not in kept and not obj.deleting]
        for name in (*gone, *wanted):
            each = self._within(name, wanted.get(name), existing.get(name))
            if self.refused.waits(key, name, each, now):
                continue
            try:
                wrote = await self._bring(key, written, name, existing.get(name), each)
            except (Unauthorized, TooManyRequests):
                raise
            except (NotFound, Conflict, ServerError) as error:
                later = later or error
                continue
            except StatusError as error:
                self.refused.refuse(key, name, each, error, now)
                continue
            self.refused.accept(key, name)
            if wrote:
                self._busy_until[key] = asyncio.get_running_loop().time() + WRITE_SECONDS
        if later is not None:
            raise later

    def _within(self, name: str, wanted: Raw | None, obj: Object | None) -> Raw | None:
        """Return the GatewayPeer with no more Services than it may name; log once if it leaves out some."""
        if wanted is None or fits(wanted):
            return wanted
        found = within(wanted, obj.decode() if obj is not None else None)
        at = (wanted["metadata"]["namespace"], name)
        if at not in self._full:
            _log.warning("GatewayPeer %s/%s: the most that it may name are %d Services", *at, PEER_SERVICES_LIMIT)
        self._full.add(at)
        return found

    async def _bring(self, key: At, written: Informer, name: str, obj: Object | None, wanted: Raw | None) -> bool:
        """Write one GatewayPeer, or delete it if `wanted` is None; return whether that took a write."""
        (node, namespace), port = key, self._port(key[0])
        if wanted is None:
            if obj is not None:
                self._withdrawn.deleting(obj.uid)
            with contextlib.suppress(NotFound):
                await port.delete(GATEWAY_PEERS, name, namespace, uid=obj.uid if obj is not None else None)
            return True
        if obj is None:
            try:
                raw = await port.create_raw(GATEWAY_PEERS, wanted)
            except AlreadyExists:
                # The existing peer lacks the label that the agent's watch selects: a user has removed it.
                await port.delete(GATEWAY_PEERS, name, namespace)
                raw = await port.create_raw(GATEWAY_PEERS, wanted)
        elif body := _correction(obj, wanted):
            raw = await port.patch_raw(GATEWAY_PEERS, name, body, namespace)
        else:
            return False
        self.dropped.look(node, wanted, written.absorb(raw).decode(), asyncio.get_running_loop().time())
        return True

    def _port(self, node: str) -> Port:
        target = self._deps.targets.by_node(node) if node else None
        return target.port if target is not None else self._deps.local.port


def _correction(obj: Object, wanted: Raw) -> Raw:
    """Return the patch that corrects spec and annotations of a GatewayPeer; empty if both are correct."""
    annotations = wanted["metadata"].get("annotations", {})
    has = {key: obj.annotations[key] for key in annotations if key in obj.annotations}
    old = {"metadata": {"annotations": has}, "spec": obj.decode()["spec"]}
    return merge_patch(old, {"metadata": {"annotations": annotations}, "spec": wanted["spec"]}) or {}
