"""GatewayPeers that a user has deleted: each is recreated after a minute, and reported by an event at its Target."""

import logging
import time

from agent.clusters.deps import Deps
from agent.drivers.sharing import Sharing
from agent.services.gateways.changes import At

log = logging.getLogger(__name__)

AWAY_SECONDS = 60.0
"""Seconds until a GatewayPeer that a user has deleted is written again."""
REASON = "GatewayPeerDeleted"


class WithdrawnPeers:
    """Distinguishes deletions by users from those by this agent."""

    def __init__(self, deps: Deps, sharing: Sharing, seconds: float = AWAY_SECONDS) -> None:
        self._deps = deps
        self._sharing = sharing
        self._seconds = seconds
        self._own = set[str]()
        """UIDs of GatewayPeers that this agent has deleted or is deleting."""
        self._until: dict[tuple[At, str], float] = {}

    def deleting(self, uid: str) -> None:
        """Record that this agent deletes a GatewayPeer."""
        self._own.add(uid)

    def deleted(self, key: At, name: str, uid: str, *, ending: bool) -> None:
        """Record that a GatewayPeer has been deleted.

        :param ending: whether its namespace or cluster is being removed, too
        """
        if uid in self._own:
            self._own.discard(uid)
            return
        if ending:
            return
        self._until[key, name] = time.monotonic() + self._seconds
        node, namespace = key
        target = self._sharing.target_object(node)
        message = (
            f"GatewayPeer {namespace}/{name} was deleted, and is written again in {self._seconds:.0f} s: to keep it"
            f" away, annotate the Target with another network driver, or take the right to create it from the source"
        )
        log.warning("%s: %s", self._sharing.called(node)[0] if node else "this cluster", message)
        if target is not None:
            self._deps.recorder.event(target.decode(), "Warning", REASON, message)

    def away(self, key: At) -> dict[str, float]:
        """Return the GatewayPeers of a namespace in a cluster that wait to be recreated, with the seconds left."""
        now = time.monotonic()
        self._until = {each: until for each, until in self._until.items() if until > now}
        return {name: until - now for (at, name), until in self._until.items() if at == key}

    def forget(self, node: str) -> None:
        """Forget a cluster that was removed or whose CRD was deleted: its peers are recreated at once."""
        self._until = {each: until for each, until in self._until.items() if each[0][0] != node}
