"""Network drivers: choose for every target how Services there and elsewhere learn of each other's endpoints.

Watches  Targets and ClusterTargets, Services here; asks their clusters, and this one, which kinds they serve and what
         is granted.
Writes   the condition ServicesShared of Targets: its reason is the driver, or why there is none.
Absent target: the condition stays. The rooms that share endpoints and reroute Services go by it.
"""

import time

from agent.api import names
from agent.api.conditions import Status, find_condition, set_condition
from agent.api.kinds import SERVICES, TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.port import Port
from agent.clusters.target import Target
from agent.drivers.choice import all_drivers, choose
from agent.drivers.cilium import usable
from agent.drivers.driver import Pair
from agent.drivers.sharing import CONDITION, Sharing
from agent.kube.store import Key, Object
from agent.model.diff import same
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
        self._objects = deps.local.either(TARGET_KINDS)
        self._services = deps.local.informer(SERVICES)
        self.watch(self._services, lambda service: ())
        for informer in self._objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_detach(self._detached)

    async def reconcile(self, key: Key) -> float | None:
        """Say which driver one target has."""
        obj = self._objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        now = time.monotonic()
        annotation = names.annotation(obj.annotations, names.NETWORK_DRIVER)
        checked_at, asked = self._checked.get(key, (0.0, None))
        if asked == (target.port, annotation) and now < checked_at:
            return checked_at - now
        words = await self._words(target, annotation)
        await self._write(obj, words)
        pause = self._deps.settings.discovery_interval if words[0] == "True" else RECHECK_SECONDS
        self._checked[key] = (now + pause, (target.port, annotation))
        return pause

    async def _words(self, target: Target, annotation: str | None) -> tuple[Status, str, str]:
        services = (service.name for service in self._services.store)
        here, there = usable(await self._served(self._deps.local.port), services), await self._served(target.port)
        try:
            driver = choose(annotation, self._drivers, Pair(here, there))
        except ValueError as error:
            return ("False", "InvalidNetworkDriver", str(error))
        problem = await driver.status(target)
        if problem:
            return ("False", "Forbidden", f"endpoints are not shared by {driver.name}: {problem}")
        return ("True", driver.reason, f"endpoints of shared Services: network driver {driver.name}")

    async def _served(self, port: Port) -> frozenset[str]:
        """API groups of a cluster."""
        asked_at, groups = self._groups.get(port, (0.0, frozenset()))
        now = time.monotonic()
        if not asked_at or now - asked_at > RECHECK_SECONDS:
            groups = await port.groups()
            self._groups[port] = (now, groups)
        return groups

    async def _write(self, obj: Object, words: tuple[Status, str, str]) -> None:
        manifest = obj.decode()
        old = (manifest.get("status") or {}).get("conditions")
        found = find_condition(old, CONDITION) or {}
        if all(found.get(field) == word for field, word in zip(("status", "reason", "message"), words, strict=True)):
            return
        new = set_condition(old, CONDITION, *words, self._deps.clock.now(), manifest["metadata"].get("generation"))
        if same(old, new):
            return
        body = {"metadata": {"resourceVersion": obj.version}, "status": {"conditions": new}}
        await self._objects.patch(obj.key, body, sub="status")

    def _detached(self, target: Target) -> None:
        self._groups.pop(target.port, None)
        self._checked.pop(target.key, None)
