"""Objects that a source lost when its etcd was restored from a backup are kept in its targets."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, EVENTS, NAMESPACES, PODS, TARGETS
from agent.pods.feedback.controller import Feedback
from agent.pods.orphans import OrphansController
from agent.targets.target import TargetController
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.backup import back_up, restore
from tests.controllers.leading import TIMES, leading
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (TargetController, Feedback, OrphansController)
FEW, MANY = 3, 15
STILL_SECONDS = 5.0


async def chaperon(pair: Pair, cluster_uid: str, pod: Raw) -> None:
    """Create the chaperon of a proxy pod in the target, as the agent does."""
    metadata = pod["metadata"]
    labels = {names.LABEL_PARENT_UID: metadata["uid"], names.LABEL_PARENT_CLUSTER_UID: cluster_uid}
    made = {
        "name": names.chaperon(metadata["name"], metadata["uid"]),
        "labels": labels,
        "annotations": {names.ANNOTATION_PARENT_NAME: metadata["name"]},
    }
    head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
    await pair.there.create(CHAPERONS, {**head, "metadata": made, "spec": {"containers": []}}, pair.namespace)


async def parents(pair: Pair) -> set[str]:
    """Return the names of pods whose chaperons exist in the target and are not being deleted."""
    found = await pair.there.list(CHAPERONS, pair.namespace)
    live = [each["metadata"] for each in found if "deletionTimestamp" not in each["metadata"]]
    return {metadata["annotations"][names.ANNOTATION_PARENT_NAME] for metadata in live}


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_a_restored_source_has_forgotten_is_held_until_a_person_says_so(
    two_clusters: Sandbox, pair: Pair
) -> None:
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    forgotten = {f"forgotten-{number}" for number in range(FEW)}
    async with leading(pair, "one") as lease, running(pair.clusters[0], *CONTROLLERS, lease=lease) as deps:
        uid = deps.cluster_uid
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await chaperon(pair, uid, await pair.pod("known"))
        backup = await back_up(two_clusters, "here")
        # A leader in this backup may have worked until then, and creationTimestamps have whole seconds.
        await asyncio.sleep(TIMES.duration + 2)
        for name in forgotten:
            await chaperon(pair, uid, await pair.pod(name))
        await restore(two_clusters, "here", backup)
        held = await condition(pair.here, pair.namespace, "eu", "OrphansDeleted", "False", "OrphansHeld")
        assert f"{FEW} of {FEW + 1} pod chaperons" in held["message"]
        assert {pod["metadata"]["name"] for pod in await pair.here.list(PODS, pair.namespace)} == {"known"}
        assert await parents(pair) == {"known", *forgotten}
        # A pod that a user deletes meanwhile is deleted as usual.
        await chaperon(pair, uid, await pair.pod("later"))
        await pair.here.delete(PODS, "later", pair.namespace)
        await gone(lambda: pair.here.get(PODS, "later", pair.namespace))
        assert await parents(pair) == {"known", *forgotten}
        # A new pod of the same name replaces it, as a pod of a StatefulSet does.
        await pair.pod("forgotten-0")
        forgotten.remove("forgotten-0")

        async def replaced() -> bool:
            return await parents(pair) == {"known", *forgotten}

        await until(replaced)
    async with leading(pair, "two") as lease, running(pair.clusters[0], *CONTROLLERS, lease=lease):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await asyncio.sleep(STILL_SECONDS)
        assert await parents(pair) == {"known", *forgotten}
        held = await condition(pair.here, pair.namespace, "eu", "OrphansDeleted", "False", "OrphansHeld")
        events = await pair.here.list(EVENTS, pair.namespace, fields="reason=OrphansHeld")
        assert len({event["message"] for event in events}) == 1
        key, _, token = held["message"].rpartition(" ")[2].partition("=")
        assert key == names.SHORT_PREFIX + names.DELETE_ORPHANS
        for value in ("true", token):
            annotations = {key: value}
            await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)
            if value != token:
                await asyncio.sleep(STILL_SECONDS)
                assert await parents(pair) == {"known", *forgotten}

        async def only_known() -> bool:
            return await parents(pair) == {"known"}

        await until(only_known)
        await condition(pair.here, pair.namespace, "eu", "OrphansDeleted", "True")


async def test_orphans_that_were_not_forgotten_go_however_many(pair: Pair) -> None:
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    uid = (await pair.here.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    async with leading(pair, "one"):
        for number in range(MANY):
            await chaperon(pair, uid, {"metadata": {"name": f"gone-{number}", "uid": f"uid-{number}"}})
    async with leading(pair, "two") as lease, running(pair.clusters[0], *CONTROLLERS, lease=lease):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")

        async def none_left() -> bool:
            return not await parents(pair)

        await until(none_left)
        target = await pair.here.get(TARGETS, "eu", pair.namespace)
        assert "OrphansDeleted" not in {each["type"] for each in target["status"]["conditions"]}
