"""Clusters that refuse EndpointSlices of Services. Pure."""

from collections.abc import Iterable

from agent.kube.errors import Conflict, KubeError, TooManyRequests, Unreachable
from agent.kube.store import Key

_PASSING = (Conflict, TooManyRequests, Unreachable)
"""Errors after which a cluster may accept the same write soon."""


class EndpointRefusals:
    """Services whose EndpointSlices a cluster refused at the last try, by virtual node; empty is the source."""

    def __init__(self) -> None:
        self._known: set[tuple[str, Key]] = set()

    def note(self, node: str, service: Key, errors: Iterable[KubeError]) -> None:
        """Record the outcome of a try."""
        refused = any(not isinstance(error, _PASSING) for error in errors)
        (self._known.add if refused else self._known.discard)((node, service))

    def forget(self, node: str) -> None:
        """Forget a cluster."""
        self._known = {each for each in self._known if each[0] != node}

    def has(self, node: str, service: Key) -> bool:
        """Return True if a cluster refuses the slices of a Service."""
        return (node, service) in self._known
