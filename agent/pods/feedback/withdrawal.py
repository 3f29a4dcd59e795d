"""Withdrawal of delegates from Services before they end: collects the input of `pause` from the stores.

Nothing waits: `Feedback` requeues the proxy pod, as does a change of EndpointSlices.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from agent.api import names
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import GRACE_PERIOD, answers
from agent.clusters.target import Target
from agent.drivers.reach import EndpointReach
from agent.kube.store import Key, Object
from agent.model import deletion
from agent.model.service import is_shared
from agent.pods.feedback import pause
from agent.pods.feedback.view import Ending

Raw = dict[str, Any]

_AGENT_VERSION = names.ANNOTATION_AGENT_VERSION.encode()
_WAKE_SECONDS = 0.25
"""Delay between a change of EndpointSlices and the check of pods behind that Service: many changes, one check."""


class _Memory:
    """State of one deletion. A restart of the agent begins the wait for clusters again, within the same bounds."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.asked = 0
        """Longest grace period that the deletion has had."""
        self.began: float | None = None
        """Start of the pause, None before."""
        self.followed: float | None = None
        """Since when no cluster routes traffic to the delegate."""
        self.taken: float | None = None
        """Seconds that the pause took, None while the delegate may not end yet."""
        self.services: tuple[Key, ...] = ()
        """Services that select the pod."""
        self.awaited: tuple[Key, ...] = ()
        """Services whose endpoints still have to follow."""


class Withdrawal:
    """Pauses of terminating proxy pods, by their UIDs."""

    def __init__(self, deps: Deps, wake: Callable[[Key, float], None]) -> None:
        """:param wake: check a proxy pod in so many seconds, or at an earlier time already planned"""
        self._deps = deps
        self._seconds = deps.settings.withdraw
        self._reach = EndpointReach(deps)
        self._known: dict[str, _Memory] = {}
        self._open: defaultdict[Key, dict[str, Key]] = defaultdict(dict)
        """Proxy pods whose delegates clusters still route to, by Service and UID."""
        self._wake = wake
        self._reach.subscribe(self._endpoints_changed)
        deps.proxies.informer.subscribe(self._pod_changed)

    def ending(self, proxy: Mapping[str, Any], target: Target, chaperon: Mapping[str, Any]) -> Ending:
        """Return how far the end of the delegate of a terminating proxy pod is.

        :param target: of the chaperon
        """
        metadata = proxy["metadata"]
        key = (metadata["namespace"], metadata["name"])
        memory = self._known.setdefault(metadata["uid"], _Memory(key))
        memory.asked = max(memory.asked, deletion.asked_seconds(proxy))
        granted = deletion.granted_seconds(proxy, chaperon, memory.asked)
        wait = 0.0
        if memory.taken is None:
            wait = 0.0 if "deletionTimestamp" in chaperon["metadata"] else self._wait(memory, proxy, target, chaperon)
            self._note(memory, metadata["uid"], wait)
        if not answers(target.agent, target.summary, GRACE_PERIOD):
            return Ending(wait)
        left = (
            pause.expected_seconds(self._seconds, granted) if wait else pause.rest_seconds(granted, memory.taken or 0)
        )
        return Ending(wait, deletion.seconds_to_tell(chaperon, left))

    def end(self, uid: str) -> None:
        """End the pause of a proxy pod whose target refuses to withdraw the delegate."""
        if uid in self._known:
            self._known[uid].taken = 0.0

    def _wait(self, memory: _Memory, proxy: Mapping[str, Any], target: Target, chaperon: Mapping[str, Any]) -> float:
        granted = deletion.granted_seconds(proxy, chaperon, memory.asked)
        if not (self._seconds and pause.longest(granted) and deletion.may_serve(proxy, chaperon)):
            return 0.0
        namespace = memory.key[0]
        if not _follows(target) or self._deps.unlabelled.any(target, namespace) or self._is_ending(namespace):
            return 0.0
        # Copies of rerouted Services select by the wire contract's labels, which the delegate keeps.
        found = self._reach.services_of(proxy)
        services = [each for each in found if names.ANNOTATION_ORIGINAL_SELECTOR not in each.annotations]
        memory.services = tuple(each.key for each in services)
        withdrawn = deletion.is_withdrawn(chaperon)
        read = self._reach.services.synced.is_set() and self._reach.here.synced.is_set()
        marks = self._deps.unwritten_marks
        if read and not any(is_shared(marks.annotations(service)) for service in services):
            return 0.0
        now = time.monotonic()
        if memory.began is None:
            memory.began = now - (self._since(proxy) if withdrawn else 0.0)
        reach = self._reach.of(proxy, services)
        if not (read and withdrawn) or reach.known or reach.silent:
            memory.followed = None
        elif memory.followed is None:
            memory.followed = now
        since = now - memory.followed if memory.followed is not None else None
        return pause.left(pause.Pause(self._seconds, granted, now - memory.began, since, reach.unseen))

    def _note(self, memory: _Memory, uid: str, wait: float) -> None:
        if not wait:
            memory.taken = time.monotonic() - memory.began if memory.began is not None else 0.0
        self._await(memory, uid, memory.services if wait and memory.followed is None else ())

    def _await(self, memory: _Memory, uid: str, services: tuple[Key, ...]) -> None:
        """Wake a pod when endpoints of these Services change. Those of all others in its namespace cost nothing."""
        for service in memory.awaited:
            del self._open[service][uid]
            if not self._open[service]:
                del self._open[service]
        for service in services:
            self._open[service][uid] = memory.key
        memory.awaited = services

    def _since(self, proxy: Mapping[str, Any]) -> float:
        """Return for how many seconds a proxy pod has been terminating, by its API server's clock."""
        began = deletion.began(proxy)
        now = self._deps.clock.now() + timedelta(seconds=self._deps.local.client.session.skew)
        return max(0.0, (now - began).total_seconds()) if began is not None else 0.0

    def _is_ending(self, namespace: str) -> bool:
        found = self._deps.namespaces.get(namespace)
        return found is not None and found.deleting

    def _endpoints_changed(self, service: Key) -> None:
        for key in self._open.get(service, {}).values():
            self._wake(key, _WAKE_SECONDS)

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            memory = self._known.pop(old.uid, None)
            if memory is not None:
                self._await(memory, old.uid, ())


def _follows(target: Target) -> bool:
    """Return whether the agent of a target takes labels off delegates, as far as is known; Admiralty's does not."""
    summary = target.summaries.store.get(("", names.SUMMARY_NAME))
    usable = target.agent is None or target.agent.usable
    return usable and summary is not None and _AGENT_VERSION in summary.raw
