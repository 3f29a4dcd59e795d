"""Claims whose volume is in a target become Bound in the source, too, by Kubernetes' own controller."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUMES, PODS, Kind
from agent.dependencies.follow import FollowController
from agent.dependencies.placeholder_volumes import PlaceholderVolumeController, controller
from agent.kube.errors import NotFound
from agent.model.placeholder_volume import claim_uid, name_of
from tests.controllers.dependencies.test_follow import STILL_SECONDS
from tests.controllers.dependencies.test_follow_claims import CLAIMS, DATA, SPEC, bind, made_again
from tests.controllers.pair import Pair
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

CONTROLLERS = (FollowController, PlaceholderVolumeController)
CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
LATER = {"provisioner": "example.test/none", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": True}


@pytest.fixture(autouse=True)
async def _no_volume_is_left(pair: Pair) -> AsyncIterator[None]:
    yield
    with contextlib.suppress(NotFound):
        await pair.there.delete(PERSISTENT_VOLUMES, pair.namespace)
    await release(pair)
    for volume in await standing(pair):
        metadata = volume["metadata"]
        await pair.here.patch(PERSISTENT_VOLUMES, metadata["name"], {"metadata": {"finalizers": None}})
        with contextlib.suppress(NotFound):
            await pair.here.delete(PERSISTENT_VOLUMES, metadata["name"])


async def release(pair: Pair) -> None:
    """Delete the source's claim, even if it is in use."""
    with contextlib.suppress(NotFound):
        await pair.here.delete(CLAIMS, "data", pair.namespace)
        await pair.here.patch(CLAIMS, "data", {"metadata": {"finalizers": None}}, pair.namespace)


async def standing(pair: Pair) -> list[Raw]:
    """Return the placeholder volumes of this test's namespace."""
    found = await pair.here.list(PERSISTENT_VOLUMES, labels=names.LABEL_STAND_IN)
    return [volume for volume in found if volume["spec"]["claimRef"]["namespace"] == pair.namespace]


async def claim(pair: Pair, fits: Callable[[Raw], bool]) -> Raw:
    """Return the source's claim, once it fits."""

    async def probe() -> Raw | None:
        found = await pair.here.get(CLAIMS, "data", pair.namespace)
        return found if fits(found) else None

    return await until(probe) or {}


def is_bound(found: Raw) -> bool:
    """Return whether the claim is bound to its placeholder volume."""
    return bool(found["status"]["phase"] == "Bound" and found["spec"]["volumeName"] == name_of(found))


async def bound(pair: Pair) -> Raw:
    """Return the source's claim, once it is bound in both clusters."""
    await bind(pair)
    return await claim(pair, is_bound)


@contextlib.asynccontextmanager
async def storage_class(pair: Pair) -> AsyncIterator[str]:
    """Create a storage class in both clusters whose volumes are not provisioned before a pod has a node."""
    for client in (pair.here, pair.there):
        await client.create(CLASSES, {"metadata": {"name": pair.namespace}, **LATER})
    try:
        yield pair.namespace
    finally:
        for client in (pair.here, pair.there):
            await client.delete(CLASSES, pair.namespace)


async def test_a_claim_is_bound_here_once_it_is_bound_there_and_what_stands_for_it_goes_with_it(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(*CONTROLLERS) as target:
        await pair.pod("web", volumes=DATA)
        await pair.copy(CLAIMS, "data")
        assert await standing(pair) == []
        found = await bound(pair)
        assert found["status"]["capacity"] == {"storage": "1Gi"}
        assert found["status"]["accessModes"] == ["ReadWriteMany"]
        (volume,) = await standing(pair)
        assert volume["spec"]["csi"]["volumeHandle"].startswith(f"{target.node_name}/")
        await pair.end("web")
        await asyncio.sleep(STILL_SECONDS)
        assert await standing(pair), "it stays with its claim, as the volume there does"
        await release(pair)
        await gone(lambda: pair.here.get(PERSISTENT_VOLUMES, volume["metadata"]["name"]))
        await pair.gone(CLAIMS, "data")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_class_that_waits_for_the_first_consumer_and_one_of_an_annotation_do_not_keep_it_pending(
    pair: Pair,
) -> None:
    async with storage_class(pair) as name:
        spec = {field: value for field, value in SPEC.items() if field != "storageClassName"}
        annotations = {"volume.beta.kubernetes.io/storage-class": name}
        await pair.create(CLAIMS, "data", spec=spec, metadata={"annotations": annotations})
        async with pair.at_work(*CONTROLLERS):
            await pair.pod("web", volumes=DATA)
            copy = await pair.copy(CLAIMS, "data")
            assert copy["spec"]["storageClassName"] == name
            await there(pair, name)
            await claim(pair, is_bound)
            (volume,) = await standing(pair)
            assert volume["spec"]["storageClassName"] == name


async def there(pair: Pair, storage_class: str) -> None:
    """Create a volume in the target for the target's claim."""
    reference = {"namespace": pair.namespace, "name": "data"}
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "claimRef": reference}
    spec |= {"storageClassName": storage_class, "hostPath": {"path": "/none"}}
    await pair.there.create(PERSISTENT_VOLUMES, {"metadata": {"name": pair.namespace}, "spec": spec})


