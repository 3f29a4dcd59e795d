"""Conditions of Targets that only one controller writes."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.api.conditions import Status, condition_of, set_condition
from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.kube.store import Object


class Words(NamedTuple):
    """Content of a condition."""

    status: Status
    reason: str
    message: str


class TargetCondition:
    """One condition of every Target."""

    def __init__(self, deps: Deps, condition: str) -> None:
        self._deps = deps
        self._condition = condition
        self.objects = deps.local.either(TARGET_KINDS)

    def status(self, obj: Object) -> str:
        """Return the condition's status: True, False or Unknown; empty if the condition does not exist."""
        found = condition_of(obj.decode(), self._condition)
        return str(found["status"]) if found is not None else ""

    async def say(self, obj: Object, words: Words, **fields: str | None) -> None:
        """Write the condition unless it is True and did not exist; emit an event when it becomes False. Raises
        KubeError.

        :param fields: fields of the status to write with it; None removes one
        """
        before = self.status(obj)
        await self._patch(obj, words if words.status != "True" or before else None, fields)
        if words.status == "False" and before != "False":
            self._deps.recorder.event(obj.decode(), "Warning", words.reason, words.message)

    async def write(self, obj: Object, words: Words) -> None:
        """Write the condition unless it is unchanged. Raises KubeError."""
        await self._patch(obj, words, {})

    async def _patch(self, obj: Object, words: Words | None, fields: Mapping[str, str | None]) -> None:
        body: dict[str, Any] = dict(fields)
        if words is not None:
            manifest = obj.decode()
            now, generation = self._deps.clock.now(), manifest["metadata"].get("generation")
            conditions = (manifest.get("status") or {}).get("conditions")
            body["conditions"] = set_condition(conditions, self._condition, *words, now, generation)
        await self._deps.target_status.write(obj, body)
