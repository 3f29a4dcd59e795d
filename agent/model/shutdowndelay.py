"""The annotation `shutdown-delay`: seconds for which a delegate still serves after its deletion has begun. Pure.

The deletion of a pod and its removal from EndpointSlices race: a container that stops at once fails requests
that still arrive. A `preStop` hook that sleeps delays the signal.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.api import names

Raw = dict[str, Any]

MOST = 300
DEFAULT_GRACE = 30
"""Default grace period of API servers in seconds."""
SLEEPS_FROM = (1, 30)
"""First version of Kubernetes with `preStop.sleep` without a feature gate."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_WHOLE = re.compile(r"\d{1,3}", re.ASCII)


def seconds(pod: Mapping[str, str], namespace: Mapping[str, str]) -> int:
    """Return the delay of a pod in seconds, 0 for none; its own annotation takes precedence over its namespace's."""
    said = names.annotation(pod, names.SHUTDOWN_DELAY)
    return _parsed(names.annotation(namespace, names.SHUTDOWN_DELAY) if said is None else said) or 0


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """Yield the field of an invalid delay, and the reason with the remedy."""
    said = names.annotation(annotations, names.SHUTDOWN_DELAY)
    if said is not None and _parsed(said) is None:
        long = names.PREFIX + names.SHUTDOWN_DELAY
        key = long if long in (annotations or {}) else names.SHORT_PREFIX + names.SHUTDOWN_DELAY
        reason = f"must be a whole number of seconds from 0 (none) to {MOST}, not {said!r}: correct it, or remove it"
        yield f"metadata.annotations[{key}]", reason


def is_possible(version: str) -> bool:
    """Return whether a cluster of this Kubernetes version supports the hook; False if the version is unknown."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) >= SLEEPS_FROM


def delayed(spec: Raw, delay: int) -> Raw:
    """Return the spec of a delegate whose containers stop after a delay; those with a `preStop` hook keep it.

    Sidecars (restartable init containers) stop after them in any case.
    """
    containers = [_container(each, delay) for each in spec.get("containers") or ()]
    if containers == (spec.get("containers") or []):
        return spec
    grace = spec.get("terminationGracePeriodSeconds")
    longer = (DEFAULT_GRACE if grace is None else grace) + delay
    return {**spec, "containers": containers, "terminationGracePeriodSeconds": longer}


def _container(container: Raw, delay: int) -> Raw:
    lifecycle = container.get("lifecycle") or {}
    if not delay or lifecycle.get("preStop"):
        return container
    return {**container, "lifecycle": {**lifecycle, "preStop": {"sleep": {"seconds": delay}}}}


def _parsed(said: str | None) -> int | None:
    if said is None or not _WHOLE.fullmatch(said) or int(said) > MOST:
        return None
    return int(said)
