"""Candidates for real targets that refuse them or are unreachable."""

import asyncio
from collections import Counter

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, NAMESPACES, PODS
from agent.scheduler.reserve import candidate_writer
from agent.scheduler.reserve.candidate_writer import CandidateWriter, CreateCandidate, DeleteChaperon
from tests.scheduler.reserving import Open, Stage, add_namespace
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


async def test_a_target_without_the_namespace_costs_nothing_where_another_has_it(opened: Open) -> None:
    async with opened(missing=("us",)) as at:
        await at.pods("one", "two")
        assert await at.settled(2) == {"one": "eu", "two": "eu"}


async def test_a_pod_that_every_target_refuses_says_why_and_is_offered_again_by_itself(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_writer, "REFUSED_SECONDS", 2.0)
    async with opened(missing=("us", "eu")) as at:
        await at.pod("one")
        said = await at.waits("one", "cannot create PodChaperon")
        assert "not found" in said
        assert "us: " in said
        assert "eu: " in said
        await add_namespace(at.far["eu"], at.namespace)
        assert await at.settled(1) == {"one": "eu"}
        await at.far["eu"].delete(NAMESPACES, at.namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_chaperon_of_another_pod_is_left_alone_and_named(opened: Open) -> None:
    async with opened() as at:
        for relay in at.relays.values():
            relay.freeze(lambda asked, path: asked == "POST")
        pod = await at.pod("one")
        name = names.chaperon("one", pod["metadata"]["uid"])
        manifest = {
            "apiVersion": CHAPERONS.api_version,
            "kind": CHAPERONS.name,
            "metadata": {"name": name, "labels": {names.LABEL_PARENT_UID: "another"}},
            "spec": {"schedulerName": names.SCHEDULER_CANDIDATE, "containers": [{"name": "c", "image": "busybox"}]},
        }
        for client in at.far.values():
            await client.create(CHAPERONS, manifest, at.namespace)
        for relay in at.relays.values():
            relay.mend()
        await at.waits("one", "exists and belongs to another pod")
        await at.delete("one")

        async def only_foreign() -> bool:
            found = [each["metadata"]["labels"][names.LABEL_PARENT_UID] for _, each in await at.chaperons()]
            return not await at.proxies() and found == ["another", "another"]

        await until(only_foreign)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_loser_in_a_target_that_is_away_goes_when_it_is_back(opened: Open) -> None:
    async with opened() as at:
        # The write of the claim fails.
        at.near.freeze(lambda asked, path: asked == "PATCH" and "/pods/" in path)
        await at.pod("one")
        await at.candidates(2, reserved=True)
        at.relays["us"].cut()
        await until(lambda: not at.targets["us"].ready)
        at.near.mend()
        at.near.break_streams()
        assert await at.run(1) == {"one": "eu"}
        assert len(await at.chaperons("us")) == 1
        at.relays["us"].mend()
        await at.settled(1)


async def finalizers(at: Stage, *held: str) -> None:
    """Add these finalizers to all pods in targets."""
    for client in at.far.values():
        for pod in await client.list(PODS, at.namespace):
            await client.patch(PODS, pod["metadata"]["name"], {"metadata": {"finalizers": held}}, at.namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_loser_is_gone_before_its_pod_which_never_starts(opened: Open) -> None:
    async with opened() as at:
        # The write of the claim fails.
        at.near.freeze(lambda asked, path: asked == "PATCH" and "/pods/" in path)
        await at.pod("one")
        await at.candidates(2, reserved=True)
        await finalizers(at, "flotilla.test/held")
        at.near.mend()
        (winner,) = (await at.run(1)).values()
        (loser,) = at.far.keys() - {winner}

        async def chaperon_is_gone() -> bool:
            return not await at.chaperons(loser)

        await until(chaperon_is_gone)
        (left,) = await at.far[loser].list(PODS, at.namespace)
        assert "nodeName" not in left["spec"]
        await finalizers(at)
        await at.settled(1)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_candidates_that_wait_for_a_silent_target_are_not_looked_at_before_it_is_their_turn(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: Counter[str] = Counter()
    reconcile = CandidateWriter.reconcile

    async def noting(self: CandidateWriter, key: CreateCandidate | DeleteChaperon) -> float | None:
        if isinstance(key, CreateCandidate):
            looked[key.ident] += 1
        return await reconcile(self, key)

    monkeypatch.setattr(CandidateWriter, "reconcile", noting)
    # One request at a time to each target.
    async with opened(max_in_flight=2) as at:
        for relay in at.relays.values():
            relay.freeze(lambda asked, path: asked == "POST" and path.endswith("/podchaperons"))
        await at.pods("one", "two")
        await until(lambda: len(looked) == 4)
        await asyncio.sleep(1.5)
        assert set(looked.values()) == {1}
        for relay in at.relays.values():
            relay.mend()
        assert (await at.settled(2)).keys() == {"one", "two"}
