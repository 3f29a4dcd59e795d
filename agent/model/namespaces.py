"""Namespaces that are enabled: only from these does anything new go to targets. Pure."""

from collections.abc import Mapping

from agent.api import names


def is_enabled(labels: Mapping[str, str] | None) -> bool:
    """Whether a namespace with these labels is."""
    return bool(labels) and (labels or {}).get(names.LABEL_ENABLED) == names.ENABLED_VALUE


def command(namespace: str) -> str:
    """What enables a namespace."""
    return f"kubectl label namespace {namespace} {names.LABEL_ENABLED}={names.ENABLED_VALUE}"


def not_enabled(namespace: str) -> str:
    """Why nothing new of a namespace goes to a target, and what to do about it."""
    return f"namespace {namespace} is not enabled, so that nothing new of it goes to targets: {command(namespace)}"
