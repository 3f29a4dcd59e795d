"""`status.missingSchedulers` of Targets: the webhook, which calls no target, warns of them (ruling 14)."""

from contextlib import suppress

from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import KubeError

FIELD = "missingSchedulers"
_MOST = 50
"""Names in the status of one Target: users write any."""


class PublishedSchedulers:
    """Writer of the field. A write that fails is made again with the next evidence."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def publish(self, target: Target, scheduler: str, *, missing: bool) -> None:
        """Record whether a target lacks a scheduler, if its Target says otherwise."""
        obj = self._deps.local.either(TARGET_KINDS).get(target.key)
        told: list[str] = ((obj.decode().get("status") or {}).get(FIELD) or []) if obj is not None else []
        if obj is None or (scheduler in told) == missing:
            return
        wanted = sorted({*told, scheduler})[:_MOST] if missing else [each for each in told if each != scheduler]
        with suppress(KubeError):
            await self._deps.target_status.write(obj, {FIELD: wanted or None})
