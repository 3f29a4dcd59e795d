"""Missing schedulers: targets in which no scheduler handles pods with a certain `spec.schedulerName`.

No API lists the schedulers of a cluster. The evidence is a chaperon that the scheduler has neglected; it counts
until the scheduler handles one. It expires, so that a scheduler installed later is found; the time doubles with each
repetition. The state is held by one process: a new leader starts without it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.errors import KubeError
from agent.model.schedulername import special, why_missing
from agent.ranking.snapshot import TargetInfo

_FIRST, _LONGEST = 300.0, 3600.0
"""First and longest time in seconds for which a target gets no more pods of a scheduler."""
_MOST = 1000
"""Maximum number of cached pairs of target and scheduler: users may write any name."""


FIELD = "missingSchedulers"
_MOST_PUBLISHED = 50
"""Maximum number of names in the status of one Target: users may write any."""


class MissingSchedulers:
    """Missing schedulers by virtual node. Calls `changed` when waiting pods may use a target again."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._missing: dict[tuple[str, str], tuple[float, float]] = {}
        """Time of the last evidence, and for how many seconds it counts."""

    def note(self, node: str, scheduler: str) -> None:
        """Record that a scheduler has neglected a chaperon in a target."""
        key, loop = (node, scheduler), asyncio.get_running_loop()
        since, pause = self._missing.get(key, (0.0, 0.0))
        if pause and loop.time() < since + pause:
            return
        pause = min(max(2 * pause, _FIRST), _LONGEST)
        self._missing[key] = loop.time(), pause
        loop.call_later(pause, self._changed)
        if len(self._missing) > _MOST:
            del self._missing[next(iter(self._missing))]

    def forget(self, node: str, scheduler: str) -> None:
        """Record that a scheduler has handled a chaperon in a target."""
        if self._missing.pop((node, scheduler), None) is not None:
            self._changed()

    def seen_by(self, source: Mapping[str, Any], claim: str, targets: Sequence[TargetInfo]) -> Sequence[TargetInfo]:
        """Return the targets as one pod may use them: not ready if they lack the scheduler that it names.

        :param source: constraints of the pod for the targets' own nodes, and its scheduler
        :param claim: virtual node of the target that the pod is claimed for; the pod may wait there
        """
        scheduler = special(source) if self._missing else ""
        if not scheduler:
            return targets
        return [info if info.node_name == claim else self._as_seen(info, scheduler) for info in targets]

    def _as_seen(self, info: TargetInfo, scheduler: str) -> TargetInfo:
        since, pause = self._missing.get((info.node_name, scheduler), (0.0, 0.0))
        if not info.ready or asyncio.get_running_loop().time() >= since + pause:
            return info
        return replace(info, ready=False, state=why_missing(scheduler))


class PublishedSchedulers:
    """Writes `status.missingSchedulers` of Targets, which the webhook reads for its warnings (ruling 14).

    A failed write is repeated with the next evidence.
    """

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def publish(self, target: Target, scheduler: str, *, missing: bool) -> None:
        """Record on the Target whether it lacks a scheduler, unless it already does."""
        obj = self._deps.local.either(TARGET_KINDS).get(target.key)
        told: list[str] = ((obj.decode().get("status") or {}).get(FIELD) or []) if obj is not None else []
        if obj is None or (scheduler in told) == missing:
            return
        wanted = {*told, scheduler} if missing else set(told) - {scheduler}
        with suppress(KubeError):
            await self._deps.target_status.write(obj, {FIELD: sorted(wanted)[:_MOST_PUBLISHED] or None})
