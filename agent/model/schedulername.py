"""Names of schedulers that pods may ask for, and that targets may lack."""

from collections.abc import Mapping
from typing import Any

from agent.api.names import SCHEDULER_CANDIDATE, SCHEDULER_PROXY, SHORT_PREFIX
from agent.api.names.moves import TARGETS

DEFAULT = "default-scheduler"
_EVERYWHERE = frozenset(("", DEFAULT, SCHEDULER_CANDIDATE, SCHEDULER_PROXY))
REMEDY = (
    f"install it in the target, name targets that have it ({SHORT_PREFIX}{TARGETS}), or remove spec.schedulerName from"
    " the pod"
)


def special(spec: Mapping[str, Any]) -> str:
    """Return a pod's scheduler if clusters may lack it; empty otherwise."""
    name = spec.get("schedulerName")
    return name if isinstance(name, str) and name not in _EVERYWHERE else ""


def why_missing(scheduler: str) -> str:
    """Return why a target without a scheduler receives no pods, with the remedy."""
    return f"no scheduler {scheduler} has looked at this cluster's pods there: {REMEDY}"
