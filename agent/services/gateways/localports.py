"""Local ports of GatewayPeers, and ports that may be allotted to one of them."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from agent.kube.store import Key, Object, Store
from agent.model import peerports
from agent.model.gatewayhosts import every_local
from agent.model.gatewaylink import writer
from agent.model.hostservices import HostService
from agent.model.localports import Held
from agent.model.peerports import Ports

Raw = dict[str, Any]

GONE_SECONDS = 30.0
"""Seconds for which the status keeps the entry of a gateway pod that no EndpointSlice lists: it may be starting."""


class LocalPorts:
    """Allots local ports to one GatewayPeer at a time, based on the status of all."""

    def __init__(self, store: Store) -> None:
        """:param store: all GatewayPeers of the cluster"""
        self._store = store
        self._ports: dict[Key, tuple[str, str, frozenset[int]]] = {}
        """Version, source and local ports by GatewayPeer."""
        self._pending: dict[Key, frozenset[int]] = {}
        """Local ports that were allotted and are being written, by GatewayPeer."""
        self._freed: dict[int, float] = {}
        self._holders: Counter[int] = Counter()
        """Number of GatewayPeers by local port; above 1 only if another user has written a status."""

    def changed(self, old: Object | None, new: Object | None) -> None:
        """Count the local ports of a GatewayPeer. Freed ports are reserved for a while: gateway pods may still
        listen at them.
        """
        ports = [every_local(each.decode()) if each is not None else set[int]() for each in (old, new)]
        self._freed.update(dict.fromkeys(ports[0] - ports[1], time.monotonic()))
        self._holders.subtract(ports[0])
        self._holders.update(ports[1])

    def forget(self, key: Key) -> None:
        """Forget a GatewayPeer that has been deleted."""
        self._ports.pop(key, None)
        self.settle(key)

    def settle(self, key: Key) -> None:
        """Drop the pending allotment of a GatewayPeer that was written or could not be written."""
        self._pending.pop(key, None)

    def allot(self, peer: Raw, ports: Ports, hosts: Sequence[HostService], most: int) -> tuple[Raw, str]:
        """Return the local ports of a peer, and the reasons why some Services have none.

        The ports of other peers are only examined if the peer needs new ones.
        :param most: number of local gateway pods
        """
        own = every_local(peer)
        shared = {port for port in own if self._holders[port] > 1}
        kept, problem = peerports.allot(peer, ports, hosts, shared, most)
        if not problem and every_local({"status": kept}) <= own:
            return kept, ""
        taken, held = self.others(peer)
        allotted, problem = peerports.allot(peer, ports, hosts, taken, most, held)
        key = (peer["metadata"]["namespace"], peer["metadata"]["name"])
        self._pending[key] = frozenset(every_local({"status": allotted}))
        return allotted, problem

    def others(self, peer: Raw) -> tuple[set[int], Held]:
        """Return the local ports that a peer cannot have, and how many the other peers of its namespace hold.

        A port is taken if another peer has it or if it was freed only just now.
        """
        self._freed = {port: at for port, at in self._freed.items() if at > time.monotonic() - GONE_SECONDS}
        metadata, source = peer["metadata"], writer(peer)
        own, namespace = (metadata["namespace"], metadata["name"]), metadata["namespace"]
        had = self._store.get(own)
        taken = self._freed.keys() - (every_local(had.decode()) if had is not None else set())
        in_namespace = of_source = 0
        for obj in self._store:
            if obj.key == own:
                continue
            by, ports = self._known(obj)
            taken |= ports
            if obj.namespace == namespace:
                in_namespace += len(ports)
                of_source += len(ports) if by == source else 0
        return taken, Held(in_namespace, of_source)

    def _known(self, obj: Object) -> tuple[str, frozenset[int]]:
        """Return source and local ports of a GatewayPeer."""
        version, source, ports = self._ports.get(obj.key, ("", "", frozenset[int]()))
        if version != obj.version:
            peer = obj.decode()
            source, ports = writer(peer), frozenset(every_local(peer))
            self._ports[obj.key] = (obj.version, source, ports)
        return source, ports | self._pending.get(obj.key, frozenset())
