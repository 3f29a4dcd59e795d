"""Drivers `none` and `external/NAME`: it is nobody or another controller that shares Services."""

from typing import ClassVar

from agent.clusters.target import Target
from agent.drivers.driver import Pair, Place
from agent.kube.store import Key
from agent.model.servicelinks import PROGRAMMED, Finding


class Nothing:
    """Annotations are all it takes, and others write those; or nothing is wanted."""

    name: ClassVar[str] = "none"
    reason: ClassVar[str] = "Off"
    tells_sources: ClassVar[bool] = False
    asks: ClassVar[bool] = False

    def detect(self, pair: Pair) -> bool:
        """Never by itself."""
        return False

    async def status(self, target: Target) -> str:
        """Nothing can fail."""
        return ""

    async def export(self, place: Place) -> None:
        """Nothing to do."""

    async def import_(self, place: Place) -> float | None:
        """Nothing to do."""
        return None

    async def offered(self, place: Place) -> Finding:
        """Nothing more is known than that it has been asked for."""
        return Finding("True", PROGRAMMED)

    async def connected(self, place: Place, source: str) -> Finding:
        """Nothing leads to the others."""
        return Finding("False", "NoPath", "the driver is none: choose another one, or remove the annotation")

    async def teardown(self, place: Place) -> None:
        """Nothing to do."""

    def forget_service(self, node: str, service: Key) -> None:
        """Nothing is remembered."""

    def forget_cluster(self, node: str) -> None:
        """Nothing is remembered."""


class External(Nothing):
    """Another controller does it: it reads ServiceLinks, and tells there in conditions of its own what it has done."""

    name: ClassVar[str] = "external"
    reason: ClassVar[str] = "External"
