"""GatewayPeers that an API server refuses: each gets an event at its Target and is retried after a while."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from agent.clusters.deps import Deps
from agent.drivers.driver import LOCAL
from agent.drivers.sharing import Sharing
from agent.kube.errors import StatusError
from agent.services.gateways.changes import At

Raw = dict[str, Any]
log = logging.getLogger(__name__)

RETRY_SECONDS = 60.0
REASON = "GatewayPeerRefused"


class _Refused(NamedTuple):
    wanted: Mapping[str, Any] | None
    """Refused manifest; None if the deletion was refused."""
    until: float


class RefusedPeers:
    """Refused GatewayPeers of all clusters."""

    def __init__(self, deps: Deps, sharing: Sharing) -> None:
        self._deps = deps
        self._sharing = sharing
        self._known: dict[tuple[At, str], _Refused] = {}

    def waits(self, key: At, name: str, wanted: Mapping[str, Any] | None, now: float) -> bool:
        """Return whether the same write was refused a moment ago, so that it must wait."""
        found = self._known.get((key, name))
        return found is not None and found.wanted == wanted and now < found.until

    def refuse(self, key: At, name: str, wanted: Mapping[str, Any] | None, error: StatusError, now: float) -> None:
        """Record a refusal; log it if it concerns a new manifest."""
        before = self._known.get((key, name))
        self._known[key, name] = _Refused(wanted, now + RETRY_SECONDS)
        node, namespace = key
        other = self._stands_for(name, namespace)
        where, whose = (self._called(each) for each in (node, other))
        message = (
            f"gateways of {where} are not told of {whose} in namespace {namespace}: {error}: correct what {whose} tells"
            f" of its gateways and Services, or the policy or role of {where} that refuses GatewayPeer {name}"
        )
        if before is None or before.wanted != wanted:
            log.warning("%s", message)
        target = self._sharing.target_object(node or other)
        if target is not None:
            self._deps.recorder.event(target.decode(), "Warning", REASON, message)

    def accept(self, key: At, name: str) -> None:
        """Forget a refusal after the peer was written or became unnecessary."""
        self._known.pop((key, name), None)

    def keep(self, key: At, names: set[str]) -> None:
        """Forget the refusals of a cluster and namespace except these names."""
        for each in [each for each in self._known if each[0] == key and each[1] not in names]:
            del self._known[each]

    def at(self, key: At) -> Iterator[str]:
        """Return the names of refused GatewayPeers in a cluster and namespace."""
        return (name for at, name in self._known if at == key)

    def forget(self, node: str) -> None:
        """Forget the refusals of a cluster that has reconnected or changed."""
        for each in [each for each in self._known if each[0][0] == node]:
            del self._known[each]

    def due(self, key: At, now: float) -> float | None:
        """Return the seconds until the next retry; None without refusals."""
        left = [found.until - now for (at, _), found in self._known.items() if at == key]
        return max(0.0, min(left)) if left else None

    def _stands_for(self, name: str, namespace: str) -> str:
        """Return the cluster that a GatewayPeer of this agent represents."""
        others = self._sharing.serving(namespace)
        return next((each for each in others if self._sharing.gateway_peer(each) == name), LOCAL)

    def _called(self, node: str) -> str:
        return self._sharing.called(node)[0] if node else "this cluster"
