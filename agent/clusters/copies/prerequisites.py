"""Prerequisites: objects that must exist in a target before a pod, until the last pod that needs them has ended.

Interface between the senders of pods and the controllers that create and remove copies, which register with it.
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
    """Controller that creates copies in targets."""

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once a target has the objects that a pod needs, or once it is certain that it cannot have them.

        Do not wait for objects that the source does not have or that the target refuses permanently: the pod
        then waits for them in the target, as it would in one cluster. Raises KubeError if another try may help.
        """
        ...

    def places(self, proxy: Object) -> Mapping[str, str]:
        """Return the names of objects that only one target has and the pod needs, with that target's virtual node."""
        ...

    def left_in(self, target: Target) -> bool:
        """Return whether a target still has copies of this controller that must be removed."""
        ...


class Prerequisites:
    """All providers as one, and the targets that are being retired."""

    def __init__(self, targets: Targets) -> None:
        self._providers: list[Provider] = []
        self._leaving: set[Key] = set()
        self._listeners: list[Callable[[Target], None]] = []
        targets.on_detach(lambda target: self._leaving.discard(target.key))

    def add(self, provider: Provider) -> None:
        """Register a controller."""
        self._providers.append(provider)

    async def ensure(self, proxy: Mapping[str, Any], target: Target) -> None:
        """Return once a target has all that a pod needs, or cannot have it.

        Raises KubeError if another try may help, Unsent if the target does not answer: the pod was not sent.
        """
        try:
            for provider in self._providers:
                await provider.ensure(proxy, target)
        except Unreachable as error:
            raise Unsent(str(error)) from error

    def places(self, proxy: Object) -> dict[str, str]:
        """Return the names of objects that only one target has and the pod needs, with that target's virtual node."""
        return {name: node for provider in self._providers for name, node in provider.places(proxy).items()}

    def left_in(self, target: Target) -> bool:
        """Return whether a target still has copies to remove. Marks it as retiring: they are now removed
        without delay.
        """
        if target.key not in self._leaving:
            self._leaving.add(target.key)
            self._tell(target)
        return any(provider.left_in(target) for provider in self._providers)

    def leaving(self, target: Target) -> bool:
        """Return whether a target is being retired."""
        return target.key in self._leaving

    def on_change(self, listener: Callable[[Target], None]) -> None:
        """Register a listener: called when a target begins to retire, and when a copy was removed from a
        retiring one.
        """
        self._listeners.append(listener)

    def taken(self, target: Target) -> None:
        """Notify the listeners that a copy was removed from a target."""
        if target.key in self._leaving:
            self._tell(target)

    def _tell(self, target: Target) -> None:
        tell(self._listeners, target)
