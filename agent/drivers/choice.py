"""All network drivers, and which of them a pair of clusters has."""

from collections.abc import Sequence

from agent.api import names
from agent.api.names.links import external
from agent.drivers.cilium import Cilium
from agent.drivers.driver import Driver, Pair
from agent.drivers.endpointslices import EndpointSlices
from agent.drivers.gateway import Gateway
from agent.drivers.istio import Istio
from agent.drivers.linkerd import Linkerd
from agent.drivers.mcs import McsExports
from agent.drivers.none_and_external import External, Nothing
from agent.drivers.sharing import Sharing
from agent.drivers.skupper import Skupper

EXPERIMENTAL = frozenset(driver.name for driver in (Cilium, McsExports, Istio, Linkerd, Skupper))
"""Names of drivers whose network no test runs: tests write what its controllers would write, and no packet passes."""


def all_drivers(sharing: Sharing) -> list[Driver]:
    """Return all drivers in order of preference: the first that both clusters support is chosen."""
    meshes: list[Driver] = [Cilium(), McsExports(sharing), Istio(), Linkerd(sharing)]
    return [*meshes, EndpointSlices(sharing), Skupper(sharing), Gateway(sharing), Nothing(), External()]


def choose(annotation: str | None, drivers: Sequence[Driver], pair: Pair, present: str = "") -> Driver | None:
    """Return the driver of a pair of clusters; None if no driver works for both.

    The annotation of the Target counts first, then the present driver while it works, then the order of `drivers`.

    :param present: reason of the present driver; empty if there is none
    :raises ValueError: if the annotation names no driver
    """
    if annotation is None:
        able = [driver for driver in drivers if driver.detect(pair)]
        return next((driver for driver in able if driver.reason == present), able[0] if able else None)
    named = annotation if annotation in names.NETWORK_DRIVERS else External.name if external(annotation) else ""
    for driver in drivers:
        if driver.name == named:
            return driver
    raise ValueError(
        f"annotation {names.SHORT_PREFIX}{names.NETWORK_DRIVER}: {annotation[:100]!r} is no driver;"
        f" choose one of {', '.join(names.DRIVER_CHOICES)}, or remove it"
    )
