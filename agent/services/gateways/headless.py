"""Hosts of headless Services that clusters offer to each other through gateways, computed from the stores alone."""

from collections.abc import Mapping
from typing import Any

from agent.drivers.sharing import Sharing
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewayhosts import HEADLESS, OFFERED, Headless, hosts_of, names_told, written
from agent.services.gateways.offers import Offered, Offers

Raw = dict[str, Any]


class HeadlessOffers:
    """Hosts of headless Services for GatewayPeers. Empty unless the setting is on."""

    def __init__(self, sharing: Sharing, offers: Offers, made: Mapping[str, Informer]) -> None:
        self._sharing = sharing
        self._offers = offers
        self._made = made
        """GatewayPeers written by this agent, by cluster."""

    def told(self, node: str, other: str, namespace: str, shared: Mapping[Key, Offered]) -> Raw:
        """Return the spec fields that a cluster's GatewayPeer contains about the headless Services of another
        cluster."""
        if not self._sharing.deps.settings.gateway_headless:
            return {}
        let_in = self._let_in(node, other, namespace)
        called = [each for each in self._between(node, other, shared) if each.service in let_in]
        return written(HEADLESS, called) | written(OFFERED, self._between(other, node, shared))

    def _let_in(self, node: str, other: str, namespace: str) -> set[str]:
        """Return the Services whose offer the other cluster's GatewayPeer has kept; an older CRD drops that field.

        Until that peer has been read, return the Services that callers have already received.
        """
        made = self._made.get(other)
        known = made is not None and made.synced.is_set()
        at, of, field = (other, node, OFFERED) if known else (node, other, HEADLESS)
        found = self._made[at].store.get((namespace, self._sharing.gateway_peer(of)))
        return names_told(found.decode(), field) if found is not None else set()

    def changed(self, old: Object | None, new: Object | None) -> bool:
        """Return whether the headless Services that a cluster lets in have changed."""
        if not self._sharing.deps.settings.gateway_headless:
            return False
        had, has = (names_told(each.decode(), OFFERED) if each is not None else set[str]() for each in (old, new))
        return had != has

    def _between(self, consumer: str, source: str, shared: Mapping[Key, Offered]) -> list[Headless]:
        found, headless = list[Headless](), {key: shared[key] for key in sorted(shared) if shared[key].headless}
        for key, offered, drained, allowed in self._offers.led(consumer, source, headless):
            some = {name for name, number in offered.headless if allowed is None or number in allowed}
            own = [each.decode() for each in self._sharing.own_slices(source, key)]
            # A drained Service reports its hosts as not ready, since its callers already use another path.
            found += [_ended(each) if drained else each for each in hosts_of(key[1], own, self._sharing.away, some)]
        return found


def _ended(each: Headless) -> Headless:
    return each._replace(hosts=tuple(host._replace(ready=0) for host in each.hosts))
