"""Decision about the marks and selector of a Service. Pure."""

from enum import StrEnum
from typing import Any

import msgspec

from agent.model.service import can_be_rerouted, is_copy, users_selector
from agent.model.servicemarks import is_switched, native, rerouted, restored, shared, with_cilium_affinity

Raw = dict[str, Any]


class Wait(StrEnum):
    """Reason why a rerouted Service still has its user's selector. Empty: there is no reason to wait."""

    NOTHING = ""
    SLICES_UNKNOWN = "its own EndpointSlices are not known yet"
    OTHER_PODS = "it also selects pods that are not elected"
    NOT_COVERED = "the other clusters' endpoints are not all there yet"
    NOT_LED = "gateways do not lead there yet"
    LINKS_UNKNOWN = "it is not known yet which ServiceLinks there are"
    OTHER_NAME = "the drivers mcs and linkerd tell other clusters' endpoints under another name only"


class ServiceAndPods(msgspec.Struct, frozen=True):
    """Input of the decision about one Service."""

    service: Raw
    proxies: bool
    """Whether it selects a proxy pod, or did so shortly before."""
    rewrites: bool = False
    """Whether its selector should be rewritten."""
    others: bool = False
    """Whether it also selects other ready pods."""
    wait: Wait = Wait.NOTHING
    shared: bool = False
    """Whether its namespace shares all Services."""


def decide(view: ServiceAndPods) -> Raw:
    """Return the Service with the wanted marks and selector.

    A switched selector stays, whatever the endpoints are. Exceptions: it selects other pods, or its driver
    would limit it to the delegates of its own cluster.

    :raises InvalidService, InvalidPattern: if its annotations cannot be read
    """
    service = view.service
    if is_copy(service["metadata"].get("annotations")):
        return service
    if not view.proxies or not can_be_rerouted(service) or not users_selector(service):
        return with_cilium_affinity(shared(service) if view.shared else restored(service))
    if not view.rewrites:
        return with_cilium_affinity(native(service))
    held = view.others or view.wait is Wait.OTHER_NAME
    switch = not held and (is_switched(service) or view.wait is Wait.NOTHING)
    return with_cilium_affinity(rerouted(service, switch=switch))
