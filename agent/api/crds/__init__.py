"""The custom resources as structural schemas, a module for each API group. `hack/crds` writes them into the chart."""

from typing import Any

from agent.api.crds import ac3, addons, admiralty, links, ocm, p2code, works


def crds() -> list[dict[str, Any]]:
    """Return all of Flotilla's own CustomResourceDefinitions, sorted by name."""
    return _sorted([*admiralty.crds(), *links.crds()])


def placement_crds() -> list[dict[str, Any]]:
    """Return the CRDs of Open Cluster Management, which the chart installs on request, sorted by name."""
    return _sorted(ocm.crds())


def hub_crds() -> list[dict[str, Any]]:
    """Return the CRDs that only a hub needs, which the chart installs on request, sorted by name."""
    return _sorted([*addons.hub_crds(), *works.hub_crds()])


def klusterlet_crds() -> list[dict[str, Any]]:
    """Return the CRDs of a member of a hub, which the chart installs on request, sorted by name."""
    return _sorted(works.klusterlet_crds())


def p2code_crds() -> list[dict[str, Any]]:
    """Return the CRD of P2CODE's scheduler, which the chart installs on request."""
    return _sorted(p2code.crds())


def ac3_crds() -> list[dict[str, Any]]:
    """Return the CRD of AC3's network operator, which the chart installs on request."""
    return _sorted(ac3.crds())


def _sorted(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda crd: str(crd["metadata"]["name"]))
