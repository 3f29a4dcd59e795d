"""Targets in which a scheduler that pods name by `spec.schedulerName` does not look at them.

No API lists the schedulers of a cluster, so evidence has to do: a chaperon that such a scheduler has neglected, until
it takes one up. The evidence expires, so that a scheduler which is installed later is found; each time it takes twice
as long. This is memory of one process: another leader learns it again.
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
from agent.scheduling.snapshot import TargetInfo

_FIRST, _LONGEST = 300.0, 3600.0
"""Seconds for which a target gets no more pods of a scheduler."""
_MOST = 1000
"""Pairs of target and scheduler that are remembered: users write any name."""


FIELD = "missingSchedulers"
_MOST_PUBLISHED = 50
"""Names in the status of one Target: users write any."""


class MissingSchedulers:
    """By virtual node and scheduler; `changed` is called when pods that wait may go to a target again."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._missing: dict[tuple[str, str], tuple[float, float]] = {}
        """When each was noted last, and for how many seconds that counts."""

    def note(self, node: str, scheduler: str) -> None:
        """A scheduler has neglected a chaperon in a target."""
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
        """A scheduler has taken up a chaperon in a target."""
        if self._missing.pop((node, scheduler), None) is not None:
            self._changed()

    def seen_by(self, source: Mapping[str, Any], claim: str, targets: Sequence[TargetInfo]) -> Sequence[TargetInfo]:
        """Return the targets as they are for a pod: without the scheduler that it names, they are not ready.

        :param source: constraints of the pod for the targets' own nodes, and its scheduler
        :param claim: virtual node of the target that the pod is claimed by, which may wait there
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
    """Writer of `status.missingSchedulers` of Targets: the webhook, which calls no target, warns of them (ruling 14).

    A write that fails is made again with the next evidence.
    """

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def publish(self, target: Target, scheduler: str, *, missing: bool) -> None:
        """Record whether a target lacks a scheduler, if its Target says otherwise."""
        obj = self._deps.local.either(TARGET_KINDS).get(target.key)
        told: list[str] = ((obj.decode().get("status") or {}).get(FIELD) or []) if obj is not None else []
        if obj is None or (scheduler in told) == missing:
            return
        wanted = {*told, scheduler} if missing else set(told) - {scheduler}
        with suppress(KubeError):
            await self._deps.target_status.write(obj, {FIELD: sorted(wanted)[:_MOST_PUBLISHED] or None})
