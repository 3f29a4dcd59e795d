"""Network drivers: choose for every target how endpoints of Services are exchanged with other clusters.

Watches  Targets and ClusterTargets, local Services, the ClusterSummaries of source and targets; asks the clusters which
  kinds they serve and permit, and whether pods are reached.
Writes   the condition ServicesShared of Targets, whose reason is the driver or the obstacle; GatewayUsable of those
  with gateways.
Both stay for an absent target. The controllers of endpoints and of rerouting follow them. While a ClusterSummary is
missing or unusable, the last verdict stands.
"""

import time
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import CLUSTER_SUMMARIES, SERVICES
from agent.api.names.links import ANNOTATION_GATEWAY, BY_GATEWAY, GATEWAY_USABLE, SERVICES_SHARED, UNTOLD
from agent.base.grace import ABSENT_SECONDS, GracePeriods
from agent.clusters.deps import Deps
from agent.clusters.health.agent_health import is_readable
from agent.clusters.port import Port
from agent.clusters.stores.gateway_reports import GatewayReports, had_gateways
from agent.clusters.target import Target
from agent.clusters.target_condition import TargetCondition, Words
from agent.drivers.choice import EXPERIMENTAL, all_drivers, choose
from agent.drivers.cilium import usable
from agent.drivers.driver import BY_ADDRESSES, LOCAL, Driver, Pair
from agent.drivers.gateway import Gateway
from agent.drivers.mcs import McsExports, without_exports
from agent.drivers.meshes import Meshes
from agent.drivers.sharing import Sharing
from agent.kube.errors import Forbidden
from agent.kube.store import Key, Object
from agent.model import gatewaytold, podranges
from agent.model.links import NO_GATEWAY
from agent.model.pod_networks import NOT_TOLD, NOTHING_TOLD, Flatness, Told, judge, not_granted, read, waits
from agent.model.summary import told_uid
from agent.runtime.controller import Controller
from agent.runtime.task_group import together
from agent.services.endpoints.asking import AgentAsks, can_be_asked

if TYPE_CHECKING:
    from collections.abc import Mapping

RECHECK_SECONDS = 30.0
"""Longest pause in seconds between checks for missing prerequisites; shorter if the discovery interval is."""
_UNREAD_SECONDS = 0.5
_UNTOLD_SECONDS = 10.0
"""Seconds for which a new Target may have no condition because a ClusterSummary is missing."""
EXPERIMENTAL_NOTE = " (experimental: tests do not run its network)"
_OWN = (names.ANNOTATION_CLUSTER_UID, ANNOTATION_GATEWAY)
_ONE_LACKS = "one of the clusters has none; install the chart there with gateway.enabled, or remove the annotation"
_NONE_HERE = "the source has no gateway: install the chart in it with gateway.enabled"


