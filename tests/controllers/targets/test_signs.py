"""Sources write heartbeats to targets, and detect other sources with their own UID."""

import contextlib
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, LEASES, SECRETS
from agent.kube.errors import NotFound
from agent.model import heartbeats
from agent.model.heartbeats import Sign
from agent.pods.feedback.controller import Feedback
from agent.pods.orphans import OrphansController
from agent.targets.heartbeats import HeartbeatController, HeartbeatPlaceController
from agent.targets.target import TargetController
from tests.controllers.leading import leading
from tests.controllers.pair import Pair
from tests.controllers.pods.test_orphans import chaperon
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (TargetController, HeartbeatController, Feedback, OrphansController)
OFTEN = {"sign_interval": 1.0}


async def an_agent(pair: Pair) -> None:
    """Create the leases that an agent in the target creates: its own, and the one for heartbeats of sources."""
    for name in (names.LEASE_CONTROLLERS, names.LEASE_SOURCES):
        await pair.there.create(LEASES, {"metadata": {"name": name}}, pair.namespace)


async def given(pair: Pair) -> dict[str, Sign]:
    """Return the heartbeats in the target, by UID."""
    lease = await pair.there.get(LEASES, names.LEASE_SOURCES, pair.namespace)
    return heartbeats.read(lease["metadata"].get("annotations"))


async def test_a_source_says_again_and_again_that_it_lives(pair: Pair) -> None:
    await an_agent(pair)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    async with running(pair.clusters[0], *CONTROLLERS, **OFTEN) as deps:

        async def sign() -> Sign | None:
            return (await given(pair)).get(deps.cluster_uid)

        first = await until(sign)
        assert first is not None
        assert first.name == "here"

        async def another() -> bool:
            now = await sign()
            assert now is not None
            assert now.holder == first.holder
            return now.seen > first.seen

        await until(another)
        target = await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        assert target["status"] == "True"


async def test_the_agent_of_a_target_makes_the_place_for_signs_beside_its_own_lease(pair: Pair) -> None:
    async with leading(pair, "one") as lease, running(pair.clusters[0], HeartbeatPlaceController, lease=lease):
        await until(lambda: pair.here.get(LEASES, names.LEASE_SOURCES, pair.namespace))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_two_clusters_with_one_uid_are_told_and_neither_deletes_what_is_the_others(pair: Pair) -> None:
    await an_agent(pair)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    async with contextlib.AsyncExitStack() as stack:
        # A cloned cluster has the UID and all objects of the original, as this second agent has.
        lease = await stack.enter_async_context(leading(pair, "one"))
        deps = await stack.enter_async_context(running(pair.clusters[0], *CONTROLLERS, lease=lease, **OFTEN))
        await until(lambda: given(pair))
        async with running(pair.clusters[0], TargetController, HeartbeatController, **OFTEN):
            told = await condition(pair.here, pair.namespace, "eu", "SourceUnique", "False", "TwinSource")
            assert "has the same UID" in told["message"]
            pod = {"metadata": {"name": "theirs", "uid": "uid-theirs"}}
            await chaperon(pair, deps.cluster_uid, pod)
            held = await condition(pair.here, pair.namespace, "eu", "OrphansDeleted", "False", "TwinSource")
            assert "1 of 1 pod chaperons" in held["message"]
            name = names.chaperon("theirs", "uid-theirs")
            assert "deletionTimestamp" not in (await pair.there.get(CHAPERONS, name, pair.namespace))["metadata"]
        # The other source has ended.
        await condition(pair.here, pair.namespace, "eu", "SourceUnique", "True")
        await gone(lambda: pair.there.get(CHAPERONS, name, pair.namespace))


async def test_where_there_is_no_place_for_signs_a_target_is_as_good_without(pair: Pair) -> None:
    await pair.there.create(LEASES, {"metadata": {"name": names.LEASE_CONTROLLERS}}, pair.namespace)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    async with running(pair.clusters[0], *CONTROLLERS, **OFTEN) as deps:
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        target = deps.targets.get((pair.namespace, "eu"))
        await until(lambda: target is not None and target.homes)
        with pytest.raises(NotFound):
            await pair.there.get(LEASES, names.LEASE_SOURCES, pair.namespace)
        assert await pair.here.get(SECRETS, "eu", pair.namespace)
