"""The annotation `shutdown-delay`: for how long a delegate still serves after it was told to end. Pure.

A pod that is told to end and its removal from EndpointSlices race: a container that stops at once fails requests that
are sent to it meanwhile. A `preStop` hook that only sleeps holds the signal back.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.api import names

Raw = dict[str, Any]

MOST = 300
DEFAULT_GRACE = 30
"""What API servers write where a pod says nothing."""
SLEEPS_FROM = (1, 30)
"""Kubernetes that has `preStop.sleep` without a feature gate."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})", re.ASCII)
_WHOLE = re.compile(r"\d{1,3}", re.ASCII)


def seconds(pod: Mapping[str, str], namespace: Mapping[str, str]) -> int:
    """The delay of a pod, by its annotations and those of its namespace; the pod's count more, and 0 is none."""
    said = names.annotation(pod, names.SHUTDOWN_DELAY)
    return _parsed(names.annotation(namespace, names.SHUTDOWN_DELAY) if said is None else said) or 0


def flaws(annotations: Mapping[str, str] | None) -> Iterator[tuple[str, str]]:
    """The field with a value that is no delay, and why not with the remedy."""
    said = names.annotation(annotations, names.SHUTDOWN_DELAY)
    if said is not None and _parsed(said) is None:
        long = names.PREFIX + names.SHUTDOWN_DELAY
        key = long if long in (annotations or {}) else names.SHORT_PREFIX + names.SHUTDOWN_DELAY
        reason = f"must be a whole number of seconds from 0 (none) to {MOST}, not {said!r}: correct it, or remove it"
        yield f"metadata.annotations[{key}]", reason


def is_possible(version: str) -> bool:
    """Whether a cluster of this version of Kubernetes takes the hook; not where the version is not known."""
    found = _VERSION.match(version)
    return found is not None and (int(found[1]), int(found[2])) >= SLEEPS_FROM


def delayed(spec: Raw, delay: int) -> Raw:
    """The spec of a delegate whose containers end so much later; those that have a `preStop` hook keep it.

    Init containers that run beside them (sidecars) end after them in any case.
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
