"""Priority classes that a target may not have: its pods go without, unless they say that they would rather wait."""

import re
from collections.abc import Mapping
from typing import Any

from agent.api import names

KEY = names.SHORT_PREFIX + names.PRIORITY_CLASS
"""On chaperons of pods that wait."""
_REFUSAL = re.compile(r"is forbidden: no PriorityClass with name (\S+) was found$")
_GIVEN_BY_CLASS = ("priorityClassName", "priority", "preemptionPolicy")


def demand(annotations: Mapping[str, str]) -> dict[str, str]:
    """The annotation of a chaperon whose pod is not to run without its class; none for any other one."""
    return {KEY: names.PRIORITY_CLASS_REQUIRED} if _is_required(annotations) else {}


def lacking(chaperon: Mapping[str, Any], refusal: str) -> str:
    """The class that the API server does not have, by the words in which it refuses a pod that can do without it.

    Empty for any other refusal, and for a pod that requires its class.
    """
    found = _REFUSAL.search(refusal)
    name = str((chaperon.get("spec") or {}).get("priorityClassName") or "")
    if found is None or found[1] != name or _is_required(chaperon["metadata"].get("annotations") or {}):
        return ""
    return name


def without(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The pod without its class, and without what follows from that."""
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key not in _GIVEN_BY_CLASS}}


def told(name: str) -> str:
    """What the pod's user is told, after the name of the target."""
    return (
        f"there is no PriorityClass {name} in this cluster, so that the pod runs without it: make one there, or"
        f" annotate pods that would rather wait {KEY}={names.PRIORITY_CLASS_REQUIRED}"
    )


def _is_required(annotations: Mapping[str, str]) -> bool:
    return names.annotation(annotations, names.PRIORITY_CLASS) == names.PRIORITY_CLASS_REQUIRED
