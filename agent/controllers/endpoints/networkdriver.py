"""Network drivers: choose for every target how Services there and elsewhere learn of each other's endpoints.

Watches  Targets and ClusterTargets, Services here; asks their clusters, and this one, which kinds they serve and what
         is granted.
Writes   the condition ServicesShared of Targets: its reason is the driver, or why there is none.
Absent target: the condition stays. The rooms that share endpoints and reroute Services go by it.
"""

import time

from agent.api import names
from agent.api.kinds import SERVICES
from agent.clusters.deps import Deps
from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.drivers.choice import all_drivers, choose
from agent.drivers.cilium import usable
from agent.drivers.driver import Pair
from agent.drivers.sharing import CONDITION, Sharing
from agent.kube.store import Key
from agent.runtime.controller import Controller

RECHECK_SECONDS = 30.0
"""Pause between looks whether what was missing is there."""


class NetworkDriverRoom(Controller[Key]):
    """Keys are those of Targets; ClusterTargets have an empty namespace."""

    name = "networkdriver"
    workers = 2

    def __init__(self, deps: Deps) -> None:
        super().__init__()
        self._deps = deps
        self._drivers = all_drivers(Sharing(deps))
        self._groups: dict[Port, tuple[float, frozenset[str]]] = {}
        self._checked: dict[Key, tuple[float, object]] = {}
        self._condition = TargetCondition(deps, CONDITION)
        self._services = deps.local.informer(SERVICES)
        self.watch(self._services, lambda service: ())
        for informer in self._condition.objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: Key) -> float | None:
        """Say which driver one target has."""
        obj = self._condition.objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        now = time.monotonic()
        annotation = names.annotation(obj.annotations, names.NETWORK_DRIVER)
        checked_at, asked = self._checked.get(key, (0.0, None))
        if asked == (target.port, annotation) and now < checked_at:
            return checked_at - now
        words = await self._words(target, annotation)
        await self._condition.write(obj, words)
        pause = self._deps.settings.discovery_interval if words.status == "True" else RECHECK_SECONDS
        self._checked[key] = (now + pause, (target.port, annotation))
        return pause

    async def _words(self, target: Target, annotation: str | None) -> Words:
        services = (service.name for service in self._services.store)
        here, there = usable(await self._served(self._deps.local.port), services), await self._served(target.port)
        try:
            driver = choose(annotation, self._drivers, Pair(here, there))
        except ValueError as error:
            return Words("False", "InvalidNetworkDriver", str(error))
        problem = await driver.status(target)
        if problem:
            return Words("False", "Forbidden", f"endpoints are not shared by {driver.name}: {problem}")
        return Words("True", driver.reason, f"endpoints of shared Services: network driver {driver.name}")

    async def _served(self, port: Port) -> frozenset[str]:
        """API groups of a cluster."""
        asked_at, groups = self._groups.get(port, (0.0, frozenset()))
        now = time.monotonic()
        if not asked_at or now - asked_at > RECHECK_SECONDS:
            groups = await port.groups()
            self._groups[port] = (now, groups)
        return groups

    def _detached(self, target: Target) -> None:
        self._groups.pop(target.port, None)
        self._checked.pop(target.key, None)
