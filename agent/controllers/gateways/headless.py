"""Hosts of headless Services, as clusters offer them to each other by gateways: from the stores alone."""

from collections.abc import Mapping
from typing import Any

from agent.controllers.gateways.offers import Offered, Offers
from agent.drivers.sharing import Sharing
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model.gatewayhosts import HEADLESS, OFFERED, Headless, hosts_of, names_told, written

Raw = dict[str, Any]


class HeadlessOffers:
    """Off unless asked for: then nothing is told."""

    def __init__(self, sharing: Sharing, offers: Offers, made: Mapping[str, Informer]) -> None:
        self._sharing = sharing
        self._offers = offers
        self._made = made
        """GatewayPeers of ours, by cluster."""

    def told(self, node: str, other: str, namespace: str, shared: Mapping[Key, Offered]) -> Raw:
        """What the GatewayPeer in a cluster tells of another one, in fields of its spec."""
        if not self._sharing.deps.settings.gateway_headless:
            return {}
        let_in = self._let_in(node, other, namespace)
        called = [each for each in self._between(node, other, shared) if each.service in let_in]
        return written(HEADLESS, called) | written(OFFERED, self._between(other, node, shared))

    def _let_in(self, node: str, other: str, namespace: str) -> set[str]:
        """Services of which the other cluster has kept that it is to let callers in, which an older CRD does not.

        As long as that is not known again, those that callers have been told of.
        """
        made = self._made.get(other)
        known = made is not None and made.synced.is_set()
        at, of, field = (other, node, OFFERED) if known else (node, other, HEADLESS)
        found = self._made[at].store.get((namespace, self._sharing.gateway_peer(of)))
        return names_told(found.decode(), field) if found is not None else set()

    def changed(self, old: Object | None, new: Object | None) -> bool:
        """Whether a cluster lets in other headless Services than before."""
        if not self._sharing.deps.settings.gateway_headless:
            return False
        had, has = (names_told(each.decode(), OFFERED) if each is not None else set[str]() for each in (old, new))
        return had != has

    def _between(self, consumer: str, source: str, shared: Mapping[Key, Offered]) -> list[Headless]:
        found, headless = list[Headless](), {key: shared[key] for key in sorted(shared) if shared[key].headless}
        for key, offered, drained, allowed in self._offers.led(consumer, source, headless):
            some = {name for name, number in offered.headless if allowed is None or number in allowed}
            own = [each.decode() for each in self._sharing.own_slices(source, key)]
            # Callers that are led elsewhere already are sent to none of them.
            found += [_ended(each) if drained else each for each in hosts_of(key[1], own, self._sharing.away, some)]
        return found


def _ended(each: Headless) -> Headless:
    return each._replace(hosts=tuple(host._replace(ready=0) for host in each.hosts))
