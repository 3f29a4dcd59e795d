"""Strays: chaperons of a living proxy pod elsewhere than at home, deleted without keeping its status from coming home.

Watches  nothing: `Feedback` names them.
Writes   deletes chaperons.
Absent target: its strays are named again when it is back.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from agent.kube.store import Key
from agent.runtime.controller import Controller


class Stray(NamedTuple):
    """One chaperon, by the proxy pod and its own UID."""

    proxy: Key
    uid: str


class Strays(Controller[Stray]):
    """`delete` looks again whether it is one, and deletes it then."""

    name = "strays"
    workers = 32

    def __init__(self, delete: Callable[[Key, str], Awaitable[None]]) -> None:
        super().__init__()
        self._delete = delete

    async def reconcile(self, key: Stray) -> float | None:
        """Delete one."""
        await self._delete(key.proxy, key.uid)
        return None
