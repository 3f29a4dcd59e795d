"""Prerequisites: objects that must exist in a target before a pod, until the last pod that needs them has ended.

Interface between senders of pods and the controllers that bring and remove copies, which register here.
Not an API object, unlike most of what controllers share: `Deps` says why.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agent.base.listeners import tell
from agent.clusters.registry import Targets
from agent.clusters.target import Target
from agent.kube.errors import Unreachable, Unsent
from agent.kube.store import Key, Object


class Provider(Protocol):
    """Controller that brings copies to targets."""

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once what a pod needs of it is in a target, or once it is known that it cannot be.

        What the source does not have is not waited for, nor is what the target refuses for good: the pod then waits
        there for it, as it would in one cluster. Raises KubeError where another try may help.
        """
        ...

    def places(self, proxy: Object) -> Mapping[str, str]:
        """What a pod needs that only one target has, and the virtual node of that target."""
        ...

    def left_in(self, target: Target) -> bool:
        """Whether something that it brought to a target has still to be taken away."""
        ...


class Prerequisites:
    """All providers as one, and the targets that are being let go of."""

    def __init__(self, targets: Targets) -> None:
        self._providers: list[Provider] = []
        self._leaving: set[Key] = set()
        self._listeners: list[Callable[[Target], None]] = []
        targets.on_detach(lambda target: self._leaving.discard(target.key))

    def add(self, provider: Provider) -> None:
        """Register a controller, which is asked from now on."""
        self._providers.append(provider)

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once all that a pod needs is in a target, or cannot be.

        Raises KubeError where another try may help; Unsent where the target gives no answer, for the pod has not left.
        """
        try:
            for provider in self._providers:
                await provider.ensure(proxy, target)
        except Unreachable as error:
            raise Unsent(str(error)) from error

    def places(self, proxy: Object) -> dict[str, str]:
        """What a pod needs that only one target has, and the virtual node of that target."""
        return {name: node for provider in self._providers for name, node in provider.places(proxy).items()}

    def left_in(self, target: Target) -> bool:
        """Whether something has still to be taken away from a target; from now on it goes without delay."""
        if target.key not in self._leaving:
            self._leaving.add(target.key)
            self._tell(target)
        return any(provider.left_in(target) for provider in self._providers)

    def leaving(self, target: Target) -> bool:
        """Whether a target is being let go of."""
        return target.key in self._leaving

    def on_change(self, listener: Callable[[Target], None]) -> None:
        """Call when letting go of a target begins, and when something was taken away from it."""
        self._listeners.append(listener)

    def taken(self, target: Target) -> None:
        """Something was taken away from a target."""
        if target.key in self._leaving:
            self._tell(target)

    def _tell(self, target: Target) -> None:
        tell(self._listeners, target)
