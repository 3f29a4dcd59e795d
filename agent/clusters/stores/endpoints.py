"""Addresses of each virtual node's kubelet API, set by the servers and announced by virtual nodes.

Not an API object, unlike other state that controllers share: `Deps` gives the reason.
"""

from collections.abc import Callable
from dataclasses import dataclass

from agent.base.listeners import tell

SERVING = "Serving"
NO_ADDRESS = "NoAddress"
NO_PORT = "NoPort"
NO_CERTIFICATE = "NoCertificate"


@dataclass(frozen=True)
class Served:
    """Whether logs and exec work on virtual nodes, as a condition reports it."""

    reason: str
    message: str

    @property
    def well(self) -> bool:
        """Return whether logs and exec work."""
        return self.reason == SERVING


class Endpoints:
    """Ports by node name, and the state common to all. Subscribers receive a node's name."""

    def __init__(self) -> None:
        self.active = False
        """Whether a server runs; before that no ports are known."""
        self._common: Served | None = None
        self._ports: dict[str, int] = {}
        self._problems: dict[str, Served] = {}
        self._subscribers: list[Callable[[str], None]] = []

    def subscribe(self, subscriber: Callable[[str], None]) -> None:
        """Register a subscriber: called for every node whose port or state changes."""
        self._subscribers.append(subscriber)

    def port(self, node: str) -> int | None:
        """Return the port of a virtual node, None if it has none."""
        return self._ports.get(node)

    def served(self, node: str) -> Served | None:
        """Return the state of a node, None while unknown."""
        return self._problems.get(node) or self._common

    def announce(self, node: str, port: int) -> None:
        """Record the port on which a virtual node is served."""
        if self._ports.get(node) != port or node in self._problems:
            self._ports[node] = port
            self._problems.pop(node, None)
            self._tell(node)

    def fail(self, node: str, problem: Served) -> None:
        """Record why a virtual node cannot be served."""
        if self._problems.get(node) != problem:
            self._problems[node] = problem
            self._ports.pop(node, None)
            self._tell(node)

    def withdraw(self, node: str) -> None:
        """Forget a virtual node that has been deleted."""
        self._ports.pop(node, None)
        self._problems.pop(node, None)

    def all(self, common: Served) -> None:
        """Set the state of all virtual nodes without a problem of their own."""
        if common != self._common:
            self._common = common
            for node in list(self._ports):
                self._tell(node)

    def _tell(self, node: str) -> None:
        tell(self._subscribers, node)
