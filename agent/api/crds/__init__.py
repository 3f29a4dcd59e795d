"""The custom resources as structural schemas, a module for each API group. `hack/crds` writes them into the chart."""

from typing import Any

from agent.api.crds import admiralty


def crds() -> list[dict[str, Any]]:
    """All CustomResourceDefinitions, sorted by name."""
    return sorted(admiralty.crds(), key=lambda crd: str(crd["metadata"]["name"]))
