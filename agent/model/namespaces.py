"""Namespaces that are enabled, from which alone anything new goes to targets, and what goes from them. Pure."""

from collections.abc import Mapping

from agent.api import names
from agent.api.names.links import SERVICE_REROUTE, SERVICE_REROUTES


def is_enabled(labels: Mapping[str, str] | None) -> bool:
    """Whether a namespace with these labels is."""
    return bool(labels) and (labels or {}).get(names.LABEL_ENABLED) == names.ENABLED_VALUE


def elects_by_default(annotations: Mapping[str, str] | None) -> bool:
    """Whether an enabled namespace with these annotations elects pods that do not ask for it."""
    return names.annotation(annotations, names.ELECT_BY_DEFAULT) == "true"


def accounts_follow(annotations: Mapping[str, str] | None) -> bool:
    """Whether the service accounts of its pods follow them, where the pods do not say otherwise."""
    said = names.annotation(annotations, names.FOLLOW_ACCOUNT)
    return elects_by_default(annotations) if said is None else said == "true"


def shares_services(annotations: Mapping[str, str] | None) -> bool:
    """Whether all its Services are shared, those that select no proxy pods, too."""
    said = names.annotation(annotations, names.SHARE_SERVICES)
    return elects_by_default(annotations) if said is None else said == "true"


def refuses_to_share(annotations: Mapping[str, str] | None) -> bool:
    """Whether it says itself that only those Services are shared that select proxy pods."""
    return names.annotation(annotations, names.SHARE_SERVICES) == "false"


def service_reroute(annotations: Mapping[str, str] | None) -> str:
    """Return whether selectors of its Services are rewritten: `auto`, `always` or `never`; empty if it is not set."""
    said = names.annotation(annotations, SERVICE_REROUTE)
    return said if said in SERVICE_REROUTES else ""


def command(namespace: str) -> str:
    """What enables a namespace."""
    return f"kubectl label namespace {namespace} {names.LABEL_ENABLED}={names.ENABLED_VALUE}"


def not_enabled(namespace: str) -> str:
    """Why nothing new of a namespace goes to a target, and what to do about it."""
    return f"namespace {namespace} is not enabled, so that nothing new of it goes to targets: {command(namespace)}"
