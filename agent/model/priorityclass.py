"""Priority classes that a target may lack: pods run without them, unless an annotation requires the class."""

import re
from collections.abc import Mapping
from typing import Any

from agent.api import names

KEY = names.SHORT_PREFIX + names.PRIORITY_CLASS
"""Annotation of chaperons whose pods require their class."""
_REFUSAL = re.compile(r"is forbidden: no PriorityClass with name (\S+) was found$")
_GIVEN_BY_CLASS = ("priorityClassName", "priority", "preemptionPolicy")


def demand(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotation of a chaperon whose pod must not run without its class; {} for any other."""
    return {KEY: names.PRIORITY_CLASS_REQUIRED} if _is_required(annotations) else {}


def lacking(chaperon: Mapping[str, Any], refusal: str) -> str:
    """Return the missing class, parsed from the API server's rejection of a pod that may run without it.

    Return an empty string for any other rejection, and for a pod that requires its class.
    """
    found = _REFUSAL.search(refusal)
    name = str((chaperon.get("spec") or {}).get("priorityClassName") or "")
    if found is None or found[1] != name or _is_required(chaperon["metadata"].get("annotations") or {}):
        return ""
    return name


def without(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod without its class, and without the fields that the class sets."""
    return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key not in _GIVEN_BY_CLASS}}


def told(name: str) -> str:
    """Return the message for the pod's user, without the name of the target."""
    return (
        f"there is no PriorityClass {name} in this cluster, so that the pod runs without it: make one there, or"
        f" annotate pods that would rather wait {KEY}={names.PRIORITY_CLASS_REQUIRED}"
    )


def _is_required(annotations: Mapping[str, str]) -> bool:
    return names.annotation(annotations, names.PRIORITY_CLASS) == names.PRIORITY_CLASS_REQUIRED
