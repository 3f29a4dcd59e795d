"""Services whose callers prefer endpoints of their own cluster: do these have ready ones?"""

from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, NODES
from agent.clusters.deps import Deps
from agent.drivers.sharing import own_slices, slices_by_service, slices_in
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.endpoints import count_ready, is_mirror
from agent.model.gatewayaffinity import held_back, own_first
from agent.model.gatewaylink import writer

Raw = dict[str, Any]


class OwnFirst:
    """Reads EndpointSlices of shared Services from when the first GatewayPeer asks for it: most clusters never do."""

    def __init__(self, deps: Deps, changed: Callable[[str], None]) -> None:
        """:param changed: called with the namespace of a Service that may have ready endpoints now, or none any more"""
        self._deps = deps
        self._changed = changed
        self._nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self._slices: dict[bool, Informer] = {}

    def held_back(self, peer: Mapping[str, Any], wanted: dict[str, Raw]) -> dict[str, Raw] | None:
        """Slices that lead to a peer, by name, not ready where callers are not sent there now; None: not known yet."""
        services = own_first(peer)
        if not services:
            return wanted
        slices = self._read(here=writer(peer) == self._deps.cluster_uid)
        if not (slices.synced.is_set() and self._nodes.synced.is_set()):
            return None
        namespace = peer["metadata"]["namespace"]
        return held_back(wanted, {name for name in services if self._ready(own_slices(slices, (namespace, name)))})

    def _read(self, *, here: bool) -> Informer:
        """Slices of Services that this cluster shares, or of copies: they have the labels of their Services."""
        if here not in self._slices:
            local = self._deps.local
            copied = names.LABEL_PARENT_CLUSTER_UID
            found = slices_in(self._deps, None) if here else local.informer(ENDPOINT_SLICES, labels=copied)
            self._slices[here] = slices_by_service(found)
            found.subscribe(self._slice_changed)
        return self._slices[here]

    def _slice_changed(self, old: Object | None, new: Object | None) -> None:
        told = [[each] if each is not None and not is_mirror(each.labels) else [] for each in (old, new)]
        had, has = map(self._ready, told)
        if had != has:
            self._changed((new or old).namespace)  # type: ignore[union-attr]

    def _ready(self, slices: list[Object]) -> bool:
        """Whether any has a ready endpoint; those on virtual nodes are told by their own cluster."""
        away = {obj.name for obj in self._nodes.store}
        return count_ready((each.decode() for each in slices), away) > 0
