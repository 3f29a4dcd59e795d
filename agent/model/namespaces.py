"""Enabled namespaces, whose objects may be sent to targets, and the settings in their annotations. Pure."""

from collections.abc import Mapping

from agent.api import names
from agent.api.names.links import SERVICE_REROUTE, SERVICE_REROUTES


def is_enabled(labels: Mapping[str, str] | None) -> bool:
    """Return whether a namespace with these labels is enabled."""
    return bool(labels) and (labels or {}).get(names.LABEL_ENABLED) == names.ENABLED_VALUE


def elects_by_default(annotations: Mapping[str, str] | None) -> bool:
    """Return whether an enabled namespace with these annotations elects pods that do not request it."""
    return names.annotation(annotations, names.ELECT_BY_DEFAULT) == "true"


def accounts_follow(annotations: Mapping[str, str] | None) -> bool:
    """Return whether service accounts of its pods are copied to targets, unless a pod's annotation differs."""
    said = names.annotation(annotations, names.FOLLOW_ACCOUNT)
    return elects_by_default(annotations) if said is None else said == "true"


def shares_services(annotations: Mapping[str, str] | None) -> bool:
    """Return whether all its Services are shared, even Services that select no proxy pods."""
    said = names.annotation(annotations, names.SHARE_SERVICES)
    return elects_by_default(annotations) if said is None else said == "true"


def refuses_to_share(annotations: Mapping[str, str] | None) -> bool:
    """Return whether its annotation restricts sharing to Services that select proxy pods."""
    return names.annotation(annotations, names.SHARE_SERVICES) == "false"


def service_reroute(annotations: Mapping[str, str] | None) -> str:
    """Return whether selectors of its Services are rewritten: `auto`, `always` or `never`; empty if it is not set."""
    said = names.annotation(annotations, SERVICE_REROUTE)
    return said if said in SERVICE_REROUTES else ""


def command(namespace: str) -> str:
    """Return the command that enables a namespace."""
    return f"kubectl label namespace {namespace} {names.LABEL_ENABLED}={names.ENABLED_VALUE}"


def not_enabled(namespace: str) -> str:
    """Return why no new objects of a namespace are sent to targets, with the remedy."""
    return f"namespace {namespace} is not enabled, so that nothing new of it goes to targets: {command(namespace)}"
