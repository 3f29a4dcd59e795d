"""A source that follows section 14 of the contract and nothing else: it lists and patches once a second.

Its users' pods are real proxy pods in its own cluster. It makes candidates in all targets and allows one of them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, NamedTuple

from agent.api.kinds import CHAPERONS, PODS
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from tests.background import background
from tests.peers.contract import (
    ALLOWED,
    MISSING,
    PARENT_UID,
    RESERVED,
    P,
    annotation,
    bind,
    chaperon_of,
    condition,
    foreign,
    own,
)

Raw = dict[str, Any]

POLL_SECONDS = 1.0
_REFUSALS = ("Unschedulable", "SchedulingGated")


class Goal(NamedTuple):
    """Target of this source."""

    client: Client
    node: str
    finalizer: str


class SourcePeer:
    """Proxy scheduler and feedback for one namespace. Without `reserve`, the no-reservation algorithm (4.3)."""

    def __init__(self, local: Client, namespace: str, goals: Mapping[str, Goal], *, reserve: bool) -> None:
        self._local = local
        self._namespace = namespace
        self._goals = goals
        self._reserve = reserve
        self.away = False
        """Whether the source creates candidates without allowing one."""

    @classmethod
    @contextlib.asynccontextmanager
    async def serving(
        cls, local: Client, namespace: str, goals: Mapping[str, Goal], *, reserve: bool
    ) -> AsyncIterator["SourcePeer"]:
        """Run a peer. Leaving ends it, and fails if it has ended early."""
        peer = cls(local, namespace, goals, reserve=reserve)
        async with background(peer.run()):
            yield peer

    async def run(self) -> None:
        """Reconcile every proxy pod once a second until cancelled."""
        while True:
            for proxy in await self._local.list(PODS, self._namespace, fields="spec.schedulerName=admiralty-proxy"):
                with contextlib.suppress(Conflict, NotFound):
                    await self._serve(proxy)
            await asyncio.sleep(POLL_SECONDS)

    async def _serve(self, proxy: Raw) -> None:
        found = {name: await self._candidate(goal, proxy) for name, goal in self._goals.items()}
        home = next((name for name, goal in self._goals.items() if goal.node == proxy["spec"].get("nodeName")), "")
        if "deletionTimestamp" in proxy["metadata"]:
            await self._release(proxy, found)
        elif home:
            await self._feed_back(proxy, home, found)
        elif self._reserve:
            await self._reserve_and_allow(proxy, found)
        else:
            await self._choose(proxy, found)

    async def _candidate(self, goal: Goal, proxy: Raw) -> Raw | None:
        labels = f"{PARENT_UID}={proxy['metadata']['uid']}"
        candidates = await goal.client.list(CHAPERONS, self._namespace, labels=labels)
        assert len(candidates) <= 1, "more than one candidate in target cluster"
        return candidates[0] if candidates else None

    async def _reserve_and_allow(self, proxy: Raw, found: Mapping[str, Raw | None]) -> None:
        """S2, S9, S11 and S13 to S15 of section 4.2."""
        for name, candidate in found.items():
            if candidate is None:
                await self._create(name, proxy)
        candidates = {name: candidate for name, candidate in found.items() if candidate is not None}
        allowed = next((name for name, each in candidates.items() if ALLOWED in own(each)), "")
        if allowed:
            if condition(candidates[allowed], "PodScheduled").get("status") == "True":
                await bind(self._local, proxy, self._goals[allowed].node)
                await self._delete_losers(proxy, allowed)
            return
        if len(candidates) < len(self._goals) or any(not _decided(each) for each in candidates.values()):
            return
        if self.away:
            return
        for name, candidate in candidates.items():
            if RESERVED in own(candidate):
                await self._patch(name, candidate, annotation(ALLOWED, "true"))
                return

    async def _choose(self, proxy: Raw, found: Mapping[str, Raw | None]) -> None:
        """Section 4.3 with the first target as the one with the best score."""
        name, candidate = next(iter(found.items()))
        if candidate is None:
            await self._create(name, proxy)
        elif condition(candidate, "PodScheduled").get("status") == "True":
            await bind(self._local, proxy, self._goals[name].node)

    async def _create(self, name: str, proxy: Raw) -> None:
        chaperon = chaperon_of(proxy, "same", reserve=self._reserve)
        await self._goals[name].client.create(CHAPERONS, chaperon)

    async def _patch(self, name: str, candidate: Raw, patch: Raw) -> None:
        metadata = candidate["metadata"]
        await self._goals[name].client.patch(CHAPERONS, metadata["name"], patch, metadata["namespace"])

    async def _delete_losers(self, proxy: Raw, winner: str) -> None:
        params = {"labelSelector": f"{PARENT_UID}={proxy['metadata']['uid']}"}
        for name, goal in self._goals.items():
            if name != winner:
                await goal.client.session.request("DELETE", CHAPERONS.path(self._namespace), params=params)

    async def _feed_back(self, proxy: Raw, home: str, found: Mapping[str, Raw | None]) -> None:
        """Section 5, rules 4 and 5, and the finalizers of the other targets."""
        candidate = found[home]
        if candidate is None:
            await self._local.delete(PODS, proxy["metadata"]["name"], self._namespace)
            return
        if MISSING in own(candidate):
            await self._goals[home].client.delete(CHAPERONS, candidate["metadata"]["name"], self._namespace)
            return
        finalizers = proxy["metadata"].get("finalizers") or []
        kept = [each for each in finalizers if not each.startswith(P) or each == self._goals[home].finalizer]
        if foreign(proxy) != foreign(candidate) or kept != finalizers:
            proxy["metadata"] |= {"annotations": own(proxy) | foreign(candidate), "finalizers": kept}
            proxy = await self._local.update(PODS, proxy)
        status = {**_known(candidate.get("status") or {}), **_kept(proxy["status"])}
        if status != _known(proxy["status"]) | _kept(proxy["status"]):
            await self._local.update(PODS, proxy | {"status": status}, sub="status")

    async def _release(self, proxy: Raw, found: Mapping[str, Raw | None]) -> None:
        """Section 5, rule 3: chaperons first, then their finalizers."""
        finalizers = list(proxy["metadata"].get("finalizers") or ())
        for name, candidate in found.items():
            goal = self._goals[name]
            if candidate is not None:
                await goal.client.delete(CHAPERONS, candidate["metadata"]["name"], self._namespace)
            elif goal.finalizer in finalizers:
                finalizers.remove(goal.finalizer)
        if finalizers != (proxy["metadata"].get("finalizers") or []):
            proxy["metadata"]["finalizers"] = finalizers
            await self._local.update(PODS, proxy)


def _decided(candidate: Raw) -> bool:
    return RESERVED in own(candidate) or condition(candidate, "PodScheduled").get("reason") in _REFUSALS


def _known(status: Raw) -> Raw:
    """Return a status with only the fields that a client of Kubernetes 1.30 supports."""
    conditions = [
        {key: value for key, value in each.items() if key != "observedGeneration"}
        for each in status.get("conditions") or ()
    ]
    known = {key: value for key, value in status.items() if key != "observedGeneration"}
    return known | ({"conditions": conditions} if conditions else {})


def _kept(status: Raw) -> Raw:
    """Return the fields of a status that a server of 1.36 treats as immutable."""
    return {key: status[key] for key in ("qosClass",) if key in status}