async def test_what_stands_for_a_volume_goes_although_nobody_saw_its_claim_going(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(*CONTROLLERS):
        await pair.pod("web", volumes=DATA)
        old = name_of(await bound(pair))
    await pair.end("web")
    again = await made_again(pair)
    async with pair.at_work(*CONTROLLERS):
        await gone(lambda: pair.here.get(PERSISTENT_VOLUMES, old))
        assert [claim_uid(volume) for volume in await standing(pair)] in ([], [again])


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_pod_of_this_cluster_has_the_first_word_and_is_kept_off_afterwards(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_RECHECK_SECONDS", 0.2)
    home = {"containers": [{"name": "main", "image": "busybox"}], "volumes": DATA}
    async with storage_class(pair) as name:
        await pair.create(CLAIMS, "data", spec={**SPEC, "storageClassName": name})
        waits = {**home, "schedulingGates": [{"name": "example.test/wait"}]}
        await pair.here.create(PODS, {"metadata": {"name": "home"}, "spec": waits}, pair.namespace)
        async with pair.at_work(*CONTROLLERS):
            await pair.pod("web", volumes=DATA)
            await pair.copy(CLAIMS, "data")
            await there(pair, name)
            await pair.copy(CLAIMS, "data", lambda copy: copy["status"]["phase"] == "Bound")
            await asyncio.sleep(STILL_SECONDS)
            assert await standing(pair) == []
            await pair.here.delete(PODS, "home", pair.namespace, grace=0)
            await claim(pair, is_bound)
            await pair.here.create(PODS, {"metadata": {"name": "late"}, "spec": home}, pair.namespace)

            async def refused() -> bool:
                conditions = (await pair.here.get(PODS, "late", pair.namespace))["status"].get("conditions") or ()
                return any("PersistentVolume's node affinity" in (each.get("message") or "") for each in conditions)

            await until(refused, what="the scheduler gives no node of this cluster to a pod with the claim")
            await pair.here.delete(PODS, "late", pair.namespace, grace=0)


@pytest.mark.parametrize("by", ["setting", "annotation", "selected node"])
async def test_whoever_does_not_want_it_has_the_claim_pending(pair: Pair, by: str) -> None:
    annotations = {
        "setting": {},
        "annotation": {"multicluster/stand-in": "false"},
        "selected node": {"volume.kubernetes.io/selected-node": "worker"},
    }[by]
    await pair.create(CLAIMS, "data", spec=SPEC, metadata={"annotations": annotations})
    async with pair.at_work(*CONTROLLERS, stand_in_volumes=by != "setting"):
        await pair.pod("web", volumes=DATA)
        await bind(pair)
        await asyncio.sleep(STILL_SECONDS)
        assert await standing(pair) == []
        assert (await pair.here.get(CLAIMS, "data", pair.namespace))["status"]["phase"] == "Pending"


async def test_data_that_begin_in_another_target_are_stood_for_as_well(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(*CONTROLLERS):
        us = await pair.connect("us")
        await pair.pod("web", volumes=DATA)
        await bound(pair)
        (old,) = await standing(pair)
        body = {"metadata": {"annotations": {names.ANNOTATION_VOLUME_IN: us.node_name}}}
        await pair.here.patch(CLAIMS, "data", body, pair.namespace)

        async def replaced() -> bool:
            return [volume["metadata"]["uid"] for volume in await standing(pair)] not in ([], [old["metadata"]["uid"]])

        await until(replaced)
        (new,) = await standing(pair)
        assert new["spec"]["csi"]["volumeHandle"].startswith(f"{us.node_name}/")
        await claim(pair, is_bound)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_was_taken_away_by_force_comes_back_and_the_claim_is_bound_again(pair: Pair) -> None:
    await pair.create(CLAIMS, "data", spec=SPEC)
    async with pair.at_work(*CONTROLLERS):
        await pair.pod("web", volumes=DATA)
        name = name_of(await bound(pair))
        await pair.here.delete(PERSISTENT_VOLUMES, name)
        await pair.here.patch(PERSISTENT_VOLUMES, name, {"metadata": {"finalizers": None}})
        await until(lambda: standing(pair))
        await claim(pair, is_bound)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_claim_that_grows_has_grown_once_its_volume_has(pair: Pair) -> None:
    async with storage_class(pair) as name:
        await pair.create(CLAIMS, "data", spec={**SPEC, "storageClassName": name})
        async with pair.at_work(*CONTROLLERS):
            await pair.pod("web", volumes=DATA)
            await pair.copy(CLAIMS, "data")
            await there(pair, name)
            await claim(pair, is_bound)
            more = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
            await pair.here.patch(CLAIMS, "data", more, pair.namespace)
            await pair.copy(CLAIMS, "data", lambda copy: copy["spec"]["resources"]["requests"]["storage"] == "2Gi")
            # The test plays the external resizer of the target.
            capacity = {"capacity": {"storage": "2Gi"}}
            await pair.there.patch(PERSISTENT_VOLUMES, pair.namespace, {"spec": capacity})
            await pair.there.patch(CLAIMS, "data", {"status": capacity}, pair.namespace, sub="status")
            await claim(pair, lambda found: found["status"]["capacity"] == capacity["capacity"])
            (volume,) = await standing(pair)
            assert volume["spec"]["capacity"] == capacity["capacity"]
