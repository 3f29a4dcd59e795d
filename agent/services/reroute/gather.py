"""Selectors to rewrite, and the reasons to wait: no ready endpoint may be lost when a selector is switched."""

from agent.api import names
from agent.api.conditions import is_true
from agent.api.kinds import PODS
from agent.api.names.links import BY_GATEWAY, LOCAL_FIRST, SERVICES_SHARED
from agent.api.names.mcs import LABEL_DERIVED
from agent.clusters.deps import Deps
from agent.drivers.driver import BY_ADDRESSES, LOCAL
from agent.drivers.handover import Route, leads_by_gateway
from agent.drivers.sharing import Sharing
from agent.kube.store import Key, Object
from agent.model import endpoints
from agent.model.links import REASONS, reason_of
from agent.model.podstate import OTHER_PODS
from agent.model.service import Selector, format_selector
from agent.services.reroute.decide import Wait

_CONDITION = SERVICES_SHARED.encode()
_BY_NAME = frozenset((REASONS["mcs"], REASONS["linkerd"]))
"""Drivers that share endpoints under another name, by their reasons in Targets."""


_NATIVE = frozenset((BY_ADDRESSES, BY_GATEWAY))
"""Drivers with which the source's own slices may hold proxy pods. Other drivers share each cluster's own endpoints."""


class Coverage:
    """Comparison of a Service's endpoints by its user's selector with the endpoints of other clusters."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._shared = Sharing(deps)
        self.slices = self._shared.informer(LOCAL)
        self.nodes = self._shared.nodes
        self.targets = self._shared.targets

    def wait(self, service: Object) -> Wait:
        """Return the reason why the selector cannot be switched yet. Slices of a former Service of that name do
        not count.
        """
        slices = self._shared.slices(LOCAL, service.key)
        living = [slice for slice in slices if slice.controller is not None and slice.controller.uid == service.uid]
        own = [slice.decode() for slice in living if not endpoints.is_mirror(slice.labels)]
        if not own:
            return Wait.SLICES_UNKNOWN
        told: set[str] | None = None
        not_led, rule, here = False, self._shared.rule(service.key), self._shared.called(LOCAL)
        for slice in own:
            for node, addresses in endpoints.ready(slice).items():
                if self.nodes.store.get(("", node)) is None:
                    return Wait.OTHER_PODS
                if not rule.allows(self._shared.called(node), here):
                    continue
                driver = self._driver(node, service.key)
                if driver == BY_GATEWAY:
                    not_led = not_led or not leads_by_gateway(self._shared, Route(LOCAL, node, service.key))
                if driver != BY_ADDRESSES:
                    continue
                if told is None:
                    told = _addresses(slices)
                if not told.issuperset(addresses):
                    return Wait.NOT_COVERED
        return Wait.NOT_LED if not_led else Wait.NOTHING

    def must_rewrite(self, service: Object) -> bool:
        """Return True if the source's own slices would be wrong with the addresses of proxy pods."""
        key = service.key
        rule, nodes = self._shared.rule(key), self._shared.serving(service.namespace)
        if LABEL_DERIVED in service.labels or self.has_other_driver(key):
            return True
        if rule.driver and any(self._shared.driver(LOCAL, node) != reason_of(rule.driver) for node in nodes):
            return True
        if rule.affinity == LOCAL_FIRST and any(map(self._is_self, nodes)):
            return True
        here, others = self._shared.called(LOCAL), [self._shared.called(node) for node in nodes]
        return any(not rule.allows(each, here) or rule.ports(each, here) is not None for each in others)

    def has_other_driver(self, service: Key) -> bool:
        """Return True if a Service has a driver that shares each cluster's own endpoints."""
        return not self._shared.drivers(LOCAL, service) <= _NATIVE

    def _is_self(self, node: str) -> bool:
        """Return True if the target behind a virtual node is the source itself, connected or not."""
        target = self._shared.target_object(node)
        return target is not None and bool((target.decode().get("spec") or {}).get("self"))

    def by_name(self, service: Key) -> bool:
        """Return whether endpoints of any cluster that its pods may use have another name only."""
        return not _BY_NAME.isdisjoint(self._shared.drivers(LOCAL, service))

    def reason(self, target: Object | None) -> str:
        """Return the driver of a Target for all Services that name none, by its reason; empty if it has none."""
        return self._shared.reason(target) if target is not None and _CONDITION in target.raw else ""

    async def other_pods(self, namespace: str, selector: Selector) -> bool:
        """Return whether the selector matches ready pods that are neither elected nor delegates, read from the
        API server.
        """
        labels = f"{format_selector(selector)},!{names.LABEL_PARENT_UID}"
        fields = f"{OTHER_PODS},status.phase=Running"
        pods = await self._deps.local.client.list(PODS, namespace, labels=labels, fields=fields)
        conditions = ((pod.get("status") or {}).get("conditions") for pod in pods)
        return any(is_true(each, "Ready") for each in conditions)

    def _driver(self, node: str, service: Key) -> str:
        """Return the driver between this cluster and endpoints on a virtual node; addresses if there is none yet."""
        target = self._deps.targets.by_node(node)
        if target is None:
            return BY_ADDRESSES
        if target.is_self:
            return ""
        return self._shared.driver(LOCAL, node, service) or BY_ADDRESSES


def _addresses(slices: list[Object]) -> set[str]:
    mirrors = (slice.decode() for slice in slices if endpoints.is_mirror(slice.labels))
    return {address for mirror in mirrors for found in endpoints.ready(mirror).values() for address in found}
