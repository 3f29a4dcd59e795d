"""Draining of a target by the agent: the Target is annotated, and the agent moves its pods, replacements first."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import TARGET_KINDS
from agent.api.names import lifecycle
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.store import Key
from agent.model.target_health import is_set

Raw = dict[str, Any]

_POLL_SECONDS = 0.5


class Retirer:
    """Empties one target. Calls `say` with its progress."""

    def __init__(self, client: Client, key: Key, say: Callable[[str], None] = print) -> None:
        self._client = client
        self._key = key
        self._say = say

    async def is_served(self) -> bool:
        """Return True if the agent of this cluster moves pods, judging by the Target's conditions."""
        return find_condition(_conditions(await self.target()), lifecycle.STABLE) is not None

    async def target(self) -> Raw:
        """Read the Target from the API server."""
        return await self._client.get(TARGET_KINDS.of(self._key[0]), self._key[1], self._key[0] or None)

    async def close(self) -> bool:
        """Annotate the Target as retiring. Return True if it was not before."""
        if is_set((await self.target())["metadata"].get("annotations"), lifecycle.RETIRE):
            return False
        await self.annotate({names.SHORT_PREFIX + lifecycle.RETIRE: "true"})
        return True

    async def open(self) -> bool:
        """Remove the retiring annotation. Return True if the Target had it."""
        given = (await self.target())["metadata"].get("annotations") or {}
        keys = [prefix + lifecycle.RETIRE for prefix in (names.PREFIX, names.SHORT_PREFIX)]
        found = {key: None for key in keys if key in given}
        if found:
            await self.annotate(found)
        return bool(found)

    async def annotate(self, patch: Mapping[str, str | None]) -> None:
        """Write annotations of the Target."""
        body = {"metadata": {"annotations": dict(patch)}}
        await self._client.patch(TARGET_KINDS.of(self._key[0]), self._key[1], body, self._key[0] or None)

    async def run(self, seconds: float) -> None:
        """Annotate the Target as retiring, and wait until it is empty. Raises Failed after `seconds`; KubeError."""
        if await self.close():
            self._say("closed: nothing new goes there, and its pods are moved")
        told = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    found = find_condition(_conditions(await self.target()), lifecycle.RETIRED) or {}
                    message = str(found.get("message") or "")
                    if found.get("status") == "True":
                        return
                    if found.get("reason") in (lifecycle.EMPTYING, lifecycle.BLOCKED) and message != told:
                        told = message
                        self._say(message)
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            why = told or "its agent has not said anything: see that it runs, without --no-moves"
            raise Failed(
                f"after {seconds:g} s it is not empty: {why}. It stays closed, and is emptied further: drain again to"
                " wait, or undrain; --evict evicts its pods"
            ) from None


def _conditions(target: Raw) -> list[Raw]:
    found: list[Raw] = (target.get("status") or {}).get("conditions") or []
    return found
