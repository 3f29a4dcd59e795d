"""Volume claims follow into one target, and pods stay in the target with their data."""

import asyncio
import contextlib
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import EVENTS, LEASES, PERSISTENT_VOLUME_CLAIMS, PODS, TARGETS, Kind
from agent.base.clock import SystemClock, micro_stamp
from agent.dependencies.follow import FollowController
from agent.dependencies.follow.claims import Elsewhere
from agent.kube.errors import NotFound
from agent.kube.store import Object
from agent.targets.target import TargetController
from tests.controllers.dependencies.test_follow import STILL_SECONDS, told
from tests.controllers.leading import leading
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CLAIMS = PERSISTENT_VOLUME_CLAIMS
VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
SPEC: Raw = {
    "accessModes": ["ReadWriteMany"],
    "resources": {"requests": {"storage": "1Gi"}},
    "storageClassName": "none",
}
DATA = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


async def mark(pair: Pair) -> str | None:
    """Return the target that the claim records for its volume; None if none."""
    found = await pair.here.get(CLAIMS, "data", pair.namespace)
    return (found["metadata"].get("annotations") or {}).get(names.ANNOTATION_VOLUME_IN)


async def marked(pair: Pair, target: str | None) -> None:
    node = names.virtual_node(pair.namespace, target) if target else None

    async def probe() -> bool:
        return await mark(pair) == node

    await until(probe)


async def bind(pair: Pair) -> None:
    """Create a volume for the claim in the target; the target's own controllers bind it."""
    volume = {
        "metadata": {"name": pair.namespace},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "none",
            "hostPath": {"path": "/none"},
            "claimRef": {"namespace": pair.namespace, "name": "data"},
        },
    }
    await pair.there.create(VOLUMES, volume)
    await pair.copy(CLAIMS, "data", lambda copy: copy["status"]["phase"] == "Bound")


async def test_a_claim_is_created_in_the_target_of_its_pod_and_says_so(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", volumes=DATA)
        copy = await pair.copy(CLAIMS, "data")
        assert {field: copy["spec"][field] for field in SPEC} == SPEC
        await marked(pair, "eu")
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)