class NetworkDriverController(Controller[Key]):
    """Reconciles one Target; a ClusterTarget has an empty namespace."""

    name = "networkdriver"
    workers = 16

    def __init__(self, deps: Deps, grace: float = ABSENT_SECONDS) -> None:
        """:param grace: seconds for which gateways still count that a summary no longer names"""
        super().__init__()
        self._deps = deps
        sharing = Sharing(deps)
        self._drivers = all_drivers(sharing)
        self._by_gateway = Gateway(sharing)
        self._meshes = Meshes(deps, sharing)
        self._groups: dict[Port, tuple[float, frozenset[str]]] = {}
        self._checked: dict[Key, tuple[float, object]] = {}
        self._condition = TargetCondition(deps, SERVICES_SHARED)
        self._usable = TargetCondition(deps, GATEWAY_USABLE)
        self._services = deps.local.informer(SERVICES)
        self._asks = AgentAsks(deps, self.queue.add)
        self._summaries = deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={names.SUMMARY_NAME}")
        self._here: Told | None = None
        """Last report in this cluster's own summary, None until that has been read."""
        self._own: Mapping[str, str] | None = None
        self._gateways = GatewayReports(grace)
        self._untold = GracePeriods(min(grace, _UNTOLD_SECONDS))
        self._judged: dict[Key, str] = {}
        """Last found reason why pods are not reached; a driver named by a user may hide it from the condition."""
        self.watch(self._services, lambda service: ())
        self.watch(self._summaries, lambda summary: ())
        self._summaries.subscribe(self._summary_changed)
        for informer in self._condition.objects.informers:
            self.watch(informer, lambda target: (target.key,))
        deps.targets.on_attach(self._attached)
        deps.targets.on_change(lambda target: self.queue.add(target.key))
        deps.targets.on_detach(self._detached)

    async def run(self) -> None:
        """Choose drivers, and ask agents of targets, until cancelled."""
        await together(super().run(), self._asks.run())

    async def reconcile(self, key: Key) -> float | None:
        """Report the driver of one target."""
        obj = self._condition.objects.get(key)
        target = self._deps.targets.get(key)
        if obj is None or obj.deleting or target is None or target.is_self or not target.ready:
            return None
        if target.told is None and not target.summaries.synced.is_set() and target.summaries.error is None:
            return _UNREAD_SECONDS
        now = time.monotonic()
        annotation = names.annotation(obj.annotations, names.NETWORK_DRIVER)
        said = condition_of(obj.decode(), SERVICES_SHARED) or {}
        flat = self._flatness(target, obj, podranges.last_verdict(said))
        if flat is None:
            return _UNREAD_SECONDS
        told = self._has_gateways(target, obj, now)
        gateways = self._gateways.has(LOCAL, self._own, now, before=self._deps.settings.gateway) and told
        seen = (target.port, annotation, flat, gateways, told)
        checked_at, asked = self._checked.get(key, (0.0, None))
        # A status that a user has removed is written again.
        if said and asked == seen and now < checked_at:
            return checked_at - now
        if target.told is None and annotation is None and podranges.last_verdict(said) is not None:
            return self._recheck
        present = Sharing.reason(obj) if self._chose(key, target) else ""
        words = await self._words(target, annotation, flat, gateways, present)
        if not said and words.reason == UNTOLD and (left := self._untold.left(key, now)):
            return left
        if not (flat.stands and (words.status, words.reason) == (said.get("status"), said.get("reason"))):
            await self._condition.write(obj, words)
        usable = await self._of_gateway(target, told=told) if told or self._usable.status(obj) else None
        if usable is not None and target.told is not None:
            await self._usable.write(obj, usable)
        is_well = words.status == "True" and (usable is None or usable.reason != "Forbidden")
        pause = self._deps.settings.discovery_interval if is_well else self._recheck
        pause = min(filter(None, (pause, *(self._gateways.left(each, now) for each in (key, LOCAL)))))
        self._checked[key] = (now + pause, seen)
        return pause

    @property
    def _recheck(self) -> float:
        return min(RECHECK_SECONDS, self._deps.settings.discovery_interval)

    def _flatness(self, target: Target, obj: Object, before: str | None) -> Flatness | None:
        """Return whether pods of a target are reached, by its summary and its agent's answer; None while the answer is
        missing and nothing else decides."""
        annotations = target.told.annotations if target.told is not None else None
        uid = told_uid(annotations or {})
        if uid == self._deps.cluster_uid:
            return NOT_TOLD
        there, named = read(annotations) if annotations is not None else None, podranges.of(obj.decode()).networks
        if named is not None:
            there = (there or NOTHING_TOLD)._replace(pods=named, flaw="")
        asked = self._asks.of(target.key)
        # The first verdict on a target waits for its agent's answer.
        first = before is None and asked is None
        here = self._here
        known = here is not None and there is not None and can_be_asked(target, there.health)
        if known and (first or waits(here or NOTHING_TOLD, there or NOTHING_TOLD, asked)):
            return None
        before = before or self._judged.get(target.key, before)
        found = self._refused(target, there, before) or judge(here, there, uid, asked, before)
        if not found.stands:
            self._judged[target.key] = found.reason
        return found

    def _refused(self, target: Target, there: Told | None, before: str | None) -> Flatness | None:
        """Return the verdict if a ClusterSummary is not known and this cluster may not read it; None if it may."""
        if self._here is not None and there is not None:
            return None
        whose, informer = ("this cluster", self._summaries) if self._here is None else ("the target", target.summaries)
        refused = isinstance(informer.error, Forbidden)
        return not_granted(whose, str(informer.error), before) if refused else None

    def _has_gateways(self, target: Target, obj: Object, now: float) -> bool:
        annotations = target.told.annotations if target.told is not None else None
        return self._gateways.has(target.key, annotations, now, before=had_gateways(obj.decode()))

    def _chose(self, key: Key, target: Target) -> bool:
        """Return whether the current driver was chosen automatically, as far as this process knows."""
        asked = self._checked.get(key, (0.0, None))[1]
        return not (isinstance(asked, tuple) and asked[0] == target.port and asked[1] is not None)

    async def _words(
        self, target: Target, annotation: str | None, flat: Flatness, gateways: bool, present: str
    ) -> Words:
        services = (service.name for service in self._services.store)
        here, there = usable(await self._served(self._deps.local.port), services), await self._served(target.port)
        meshes = await self._meshes.between(target) if annotation is None else frozenset[str]()
        # Networks that hide pod addresses, whatever the driver.
        apart = "" if flat.usable else f"; {podranges.unreached(flat.reason)}"
        try:
            driver = choose(annotation, self._drivers, Pair(here, there, flat.usable, gateways, meshes), present)
        except ValueError as error:
            return Words("False", "InvalidNetworkDriver", f"{error}{apart}")
        flaw = _flaw(target.told)
        if driver is None:
            also = f"; nor by gateway: {flaw}" if flaw else ""
            return Words("False", flat.reason, f"endpoints are not shared: {flat.message}{also}")
        problem = await driver.status(target)
        if driver.reason == BY_GATEWAY and not flat.usable and (lacking := problem if gateways else flaw or _ONE_LACKS):
            # The reason why pods are not reached is what hides their addresses.
            return Words("False", flat.reason, f"endpoints are not shared: {flat.message}; nor by gateway: {lacking}")
        if driver.reason == BY_GATEWAY and not gateways:
            return Words("False", "NoGateway", f"endpoints are not shared by gateway: {flaw or _ONE_LACKS}")
        if driver.reason == BY_ADDRESSES:
            # A user who names this driver asserts that pods are reached.
            apart = f"; {flat.message}" if flat.message and not problem else ""
        if driver.reason == BY_GATEWAY and flaw:
            apart = f"{apart}; the last that is known counts: {flaw}"
        if problem:
            return Words("False", "Forbidden", f"endpoints are not shared by {driver.name}: {problem}{apart}")
        named = (annotation or driver.name) + (EXPERIMENTAL_NOTE if self._is_experimental(driver) else "")
        return Words("True", driver.reason, f"endpoints of shared Services: network driver {named}{apart}")

    def _is_experimental(self, driver: Driver) -> bool:
        """Return whether no test runs a driver's network. Tests run Flotilla's own implementation of ServiceExports."""
        return driver.name in EXPERIMENTAL and not (driver.name == McsExports.name and self._deps.settings.mcs)

    async def _of_gateway(self, target: Target, *, told: bool) -> Words:
        """Return whether a target's gateways can be used with those of other targets. `told`: whether it
        publishes any.
        """
        if not told or not self._deps.settings.gateway:
            return Words("False", "NoGateway", _NONE_HERE if told else NO_GATEWAY)
        if problem := await self._by_gateway.status(target):
            return Words("False", "Forbidden", problem)
        return Words("True", "Allowed", "they are used with other targets where nothing else leads there")

    async def _served(self, port: Port) -> frozenset[str]:
        """Return the API groups of a cluster that matter to drivers."""
        asked_at, groups = self._groups.get(port, (0.0, frozenset()))
        now = time.monotonic()
        if not asked_at or now - asked_at > self._recheck:
            groups = await without_exports(port, await port.groups())
            self._groups[port] = (now, groups)
        return groups

    def _detached(self, target: Target) -> None:
        self._groups.pop(target.port, None)
        self._checked.pop(target.key, None)
        self._judged.pop(target.key, None)
        self._untold.end(target.key)
        self._gateways.forget(target.key)

    def _summary_changed(self, old: Object | None, new: Object | None) -> None:
        if new is None or not is_readable(new):
            # The last report stays valid.
            self._own = None
            return
        here, before = read(new.annotations), (self._here, self._own)
        self._here = here if not here.flaw or self._here is None else self._here
        self._own = {each: new.annotations[each] for each in _OWN if each in new.annotations}
        if (self._here, self._own) != before:
            for target in self._deps.targets:
                self.queue.add(target.key)

    def _attached(self, target: Target) -> None:
        if not target.is_self:
            self.watch(target.summaries, lambda summary: (target.key,), required=False)


def _flaw(summary: Object | None) -> str:
    """Return why the reported gateways of a target cannot be used, empty if they can."""
    flaw = gatewaytold.flaw(summary.annotations) if summary is not None else ""
    return f"what the target tells of its gateways cannot be used: {flaw}" if flaw else ""
