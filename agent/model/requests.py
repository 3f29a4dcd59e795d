"""Resource requests of pods, counted like kube-scheduler's (component-helpers' `PodRequests`)."""

import contextlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from agent.model.quantity import InvalidQuantity, Quantity

Amounts = Mapping[str, int]
"""Resource name to an amount in 10^-9 of its base unit."""

_NOTHING: Mapping[str, Any] = {}


def amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """Convert Kubernetes quantities to integers.

    :raises InvalidQuantity: if any of them is invalid
    """
    return {name: Quantity.of(value).nano for name, value in (quantities or _NOTHING).items()}


def limits_of(target: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of total requests in a target; {} if a quantity is invalid, which the webhook rejects."""
    try:
        return amounts((target.get("spec") or _NOTHING).get("limits"))
    except InvalidQuantity:
        return {}


def held_by(pods: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the total requests of pods, without pods with an invalid quantity."""
    held: Counter[str] = Counter()
    for pod in pods:
        with contextlib.suppress(InvalidQuantity):
            held.update(requests(pod.get("spec") or _NOTHING, pod.get("status")))
    return held


def written(resource: str, amount: int) -> str:
    """Return an amount in the usual format of its resource."""
    binary = any(part in resource for part in ("memory", "storage", "hugepages-"))
    return str(Quantity(amount, "binary" if binary else "decimal"))


def requests(spec: Mapping[str, Any], status: Mapping[str, Any] | None = None) -> dict[str, int]:
    """Return a pod's requests, counted like kube-scheduler's.

    They are the larger of the containers' sum and each init container with the sidecars started before it
    (KEP-753), plus overhead. Pod-level requests (KEP-2837) replace the sums.

    :param status: of a pod on a node; during an in-place resize (KEP-1287) the larger of present and requested
        resources counts
    """
    status = status or _NOTHING
    refused = _refuses_resize(status)
    told = {
        one["name"]: one for name in ("containerStatuses", "initContainerStatuses") for one in status.get(name) or ()
    }
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _effective(container, told.get(container.get("name")), refused))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        if _is_sidecar(container):
            wanted = _effective(container, told.get(container.get("name")), refused)
            _add(sidecars, wanted)
            _add(total, wanted)
            wanted = sidecars
        else:
            wanted = _effective(container, None, refused)
            wanted = {name: wanted.get(name, 0) + sidecars.get(name, 0) for name in wanted.keys() | sidecars.keys()}
        _raise(peak, wanted)
    _raise(total, peak)
    pod_level = _effective(spec, status, refused)
    total |= {name: pod_level.get(name, 0) for name in _asked(spec)}
    _add(total, amounts(spec.get("overhead")))
    total["pods"] = Quantity.of(1).nano
    return {name: amount for name, amount in total.items() if amount}


def host_ports(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the host ports that a pod uses on its node, such as `TCP/80`, on any of the node's addresses."""
    running = [*(spec.get("containers") or ()), *filter(_is_sidecar, spec.get("initContainers") or ())]
    return frozenset(
        f"{port.get('protocol') or 'TCP'}/{port['hostPort']}"
        for container in running
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return container.get("restartPolicy") == "Always"


def _refuses_resize(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _asked(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the requests of a container, of a whole pod, or of a status of either."""
    return (holder.get("resources") or _NOTHING).get("requests") or _NOTHING


def _effective(holder: Mapping[str, Any], status: Mapping[str, Any] | None, refused: bool) -> dict[str, int]:
    wanted = amounts(_asked(holder))
    if status is None or not status.get("resources"):
        return wanted
    effective = {} if refused else wanted
    _raise(effective, amounts(_asked(status)))
    _raise(effective, amounts(status.get("allocatedResources")))
    return effective


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: Mapping[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
