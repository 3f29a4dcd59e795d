"""What the selector of a Service waits for: that no ready endpoint is lost by switching it."""

from collections.abc import Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import condition_of, is_true
from agent.api.kinds import ENDPOINT_SLICES, NODES, PODS, TARGET_KINDS
from agent.clusters.deps import Deps
from agent.controllers.svcreroute.decide import Wait
from agent.kube.store import Key, Object
from agent.model import endpoints
from agent.model.podstate import OTHER_PODS
from agent.model.service import Selector, format_selector

BY_SERVICE = "service"
_SHARED = "ServicesShared"
_BY_SLICES = "EndpointSlices"
_BY_NAME = ("MCS", "Linkerd")
_VIRTUAL = f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}"


def service_of(slice: Object) -> list[str]:
    """The Service that an EndpointSlice belongs to, as `namespace/name`: an index of them."""
    name = slice.labels.get(names.LABEL_SERVICE_NAME)
    return [f"{slice.namespace}/{name}"] if name else []


class Coverage:
    """Compares the endpoints that a Service has by its user's selector with those that other clusters have told."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self.slices = deps.local.informer(ENDPOINT_SLICES, labels=f"{names.LABEL_GLOBAL}=true")
        self.slices.store.index(BY_SERVICE, service_of)
        self.nodes = deps.local.informer(NODES, labels=_VIRTUAL)
        self.targets = deps.local.either(TARGET_KINDS)
        self._by_name: set[Key] = set()

    def wait(self, service: Object) -> Wait:
        """Why the selector cannot be switched yet. Slices of a former Service by that name tell nothing of this one."""
        slices = self.slices.store.by_index(BY_SERVICE, f"{service.namespace}/{service.name}")
        living = [slice for slice in slices if slice.controller is not None and slice.controller.uid == service.uid]
        own = [slice.decode() for slice in living if not endpoints.is_mirror(slice.labels)]
        if not own:
            return Wait.SLICES_UNKNOWN
        told: set[str] | None = None
        for slice in own:
            for node, addresses in endpoints.ready(slice).items():
                if self.nodes.store.get(("", node)) is None:
                    return Wait.OTHER_PODS
                if not self._by_slices(node):
                    continue
                if told is None:
                    told = _addresses(slices)
                if not told.issuperset(addresses):
                    return Wait.NOT_COVERED
        return Wait.NOTHING

    def by_name(self, namespace: str) -> bool:
        """Whether endpoints of a target that pods of a namespace may go to are found under another name only."""
        return any(key[0] in ("", namespace) for key in self._by_name)

    def note(self, target: Key, now: Object | None) -> bool:
        """Take note of a target as it is now, None for gone; whether that has changed what `by_name` says."""
        if _is_shared_by_name(now) == (target in self._by_name):
            return False
        self._by_name ^= {target}
        return True

    async def other_pods(self, namespace: str, selector: Selector) -> bool:
        """Whether pods that are ready, neither elected nor delegates, are selected, by the API server's word."""
        labels = f"{format_selector(selector)},!{names.LABEL_PARENT_UID}"
        fields = f"{OTHER_PODS},status.phase=Running"
        pods = await self._deps.local.client.list(PODS, namespace, labels=labels, fields=fields)
        conditions = ((pod.get("status") or {}).get("conditions") for pod in pods)
        return any(is_true(each, "Ready") for each in conditions)

    def _by_slices(self, node: str) -> bool:
        """Whether endpoints on a virtual node come home as EndpointSlices of ours, or would if only they could."""
        target = self._deps.targets.by_node(node)
        if target is None:
            return True
        if target.is_self:
            return False
        obj = self.targets.get(target.key)
        shared = _sharing(obj) if obj is not None else None
        return shared is None or shared["status"] != "True" or shared["reason"] == _BY_SLICES


def _is_shared_by_name(target: Object | None) -> bool:
    """Whether a Target has a driver that shares endpoints under another name, as `mcs` and `linkerd` do."""
    if target is None or not any(reason.encode() in target.raw for reason in _BY_NAME):
        return False
    shared = _sharing(target) or {}
    return shared.get("status") == "True" and shared.get("reason") in _BY_NAME


def _sharing(target: Object) -> Mapping[str, Any] | None:
    return condition_of(target.decode(), _SHARED)


def _addresses(slices: list[Object]) -> set[str]:
    mirrors = (slice.decode() for slice in slices if endpoints.is_mirror(slice.labels))
    return {address for mirror in mirrors for found in endpoints.ready(mirror).values() for address in found}