async def test_a_volume_stays_with_all_pods_gone_and_goes_with_its_claim(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", volumes=DATA)
        await bind(pair)
        assert pair.deps is not None
        deps, proxy = pair.deps, Object(PODS, msgspec.json.encode(pod))
        await until(lambda: deps.prerequisites.places(proxy) == {"data": target.node_name})
        await pair.end("web")
        await asyncio.sleep(STILL_SECONDS)
        await pair.copy(CLAIMS, "data")
        await marked(pair, "eu")
        assert deps.prerequisites.places(proxy) == {"data": target.node_name}
        await pair.here.patch(CLAIMS, "data", {"metadata": {"finalizers": None}}, pair.namespace)
        await pair.here.delete(CLAIMS, "data", pair.namespace)
        await pair.gone(CLAIMS, "data")
    await pair.there.delete(VOLUMES, pair.namespace)


async def test_a_claim_without_a_volume_goes_with_its_last_pod(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=DATA)
        await pair.copy(CLAIMS, "data")
        await pair.end("web")
        await pair.gone(CLAIMS, "data")
        await marked(pair, None)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_claim_that_was_bound_without_our_seeing_it_keeps_its_volume(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with Relay.started(pair.connection) as relay, pair.at_work(FollowController, connection=relay.connection):
        await pair.pod("web", volumes=DATA)
        await pair.copy(CLAIMS, "data")
        await marked(pair, "eu")
        relay.mute_watches()
        await bind(pair)
        await pair.end("web")
        await until(lambda: any(method == "DELETE" for method, _ in relay.requests))
        relay.speak()
        await asyncio.sleep(STILL_SECONDS)
        assert "deletionTimestamp" not in (await pair.copy(CLAIMS, "data"))["metadata"]
        await marked(pair, "eu")
        await pair.here.patch(CLAIMS, "data", {"metadata": {"finalizers": None}}, pair.namespace)
        await pair.here.delete(CLAIMS, "data", pair.namespace)
        await pair.gone(CLAIMS, "data")
    await pair.there.delete(VOLUMES, pair.namespace)


async def made_again(pair: Pair) -> str:
    """Delete the claim, recreate it with the same name, and return the new UID."""
    await pair.here.delete(CLAIMS, "data", pair.namespace)
    with contextlib.suppress(NotFound):
        await pair.here.patch(CLAIMS, "data", {"metadata": {"finalizers": None}}, pair.namespace)
    await gone(lambda: pair.here.get(CLAIMS, "data", pair.namespace))
    return str((await pair.create(CLAIMS, "data", spec=SPEC))["metadata"]["uid"])


async def test_pods_of_a_claim_made_again_do_not_find_the_data_of_the_old_one(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=DATA)
        await pair.copy(CLAIMS, "data")
    uid = await made_again(pair)
    async with pair.at_work(FollowController):
        await pair.copy(CLAIMS, "data", lambda copy: copy["metadata"]["labels"][names.LABEL_PARENT_UID] == uid)
        await marked(pair, "eu")


async def test_a_volume_goes_although_its_claim_was_made_again(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=DATA)
        await bind(pair)
    await pair.end("web")
    await made_again(pair)
    async with pair.at_work(FollowController):
        await pair.gone(CLAIMS, "data")
    await pair.there.delete(VOLUMES, pair.namespace)


async def deleted_unseen(pair: Pair) -> None:
    """Delete the claim while no agent runs."""
    await pair.end("web")
    await pair.here.patch(CLAIMS, "data", {"metadata": {"finalizers": None}}, pair.namespace)
    await pair.here.delete(CLAIMS, "data", pair.namespace)
    await gone(lambda: pair.here.get(CLAIMS, "data", pair.namespace))


def is_marked(copy: Raw) -> bool:
    """Return whether a claim in the target records since when it has no original."""
    return names.ANNOTATION_ORPHANED_SINCE in (copy["metadata"].get("annotations") or {})


async def test_data_of_a_claim_that_nobody_saw_going_stay_for_a_while_across_restarts(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    async with running(pair.clusters[0], TargetController, FollowController):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await pair.pod("web", volumes=DATA)
        await bind(pair)
    await deleted_unseen(pair)
    async with running(pair.clusters[0], TargetController, FollowController):
        copy = await pair.copy(CLAIMS, "data", is_marked)
        message = await told(pair, "Target", "eu", "has no such claim any more")
        assert f"{names.ANNOTATION_VOLUME_IN}: {names.virtual_node(pair.namespace, 'eu')}" in message
    async with running(pair.clusters[0], TargetController, FollowController):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await asyncio.sleep(STILL_SECONDS)
        again = await pair.copy(CLAIMS, "data")
        assert again["metadata"] == copy["metadata"]
    async with running(pair.clusters[0], TargetController, FollowController, orphaned_claim_delay=1.0):
        await pair.gone(CLAIMS, "data")
    await pair.there.delete(VOLUMES, pair.namespace)


async def test_whoever_makes_the_claim_again_in_time_and_says_where_its_data_are_has_them(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController) as target:
        await pair.pod("web", volumes=DATA)
        await bind(pair)
    await deleted_unseen(pair)
    async with pair.at_work(FollowController):
        copy = await pair.copy(CLAIMS, "data", is_marked)
        annotations = {names.ANNOTATION_VOLUME_IN: target.node_name}
        await pair.create(CLAIMS, "data", spec=SPEC, metadata={"annotations": annotations})
        await pair.pod("web", volumes=DATA)
        kept = await pair.copy(CLAIMS, "data", lambda found: not is_marked(found))
        assert kept["metadata"]["uid"] == copy["metadata"]["uid"]
    await pair.there.delete(VOLUMES, pair.namespace)


async def test_a_claim_made_again_after_it_was_forgotten_does_not_begin_empty_by_itself(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    # The lease as restored from a backup: renewed before the claim was created in the target.
    renewed = micro_stamp(SystemClock().now() - timedelta(minutes=10))
    spec = {"holderIdentity": "one", "leaseDurationSeconds": 1, "renewTime": renewed}
    await pair.here.create(LEASES, {"metadata": {"name": "leader"}, "spec": spec}, pair.namespace)
    async with pair.at_work(FollowController) as target:
        await pair.pod("web", volumes=DATA)
        await bind(pair)
    await pair.end("web")
    await made_again(pair)
    async with leading(pair, "two") as lease, pair.at_work(FollowController, lease=lease):
        await pair.copy(CLAIMS, "data", is_marked)
        await pair.pod("web", volumes=DATA)
        message = await told(pair, "Pod", "web", "that this cluster has forgotten")
        assert f"{names.ANNOTATION_VOLUME_IN}={target.node_name}" in message
        await pair.copy(CLAIMS, "data", is_marked)
    await pair.there.delete(VOLUMES, pair.namespace)


async def test_pods_of_one_claim_go_to_one_target(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(FollowController) as eu:
        us = await pair.connect("us")
        assert pair.deps is not None
        one = await pair.pod("one", volumes=DATA)
        await marked(pair, "eu")
        assert pair.deps.prerequisites.places(Object(PODS, msgspec.json.encode(one))) == {}
        two = await pair.pod("two", target="us", volumes=DATA)
        proxies = pair.deps.proxies.informer
        await until(lambda: proxies.store.get((pair.namespace, "two")))
        with pytest.raises(Elsewhere, match=eu.node_name):
            await pair.deps.prerequisites.ensure(two, us)
        assert pair.deps.prerequisites.places(Object(PODS, msgspec.json.encode(two))) == {"data": eu.node_name}
        await pair.end("one")
        await marked(pair, "us")


async def test_somebody_elses_claim_of_that_name_is_the_one_to_use(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    made = await pair.there.create(CLAIMS, {"metadata": {"name": "data"}, "spec": SPEC}, pair.namespace)
    async with pair.at_work(FollowController) as target:
        pod = await pair.pod("web", volumes=DATA)
        assert pair.deps is not None
        await pair.deps.prerequisites.ensure(pod, target)
        await asyncio.sleep(STILL_SECONDS)
        assert await mark(pair) is None
        found = await pair.there.get(CLAIMS, "data", pair.namespace)
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert await pair.here.list(EVENTS, pair.namespace, fields="reason=FollowBlocked") == []


async def test_a_claim_whose_volume_is_here_does_not_begin_empty_there(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec={**SPEC, "volumeName": "of-this-cluster"})
    async with pair.at_work(FollowController) as target:
        await pair.pod("web", volumes=DATA)
        assert names.ANNOTATION_VOLUME_IN in await told(pair, "Pod", "web", "bound to a volume")
        assert await pair.no_copy(CLAIMS, "data")
        body = {"metadata": {"annotations": {names.ANNOTATION_VOLUME_IN: target.node_name}}}
        await pair.here.patch(CLAIMS, "data", body, pair.namespace)
        copy = await pair.copy(CLAIMS, "data")
        assert "volumeName" not in copy["spec"]


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_storage_classes_are_those_of_the_target_and_a_volume_does_not_hold_its_target(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec={**SPEC, "storageClassName": "fast"})
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    annotations = {names.SHORT_PREFIX + names.STORAGE_CLASSES: "fast=none"}
    await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)
    async with running(pair.clusters[0], TargetController, FollowController, follow_linger=0.5, release_after=600.0):
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        await pair.pod("web", volumes=DATA)
        copy = await pair.copy(CLAIMS, "data")
        assert copy["spec"]["storageClassName"] == "none"
        await bind(pair)
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        await gone(lambda: pair.here.get(TARGETS, "eu", pair.namespace))
        await pair.copy(CLAIMS, "data")
    await pair.there.delete(VOLUMES, pair.namespace)
