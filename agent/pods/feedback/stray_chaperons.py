"""Strays: chaperons of a running proxy pod outside its target, or without one.

They are deleted separately, since a target may have many of them and be slow, which must not delay any status.

Watches  nothing: `Feedback` names them.
Writes   deletes chaperons.
Strays in an absent target are named again when it returns. Many whose pods this cluster may have forgotten wait for a
user (`agent.clusters.stores.orphans`).
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from agent.clusters.deps import Deps
from agent.kube.store import Key
from agent.runtime.controller import Controller


class Stray(NamedTuple):
    """One chaperon, by its proxy pod and its own UID."""

    proxy: Key
    uid: str


class StrayChaperons(Controller[Stray]):
    """`delete` checks the stray again and deletes it; `order` is that of proxy pods."""

    name = "strays"
    workers = 32

    def __init__(self, deps: Deps, delete: Callable[[Key, str], Awaitable[None]], order: Callable[[Key], Any]) -> None:
        super().__init__()
        self._chaperons = deps.chaperons
        self._guard = deps.orphan_deletion_guard
        self._delete = delete
        self._order = order

    def order(self, key: Stray) -> Any:
        """As their proxy pods."""
        return self._order(key.proxy)

    async def reconcile(self, key: Stray) -> float | None:
        """Delete one, or wait until that may be done."""
        waits = [self._guard.wait_for(each) for each in self._chaperons.of(key.proxy) if each.chaperon.uid == key.uid]
        if max(waits, default=0.0) > 0:
            return max(waits)
        await self._delete(key.proxy, key.uid)
        return None
