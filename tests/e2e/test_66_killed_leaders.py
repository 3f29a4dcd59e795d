"""Promise 66: moves and failovers finish although their leader is killed at any moment."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agent.api.kinds import SERVICES, TARGETS
from agent.api.names import LABEL_SERVING, SHORT_PREFIX, moves, virtual_node
from agent.api.names.lifecycle import FAILOVER_AFTER
from agent.model.relabel import relabel
from tests.e2e import manifests
from tests.e2e.faults.overlaps import none_overlap
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.e2e.test_63_mover import LEFT_OVER, SURGE, History, counted, in_target, send, watched

Raw = dict[str, Any]

FAILOVER_SECONDS = 10
"""The shortest term that a Target accepts."""
PROMISED_SECONDS = 5 + 60
"""Seconds from the last kill until everything is in order: one lease duration and a minute."""
pytestmark = [
    pytest.mark.full("Kills leaders many times; the mover's model covers each moment."),
    pytest.mark.usefixtures("processes_only"),
]


@dataclass
class Trial:
    """A Deployment and a StatefulSet that move while the trial kills the leading agent."""

    fleet: Fleet
    namespace: str
    random: random.Random
    web: int
    db: int
    home: str = "eu"

    @property
    def other(self) -> str:
        """The target that the pods are not in."""
        return "us" if self.home == "eu" else "eu"

    async def kill(self, times: int, within: float = 8.0) -> None:
        """Kill the leader at random moments. Another process leads after the dead leader's lease has expired."""
        for _ in range(times):
            await asyncio.sleep(self.random.uniform(0.2, within))
            await self.fleet.sandbox.kill("cd", "agent")
            await asyncio.sleep(self.random.uniform(0.0, 0.5))
            await self.fleet.sandbox.start("cd", "agent")

    async def until(self, what: str, probe: Callable[[], Awaitable[bool]]) -> None:
        await self.fleet.until(what, probe, about=self.namespace, seconds=PROMISED_SECONDS)

    async def whole(self) -> bool:
        """Return True if all pods of both exist and are available, and no move is in progress."""
        pods = await self.fleet.pods(self.namespace)
        return len(pods) == self.web + self.db and all(map(is_at_rest, pods))

    async def move(self, kills: int) -> None:
        """Move all pods to the other target."""
        await send(self.fleet, self.namespace, self.other)
        await self.kill(kills)
        self.home = self.other
        node = virtual_node(self.namespace, self.home)

        async def there() -> bool:
            pods = await self.fleet.pods(self.namespace)
            return await self.whole() and all(pod["spec"]["nodeName"] == node for pod in pods)

        await self.until(f"all have moved to {self.home}", there)
        await self.settle()

    async def cut(self, kills: int) -> None:
        """Cut off the pods' target and restore it at a random moment: before, during or after their
        replacement."""
        await send(self.fleet, self.namespace, f"{self.home} > {self.other}")
        for_good = self.random.random() < 0.7
        afterwards = self.random.randrange(2)
        await self.fleet.sandbox.set_link(self.home, up=False)
        try:
            await self.kill(kills - afterwards, FAILOVER_SECONDS)
            if for_good:
                await self.until("the Deployment is elsewhere", self.replaced)
            await asyncio.sleep(self.random.uniform(0.0, 10.0))
        finally:
            await self.fleet.sandbox.set_link(self.home, up=True)
        await self.kill(afterwards)
        await self.until("all are whole again", self.whole)
        await self.settle()

    async def replaced(self) -> bool:
        """Return True if all pods of the Deployment are in the target that is not cut off."""
        pods = await self.fleet.pods(self.namespace, "web")
        node = virtual_node(self.namespace, self.other)
        there = [pod for pod in pods if pod["spec"].get("nodeName") == node and is_at_rest(pod, told=False)]
        return len(there) == len(pods) == self.web

    async def settle(self) -> None:
        """Wait until each pod has exactly one delegate with all labels, and no other delegate exists."""
        await self.fleet.agree(self.namespace, seconds=PROMISED_SECONDS)

        async def labelled() -> bool:
            delegates = await self.fleet.delegates(self.namespace)
            return all(is_selected(pod) for _, pod in delegates.values())

        await self.until("no pod is withdrawn", labelled)


def is_selected(delegate: Raw) -> bool:
    """Return True if a delegate has the label by which Services select it."""
    labels = delegate["metadata"]["labels"]
    selected = any(relabel({"app": app}, None).items() <= labels.items() for app in ("web", "db"))
    return selected and LABEL_SERVING in labels


def is_at_rest(pod: Raw, *, told: bool = True) -> bool:
    """Return True if a pod is Ready in a permitted target and has no annotation of a move."""
    annotations = pod["metadata"].get("annotations") or {}
    owners = pod["metadata"].get("ownerReferences") or [{}]
    return (
        condition(pod, "Ready").get("status") == "True"
        and bool(owners[0].get("controller"))
        and not any(key in annotations for key in (*LEFT_OVER, moves.DELETION_COST))
        and (not told or condition(pod, moves.CONDITION).get("status") in (None, "True"))
    )


@asynccontextmanager
async def trial(fleet: Fleet, namespace: str, seed: int, web: int, db: int) -> AsyncIterator[Trial]:
    """Start both in `eu`. At the end check that no two delegates shared a name and that no pod was missing."""
    print(f"moments of the kills: random.Random({seed})")
    made = Trial(fleet, namespace, random.Random(seed), web, db)
    for target in ("us", "eu"):
        marks = {"metadata": {"annotations": {SHORT_PREFIX + FAILOVER_AFTER: f"{FAILOVER_SECONDS}s"}}}
        await fleet.source.patch(TARGETS, target, marks, namespace)
    await send(fleet, namespace, "eu")
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", web), namespace)
    await fleet.source.create(STATEFULSETS, manifests.stateful_set("db", db), namespace)
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    await fleet.source.create(SERVICES, {"apiVersion": "v1", "kind": "Service", **service}, namespace)
    await in_target(fleet, namespace, "eu", web)
    await in_target(fleet, namespace, "eu", db, "db")
    await counted(fleet, namespace, web)
    async with none_overlap(fleet, namespace), watched(fleet, namespace) as history:
        yield made
    judge(history, web, db)


def judge(history: History, web: int, db: int) -> None:
    """Check every recorded state."""
    assert min(history.available) >= web
    assert history.most <= web + SURGE + db


async def test_leaders_killed_while_pods_move(fleet: Fleet, namespace: str) -> None:
    async with trial(fleet, namespace, secrets.randbits(32), web=2, db=1) as made:
        await made.move(kills=2)


@pytest.mark.seldom
async def test_leaders_killed_while_a_target_is_cut_off(fleet: Fleet, namespace: str) -> None:
    async with trial(fleet, namespace, secrets.randbits(32), web=2, db=1) as made:
        await made.cut(kills=2)


@pytest.mark.seldom
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("session", range(10))
async def test_a_hundred_leaders_killed_at_random_moments(fleet: Fleet, namespace: str, session: int) -> None:
    async with trial(fleet, namespace, secrets.randbits(32) + session, web=4, db=2) as made:
        for kills in (2, 3, 2, 3):
            await (made.cut if made.random.random() < 0.5 else made.move)(kills)
