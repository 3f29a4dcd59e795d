"""Inputs of quotas and scores from a pod, in addition to its requests."""

from collections.abc import Mapping
from typing import Any

from agent.model.quantity import Quantity
from agent.model.requests import amounts

ONE = 10**9

OBLIGATORY = ("cpu", "memory")
"""A quota on requests or limits of these refuses pods with a container that does not specify them."""


def limits(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the limits of a pod, summed up like requests; overhead counts only for limited resources."""
    total = _most(spec)
    overhead = amounts(spec.get("overhead"))
    return {name: amount + overhead.get(name, 0) for name, amount in total.items() if amount}


def images(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return the images of all containers."""
    return frozenset(
        container["image"]
        for field in ("initContainers", "containers")
        for container in spec.get(field) or ()
        if container.get("image")
    )


def best_effort(spec: Mapping[str, Any]) -> bool:
    """Return True if the pod's QoS class is BestEffort: no requests or limits of cpu or memory."""
    holders = [spec, *(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    return not any(
        Quantity.of(amount).nano
        for holder in holders
        for field in ("requests", "limits")
        for name, amount in ((holder.get("resources") or {}).get(field) or {}).items()
        if name in OBLIGATORY
    )


def specified(spec: Mapping[str, Any]) -> frozenset[str]:
    """Return which of `requests.cpu`, `limits.memory` and so on every container specifies, or the pod as a whole."""
    common = {f"{field}.{name}" for field in ("requests", "limits") for name in OBLIGATORY}
    whole = _tells(spec)
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        common &= _tells(container) | whole
    return frozenset(common)


def _tells(holder: Mapping[str, Any]) -> set[str]:
    resources = holder.get("resources") or {}
    return {f"{field}.{name}" for field in ("requests", "limits") for name in resources.get(field) or {}}


def _most(spec: Mapping[str, Any]) -> dict[str, int]:
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _limits(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        wanted = _limits(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, wanted)
            _add(total, wanted)
            wanted = sidecars
        else:
            wanted = {name: wanted.get(name, 0) + sidecars.get(name, 0) for name in wanted.keys() | sidecars.keys()}
        for name, amount in wanted.items():
            peak[name] = max(peak.get(name, 0), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    return total | _limits(spec)


def _limits(holder: Mapping[str, Any]) -> dict[str, int]:
    return amounts((holder.get("resources") or {}).get("limits"))


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
