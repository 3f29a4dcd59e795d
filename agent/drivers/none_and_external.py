"""Drivers `none` and `external/NAME`: no controller or an external controller shares Services."""

from typing import ClassVar

from agent.clusters.target import Target
from agent.drivers.driver import Pair, Place
from agent.kube.store import Key
from agent.model.servicelinks import PROGRAMMED, Finding


class Nothing:
    """Shares no Services."""

    name: ClassVar[str] = "none"
    reason: ClassVar[str] = "Off"
    tells_sources: ClassVar[bool] = False
    asks: ClassVar[bool] = False

    def detect(self, pair: Pair) -> bool:
        """Never by itself."""
        return False

    async def status(self, target: Target) -> str:
        """Return no problem."""
        return ""

    async def export(self, place: Place) -> None:
        """Do nothing."""

    async def import_(self, place: Place) -> float | None:
        """Do nothing."""
        return None

    async def offered(self, place: Place) -> Finding:
        """Nothing more is known than that it has been asked for."""
        return Finding("True", PROGRAMMED)

    async def connected(self, place: Place, source: str) -> Finding:
        """Return NoPath: no traffic is routed to other clusters."""
        return Finding("False", "NoPath", "the driver is none: choose another one, or remove the annotation")

    async def teardown(self, place: Place) -> None:
        """Do nothing."""

    def forget_service(self, node: str, service: Key) -> None:
        """Do nothing: no state is cached."""

    def forget_cluster(self, node: str) -> None:
        """Do nothing: no state is cached."""


class External(Nothing):
    """An external controller reads ServiceLinks, shares the Services and reports in its own conditions."""

    name: ClassVar[str] = "external"
    reason: ClassVar[str] = "External"
