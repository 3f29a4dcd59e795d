"""Witnesses of an upgrade: they poll rights continuously and record every change of objects."""

import asyncio
import contextlib
import datetime
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent.api.kinds import Kind
from agent.api.roles import Grant, role_of
from agent.kube.client import Client
from tests.e2e import shared
from tests.e2e.test_57_roles import may

Raw = dict[str, Any]
Loss = Callable[[Raw, Raw], str]
"""Function that describes an object's loss between two versions; empty if there is none."""

_PAUSE_SECONDS, _SILENCE_SECONDS = 0.075, 600.0


class Witness(Protocol):
    """Records losses until it is cancelled."""

    losses: list[str]

    async def watch(self) -> None:
        """Run until cancelled."""


@contextlib.asynccontextmanager
async def watching(*witnesses: Witness) -> AsyncIterator[None]:
    """Run witnesses during the context. Fails if a witness ends early."""
    tasks = [asyncio.ensure_future(each.watch()) for each in witnesses]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each) for each in ended} == {asyncio.CancelledError}, ended


@dataclass
class Rights:
    """Polls the rights of users in a namespace: per round one right of each role, in turn.

    A role's rights change together, so each loss that outlasts a round is recorded."""

    client: Client
    namespace: str
    users: tuple[str, ...]
    grants: tuple[Grant, ...]
    losses: list[str] = field(default_factory=list)
    asked: int = 0
    rounds: list[float] = field(default_factory=list)
    """Start time of each round."""

    async def watch(self) -> None:
        rights = [each for user in self.users for each in self._by_role(user)]
        while True:
            self.rounds.append(time.monotonic())
            async with asyncio.TaskGroup() as group:
                for user, grants in rights:
                    group.create_task(self._ask(user, next(grants)))
            await asyncio.sleep(_PAUSE_SECONDS)

    def _by_role(self, user: str) -> Iterator[tuple[str, Iterator[Grant]]]:
        for _, grants in itertools.groupby(sorted(self.grants, key=role_of), role_of):
            yield user, itertools.cycle(list(grants))

    async def _ask(self, user: str, grant: Grant) -> None:
        allowed = await may(self.client, user, self.namespace, grant)
        self.asked += 1
        if not allowed:
            self.losses.append(f"{_now()}: {user} may not {grant.verb} {grant.resource}")

    @property
    def longest(self) -> float:
        """Longest time between two rounds, in seconds."""
        return max(after - before for before, after in itertools.pairwise(self.rounds))


@dataclass
class Changes:
    """Records every change of a kind's objects in a namespace, including new objects."""

    client: Client
    kind: Kind
    namespace: str
    loss: Loss
    version: str
    objects: dict[str, Raw]
    losses: list[str] = field(default_factory=list)
    seen: int = 0

    @classmethod
    async def of(cls, client: Client, kind: Kind, namespace: str, loss: Loss) -> "Changes":
        """Start from the current objects."""
        version, items = await client.list_raw(kind, namespace)
        listed = [json.loads(bytes(item)) for item in items]
        return cls(client, kind, namespace, loss, version, {each["metadata"]["name"]: each for each in listed})

    async def watch(self) -> None:
        while True:
            params = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": self.version}
            path = self.kind.path(self.namespace)
            async with self.client.session.stream(path, params=params, idle=_SILENCE_SECONDS) as lines:
                async for line in lines:
                    self._take(json.loads(line))

    def _take(self, event: Raw) -> None:
        obj = event["object"]
        assert event["type"] != "ERROR", obj
        self.version = obj["metadata"]["resourceVersion"]
        if event["type"] == "BOOKMARK":
            return
        self.seen += 1
        name = obj["metadata"]["name"]
        before, self.objects[name] = self.objects.get(name, obj), obj
        if lost := "is gone" if event["type"] == "DELETED" else self.loss(before, obj):
            self.losses.append(f"{_now()}: in {self.client.name} {self.kind.name} {name} {lost}")


def of_a_pod(before: Raw, after: Raw) -> str:
    """Describe whether a pod was replaced, is terminating, has restarted, or is no longer ready."""
    if restarts := sum(each["restartCount"] for each in after["status"].get("containerStatuses", ())):
        return f"has been restarted {restarts} times"
    if shared.is_ready(before) and not shared.is_ready(after):
        return f"is not ready: {after['status']}"
    return of_any(before, after)


def of_a_service(before: Raw, after: Raw) -> str:
    """Describe whether a Service selects other pods."""
    selectors = [each["spec"].get("selector") for each in (before, after)]
    return of_any(before, after) or ("" if selectors[0] == selectors[1] else f"selects {selectors[1]}")


def of_endpoints(before: Raw, after: Raw) -> str:
    """Describe which addresses are no longer ready."""
    missing = _addresses(before) - _addresses(after)
    return f"has lost {sorted(missing)}" if missing else of_any(before, after)


def of_any(before: Raw, after: Raw) -> str:
    """Describe whether the object was replaced or is being deleted."""
    if "deletionTimestamp" in after["metadata"]:
        return "is being deleted"
    return "" if before["metadata"]["uid"] == after["metadata"]["uid"] else "is another one"


def _now() -> str:
    """Return the current time in the logs' format."""
    return datetime.datetime.now(datetime.UTC).strftime("%H:%M:%S.%f")[:-3]


def _addresses(slice: Raw) -> set[str]:
    ready = [each for each in slice.get("endpoints") or () if each["conditions"].get("ready", True)]
    return {address for each in ready for address in each["addresses"]}
