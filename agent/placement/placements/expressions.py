"""CEL expressions of Placements, evaluated by one task per Placement so that no reconciliation waits."""

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
"""Number of evaluations in a row after which verdicts are used even if clusters changed during the last one."""


class Found(NamedTuple):
    """Verdicts, and whether they are based on the present state of clusters."""

    verdicts: CelVerdicts
    current: bool


@dataclass
class _Asked:
    generation: int = -1
    """Generation of the Placement at the last evaluation of its expressions."""
    turns: int = 0


class Expressions:
    """Verdicts by Placement. Calls `ready` with the key of a Placement when its verdicts have been computed."""

    def __init__(self, clock: Clock, ready: Callable[[Key], None]) -> None:
        self._clock = clock
        self._cel = CelEvaluator()
        self._tasks: BackgroundTasks[Key, tuple[PlacementInputs, CelVerdicts]] = BackgroundTasks(ready)
        self._asked: dict[Key, _Asked] = {}

    def of(self, key: Key, placement: Mapping[str, Any], around: Surroundings) -> Found | None:
        """Return the verdicts of a Placement's expressions; None while they are being computed."""
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
        """Stop evaluating expressions of a Placement."""
        self._tasks.drop(key)
        self._asked.pop(key, None)

    async def close(self) -> None:
        """Cancel all evaluations and end the worker."""
        # Close both at the same time: a cancelled task waits until the worker's request has ended.
        await asyncio.gather(self._tasks.close(), self._cel.close())
