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
from agent.drivers.nothing import External, Nothing
from agent.drivers.sharing import Sharing
from agent.drivers.skupper import Skupper


def all_drivers(sharing: Sharing) -> list[Driver]:
    """In the order in which they are chosen: the first that both clusters have what it takes for."""
    meshes: list[Driver] = [Cilium(), McsExports(sharing), Istio(), Linkerd(sharing)]
    return [*meshes, EndpointSlices(sharing), Skupper(sharing), Gateway(sharing), Nothing(), External()]


def choose(annotation: str | None, drivers: Sequence[Driver], pair: Pair, present: str = "") -> Driver | None:
    """The driver of a pair: the one that the annotation of its target names, else the present one while it works, else
    the first that both can have, None where there is no such.

    :param present: its reason, empty where there is none
    :raises ValueError: if the annotation names none
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
