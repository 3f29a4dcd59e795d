"""Strays: chaperons of a living proxy pod elsewhere than at home, or of none, deleted without keeping any status from
coming home: a target may have many of them, and be slow to delete them.

Watches  nothing: `Feedback` names them.
Writes   deletes chaperons.
Absent target: its strays are named again when it is back. Many whose pods this cluster may have forgotten wait for a
person (`agent.clusters.orphans`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from agent.clusters.deps import Deps
from agent.kube.store import Key
from agent.runtime.controller import Controller


class Stray(NamedTuple):
    """One chaperon, by the proxy pod and its own UID."""

    proxy: Key
    uid: str


class StrayChaperons(Controller[Stray]):
    """`delete` looks again whether it is one, and deletes it then; `order` is that of proxy pods."""

    name = "strays"
    workers = 32

    def __init__(self, deps: Deps, delete: Callable[[Key, str], Awaitable[None]], order: Callable[[Key], Any]) -> None:
        super().__init__()
        self._chaperons = deps.chaperons
        self._brake = deps.brake
        self._delete = delete
        self._order = order

    def order(self, key: Stray) -> Any:
        """As their proxy pods."""
        return self._order(key.proxy)

    async def reconcile(self, key: Stray) -> float | None:
        """Delete one, or wait until that may be done."""
        waits = [self._brake.wait_for(each) for each in self._chaperons.of(key.proxy) if each.chaperon.uid == key.uid]
        if max(waits, default=0.0) > 0:
            return max(waits)
        await self._delete(key.proxy, key.uid)
        return None
