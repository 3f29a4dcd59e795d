"""The custom resources as structural schemas, a module for each API group. `hack/crds` writes them into the chart."""

from typing import Any

from agent.api.crds import ac3, admiralty, links, ocm, p2code


def crds() -> list[dict[str, Any]]:
    """All CustomResourceDefinitions of our own, sorted by name."""
    return _sorted([*admiralty.crds(), *links.crds()])


def placement_crds() -> list[dict[str, Any]]:
    """Those of Open Cluster Management, which come with the chart where that is asked for, sorted by name."""
    return _sorted(ocm.crds())


def p2code_crds() -> list[dict[str, Any]]:
    """That of P2CODE's scheduler, which comes with the chart where that is asked for."""
    return _sorted(p2code.crds())


def ac3_crds() -> list[dict[str, Any]]:
    """That of AC3's network operator, in the same way."""
    return _sorted(ac3.crds())


def _sorted(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda crd: str(crd["metadata"]["name"]))
