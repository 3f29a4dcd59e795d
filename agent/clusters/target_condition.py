"""Conditions of Targets that one room keeps beside those of the others."""

from typing import Any, NamedTuple

from agent.api.conditions import Status, find_condition, set_condition
from agent.api.kinds import TARGET_KINDS
from agent.clusters.deps import Deps
from agent.kube.store import Object
from agent.model.diff import same


class Words(NamedTuple):
    """What a condition says."""

    status: Status
    reason: str
    message: str


class TargetCondition:
    """One condition of every Target, which is there once it was not True; an event goes with that."""

    def __init__(self, deps: Deps, condition: str) -> None:
        self._deps = deps
        self._condition = condition
        self.objects = deps.local.either(TARGET_KINDS)

    def status(self, obj: Object) -> str:
        """What the condition says now: True, False, or nothing where it is not there."""
        found = find_condition((obj.decode().get("status") or {}).get("conditions"), self._condition)
        return str(found["status"]) if found is not None else ""

    async def say(self, obj: Object, words: Words, **fields: str | None) -> None:
        """Have the condition say this, and fields of the status beside it; None takes one away. Raises KubeError."""
        manifest, before = obj.decode(), self.status(obj)
        status = manifest.get("status") or {}
        body: dict[str, Any] = {field: value for field, value in fields.items() if value != status.get(field)}
        if words.status != "True" or before:
            old = status.get("conditions")
            new = set_condition(
                old, self._condition, *words, self._deps.clock.now(), manifest["metadata"].get("generation")
            )
            if not same(old, new):
                body["conditions"] = new
        if body:
            await self.objects.patch(
                obj.key, {"metadata": {"resourceVersion": obj.version}, "status": body}, sub="status"
            )
        if words.status == "False" and before != "False":
            self._deps.recorder.event(manifest, "Warning", words.reason, words.message)
