"""CEL expressions of Placements: asked of the worker by a task for each Placement, so that no reconciliation waits."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from agent.base.clock import Clock
from agent.placement.placements.cel import CelEvaluator
from agent.placement.placements.interests import Key
from agent.placement.placements.surroundings import Surroundings
from agent.ranking.placing.evaluate import candidates, cel_expressions
from agent.ranking.placing.inputs import CelVerdicts, PlacementInputs
from agent.runtime.background_tasks import BackgroundTasks

_TURNS = 3
"""How often in a row verdicts are asked for again because clusters have changed meanwhile."""


class Found(NamedTuple):
    """Verdicts, and whether they are about the clusters as they are now."""

    verdicts: CelVerdicts
    current: bool


@dataclass
class _Asked:
    generation: int = -1
    """Of the Placement when its expressions were asked for last."""
    turns: int = 0


class Expressions:
    """`ready` is called with the key of a Placement whose verdicts have been computed."""

    def __init__(self, clock: Clock, ready: Callable[[Key], None]) -> None:
        self._clock = clock
        self._cel = CelEvaluator()
        self._tasks: BackgroundTasks[Key, tuple[PlacementInputs, CelVerdicts]] = BackgroundTasks(ready)
        self._asked: dict[Key, _Asked] = {}

    def of(self, key: Key, placement: Mapping[str, Any], around: Surroundings) -> Found | None:
        """Return the verdicts of a Placement's expressions; None while they are being asked for."""
        expressions = cel_expressions(placement)
        if not expressions:
            self.drop(key)
            return Found(CelVerdicts(), current=True)
        generation = placement["metadata"].get("generation", 0)
        asked = self._asked.setdefault(key, _Asked())

        async def ask() -> tuple[PlacementInputs, CelVerdicts]:
            changed, asked.generation = generation != asked.generation, generation
            fleet, now = around.fleet, self._clock.now()
            clusters = around.manifests(candidates(placement, fleet))
            return fleet, await self._cel.verdicts(
                expressions, clusters, fleet.scores, now, namespace=key[0], at_once=changed
            )

        about = (generation, expressions)
        found = self._tasks.result_or_start(key, about, ask)
        if found is None:
            return None
        asked.turns += 1
        if (current := found[0] is around.fleet) or asked.turns >= _TURNS:
            asked.turns = 0
            return Found(found[1], current)
        self._tasks.result_or_start(key, about, ask)
        return None

    def drop(self, key: Key) -> None:
        """Ask no more for a Placement."""
        self._tasks.drop(key)
        self._asked.pop(key, None)

    async def close(self) -> None:
        """Cancel all evaluations and end the worker."""
        # At once: a computation that is cancelled waits until the worker's request has ended.
        await asyncio.gather(self._tasks.close(), self._cel.close())
