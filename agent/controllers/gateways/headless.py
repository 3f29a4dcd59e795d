"""Hosts of headless Services, as clusters offer them to each other by gateways: from the stores alone."""

from collections.abc import Mapping
from typing import Any

from agent.controllers.gateways.offers import Offered, Offers
from agent.drivers.handover import Route
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
        """What the GatewayPeer in a cluster tells of another one.

        Callers hear of a Service once the other cluster has taken in that it is to let them in: a CRD that does not
        know that field keeps nothing of it.
        """
        if not self._sharing.deps.settings.gateway_headless:
            return {}
        made = self._made.get(other)
        theirs = made.store.get((namespace, self._sharing.gateway_peer(node))) if made is not None else None
        let_in = names_told(theirs.decode(), OFFERED) if theirs is not None else set[str]()
        called = [each for each in self._between(node, other, shared) if each.service in let_in]
        return written(HEADLESS, called) | written(OFFERED, self._between(other, node, shared))

    def is_known(self, other: str) -> bool:
        """Whether what a cluster has taken in may be believed; otherwise nothing changes."""
        made = self._made.get(other)
        return not self._sharing.deps.settings.gateway_headless or (made is not None and made.synced.is_set())

    def waits(self) -> bool:
        """Whether any cluster is about to tell what it has taken in."""
        return not all(map(self.is_known, self._made))

    def changed(self, old: Object | None, new: Object | None) -> bool:
        """Whether a cluster lets in other headless Services than before."""
        had, has = (names_told(each.decode(), OFFERED) if each is not None else set[str]() for each in (old, new))
        return had != has

    def _between(self, consumer: str, source: str, shared: Mapping[Key, Offered]) -> list[Headless]:
        found, here, there = list[Headless](), self._sharing.called(consumer), self._sharing.called(source)
        for key, (nodes, _, at_home, ports) in sorted(shared.items()):
            if not ports or consumer not in nodes or source not in nodes or (source and at_home):
                continue
            count = self._offers.told_ready(Route(consumer, source, key))
            if count is None:
                continue
            rule = self._sharing.rule(key)
            allowed = rule.ports(there, here) if rule.allows(there, here) else ()
            some = {name for name, number in ports if allowed is None or number in allowed}
            own = [each.decode() for each in self._sharing.own_slices(source, key)]
            # Callers that are led elsewhere already are sent to none of them.
            found += [_ended(each) if not count else each for each in hosts_of(key[1], own, self._sharing.away, some)]
        return found


def _ended(each: Headless) -> Headless:
    return each._replace(hosts=tuple(host._replace(ready=0) for host in each.hosts))
