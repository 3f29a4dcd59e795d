"""Delegate events: copy each warning about a delegate once to its proxy pod.

A target that exceeds its rate is cut off: further warnings are only counted, and an event on the Target reports that.

Watches  Warning events about pods in targets, chaperons in targets, local proxy pods.
Writes   events on proxy pods.
Those of an absent target are copied when it returns. Without the right to read events in a target, none are copied.
"""

import contextlib
import time
from typing import TYPE_CHECKING

from prometheus_client import Counter

from agent.api import names
from agent.api.kinds import EVENTS, TARGET_KINDS
from agent.base.backoff import Allowance
from agent.base.metrics import REGISTRY
from agent.base.recent import Recent
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.store import Key, Object
from agent.model.podstate import claims_other_chaperon
from agent.pods.events.decide import retold
from agent.runtime.controller import Controller

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.kube.informer import Informer

EVENTS_DROPPED = Counter(
    "flotilla_delegate_events_dropped_total",
    "Warnings about delegates that were not copied to their proxy pods, because their target exceeded its rate.",
    ("target",),
    registry=REGISTRY,
)
_SECONDS_AT_ONCE = 10.0
"""Seconds whose allowance a quiet target may use at once."""
_SELECTOR = "type=Warning,involvedObject.kind=Pod"


class DelegateEvents(Controller[tuple[Key, Key]]):
    """Keys are those of a target and of an event in it."""

    name = "delegate-events"
    workers = 4

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._proxies = deps.proxies.informer
        self._informers: dict[Key, tuple[Informer, Callable[[], None]]] = {}
        self._told = Recent()
        self._allowances: dict[Key, Allowance] = {}
        self._objects = deps.local.either(TARGET_KINDS)
        self.watch(self._proxies, lambda pod: ())
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(self._target_changed)
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: tuple[Key, Key]) -> float | None:
        """Copy one event if it is about a delegate of this cluster."""
        target = self._deps.targets.get(key[0])
        if target is None or target.key not in self._informers:
            return None
        event = self._informers[target.key][0].store.get(key[1])
        if event is None or event.uid in self._told:
            return None
        manifest = event.decode()
        proxy = self._proxy(target, manifest["involvedObject"])
        if proxy is None or not self._allowed(target):
            return None
        with contextlib.suppress(AlreadyExists, NotFound):
            await self._deps.local.client.create_raw(EVENTS, retold(manifest, proxy.decode(), target.title))
        self._told.add(event.uid)
        return None

    def _allowed(self, target: Target) -> bool:
        per_second = self._deps.settings.event_rate
        allowance = self._allowances.setdefault(target.key, Allowance(per_second, _SECONDS_AT_ONCE * per_second))
        if allowance.take(time.monotonic()):
            return True
        EVENTS_DROPPED.labels("/".join(target.key).lstrip("/")).inc()
        found = self._objects.get(target.key)
        if found is not None:
            message = (
                f"it has more warnings about delegates than {per_second:g} a second: what is more is not told on proxy"
                f" pods, see flotilla_delegate_events_dropped_total and --tuning=event-rate"
            )
            self._deps.recorder.event(found.decode(), "Warning", "EventsDropped", message)
        return False

    def _proxy(self, target: Target, involved: dict[str, str]) -> Object | None:
        """Return the proxy pod of an event's delegate, which has the name of its chaperon."""
        chaperon = target.chaperons.store.get((involved.get("namespace", ""), involved.get("name", "")))
        if chaperon is None or not self._deps.chaperons.is_ours(chaperon):
            return None
        known = chaperon.hot_annotations
        proxy = self._proxies.store.get((known.parent_namespace or chaperon.namespace, known.parent_name))
        if proxy is None or proxy.uid != chaperon.labels.get(names.LABEL_PARENT_UID):
            return None
        if claims_other_chaperon(proxy, chaperon.uid):
            # A candidate that has lost is refused and deleted: nothing is wrong.
            return None
        return proxy

    def _attached(self, target: Target) -> None:
        informer = target.informer(EVENTS, fields=_SELECTOR)
        stop = self.watch(informer, lambda event: ((target.key, event.key),), required=False)
        self._informers[target.key] = (informer, stop)

    def _target_changed(self, target: Target) -> None:
        """Requeue events that were seen before the chaperons by which their pods are found."""
        if target.ready and target.key in self._informers:
            for event in self._informers[target.key][0].store:
                self.queue.add((target.key, event.key))

    def _detached(self, target: Target) -> None:
        self._allowances.pop(target.key, None)
        informer = self._informers.pop(target.key, None)
        if informer is not None:
            informer[1]()
