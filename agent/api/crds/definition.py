"""Common parts of CustomResourceDefinitions."""

from collections.abc import Sequence
from typing import Any

from agent.api.crds.schema import Schema
from agent.api.kinds import Kind
from agent.api.names.ocm import OURS


def crd(kind: Kind, short_names: Sequence[str], schema: Schema, columns: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the definition of a kind with one version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": str(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {
                "kind": kind.name,
                "listKind": f"{kind.name}List",
                "plural": kind.plural,
                "singular": kind.name.lower(),
                **({"shortNames": list(short_names)} if short_names else {}),
            },
            "versions": [
                {
                    "name": kind.version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    **({"additionalPrinterColumns": columns} if columns else {}),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def ours(definitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Label definitions of Open Cluster Management's kinds, to distinguish them from those of its own operator."""
    for each in definitions:
        each["metadata"]["labels"] = {OURS: "true"}
    return definitions


def column(name: str, path: str, description: str, **rest: Any) -> dict[str, Any]:
    """Return a column of `kubectl get`."""
    return {"name": name, "type": "string", "jsonPath": path, "description": description, **rest}


def condition_column(name: str, field: str, description: str, **rest: Any) -> dict[str, Any]:
    """Return a column with a field of the condition Ready."""
    return column(name, f'.status.conditions[?(@.type=="Ready")].{field}', description, **rest)


def annotation_column(name: str, key: str, description: str) -> dict[str, Any]:
    """Return a column with an annotation."""
    return column(name, ".metadata.annotations." + key.replace(".", r"\."), description)


AGE: dict[str, Any] = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}

READY = (
    condition_column("Ready", "status", "Whether it works."),
    condition_column("Reason", "reason", "Why it works or not."),
)
MESSAGE = condition_column("Message", "message", "What to do about it.", priority=1)
