"""What an Ingress names (wire contract, 7.2)."""

from collections.abc import Mapping
from typing import Any

from agent.api import names


def services(ingress: Mapping[str, Any]) -> set[str]:
    """Names of the Services that an Ingress sends traffic to, its default backend included.

    Rules without `http`, and backends that are other resources, name none.
    """
    spec = ingress.get("spec") or {}
    backends = [spec.get("defaultBackend")]
    for rule in spec.get("rules") or ():
        backends += [path.get("backend") for path in (rule.get("http") or {}).get("paths") or ()]
    found = (((backend or {}).get("service") or {}).get("name") for backend in backends)
    return {name for name in found if name}


def unmarked(annotations: Mapping[str, str]) -> dict[str, str | None]:
    """Merge patch of the annotations that takes our marks of sharing away, but not what somebody has changed since."""
    ours = annotations.get(names.ANNOTATION_GLOBAL) == "true"
    return {names.ANNOTATION_MARKS: None, **({names.ANNOTATION_GLOBAL: None} if ours else {})}


def secrets(ingress: Mapping[str, Any]) -> set[str]:
    """Names of the Secrets with its certificates."""
    found = (each.get("secretName") for each in (ingress.get("spec") or {}).get("tls") or ())
    return {name for name in found if name}
