"""Delegates that their source wants in another target: they are deleted if they have no node, and kept otherwise."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS
from agent.api.names import givingup
from agent.base.clock import stamp
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.pods.chaperon.actions import DeletePod, LookAgain, PatchChaperon, PutStatus
from agent.pods.chaperon.controller import Chaperon
from agent.pods.chaperon.decide import ChaperonAndPod, decide
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_chaperon import chaperon as manifest
from tests.controllers.pods.test_chaperon import status
from tests.controllers.pods.test_chaperon_decide import JUST_BOUND, NOW, chaperon, outcome, pod
from tests.controllers.pods.test_chaperon_once import is_missing, notes
from tests.controllers.starting import running
from tests.waiting import until

GIVE_UP, MADE, SINCE = givingup.ANNOTATION_GIVE_UP, names.ANNOTATION_POD_MADE, names.ANNOTATION_POD_MISSING_SINCE
ASKED = {GIVE_UP: stamp(NOW)}
NO_NODE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
WAITS = {"phase": "Pending", "conditions": [NO_NODE]}
POLICIES = ["Always", "Never"]


def patched(**annotations: str | None) -> PatchChaperon:
    keys = {"give_up": GIVE_UP, "made": MADE}
    return PatchChaperon({"metadata": {"annotations": {keys[key]: value for key, value in annotations.items()}}})


def placed(state: dict[str, Any]) -> dict[str, Any]:
    return pod(state) | {"spec": {"nodeName": "one"}}


def test_one_without_a_node_is_deleted_and_that_it_was_made_is_taken_back_before() -> None:
    assert outcome(chaperon(WAITS, ASKED), pod(WAITS)) == [DeletePod()]
    once = chaperon(WAITS, ASKED | {MADE: "x"}, restartPolicy="Never")
    assert outcome(once, pod(WAITS)) == [patched(made=None), DeletePod()]


def test_one_that_goes_already_is_not_deleted_again_and_not_told_of_as_ending() -> None:
    going = pod(WAITS)
    going["metadata"] |= {"deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}
    assert outcome(chaperon(WAITS, ASKED), going) == []


@pytest.mark.parametrize("told", [WAITS, {}], ids=["waited", "nothing was told"])
def test_one_with_a_node_is_told_of_at_once_and_stays(told: dict[str, Any]) -> None:
    view = ChaperonAndPod(chaperon(told, ASKED), placed(JUST_BOUND), 60.0, silence=3.0)
    assert decide(view, NOW) == [PutStatus(JUST_BOUND), patched(give_up=None)]


def test_one_with_a_node_that_must_not_run_twice_is_recorded_again() -> None:
    asked = chaperon(JUST_BOUND, ASKED, restartPolicy="Never")
    assert outcome(asked, placed(JUST_BOUND)) == [patched(give_up=None, made=stamp(NOW))]
    recorded = chaperon(JUST_BOUND, ASKED | {MADE: "x"}, restartPolicy="Never")
    assert outcome(recorded, placed(JUST_BOUND)) == [patched(give_up=None)]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("told", [WAITS, {}], ids=["it is gone", "it was never made"])
def test_where_there_is_none_it_is_said_to_be_missing_and_none_is_made(policy: str, told: dict[str, Any]) -> None:
    (said,) = outcome(chaperon(told, ASKED, restartPolicy=policy))
    assert isinstance(said, PatchChaperon)
    assert (said.patch["metadata"]["annotations"], said.if_missing) == ({SINCE: stamp(NOW)}, True)
    long_ago = ASKED | {SINCE: "2020-01-01T00:00:00Z"}
    assert outcome(chaperon(told, long_ago, restartPolicy=policy)) == [LookAgain(3600)]


def test_of_a_record_of_which_no_pod_has_come_nothing_is_left() -> None:
    view = ChaperonAndPod(chaperon({}, ASKED | {MADE: "x"}, restartPolicy="Never"), None, 60.0, unmade=True)
    (said,) = decide(view, NOW)
    assert isinstance(said, PatchChaperon)
    assert said.patch["metadata"]["annotations"] == {SINCE: stamp(NOW), MADE: None}


async def ask(client: Client, namespace: str) -> None:
    await client.patch(CHAPERONS, "web", {"metadata": {"annotations": ASKED}}, namespace)


@pytest.mark.cluster
@pytest.mark.parametrize("policy", POLICIES)
async def test_one_that_waits_for_a_node_goes_and_is_missing_and_has_not_run(
    cluster: Cluster, client: Client, namespace: str, policy: str
) -> None:
    async with running(cluster, Chaperon, pod_missing=0.1):
        waits = manifest("web", restartPolicy=policy, nodeSelector={"flotilla.test/no": "node"})
        await client.create(CHAPERONS, waits, namespace)
        await status(client, namespace, "web", phase="Pending")
        await ask(client, namespace)
        await until(lambda: is_missing(client, namespace))
        assert MADE not in await notes(client, namespace)
        with pytest.raises(NotFound):
            await client.get(PODS, "web", namespace)


@pytest.mark.cluster
@pytest.mark.parametrize("policy", POLICIES)
async def test_one_that_has_a_node_runs_on(cluster: Cluster, client: Client, namespace: str, policy: str) -> None:
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, manifest("web", restartPolicy=policy), namespace)
        await status(client, namespace, "web", phase="Running" if policy == "Always" else "Succeeded")
        before = await client.get(PODS, "web", namespace)
        await ask(client, namespace)

        async def refused() -> bool:
            return GIVE_UP not in await notes(client, namespace)

        await until(refused)
        assert (MADE in await notes(client, namespace)) == (policy == "Never")
        assert (await client.get(PODS, "web", namespace))["metadata"]["uid"] == before["metadata"]["uid"]
