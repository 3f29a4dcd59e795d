"""A claim that a volume of the source could satisfy does not follow, and its pods report why."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUMES, PODS
from agent.cli.explaining import volumes
from agent.dependencies.follow import FollowController
from agent.kube.errors import NotFound
from agent.kube.store import Object
from tests.controllers.dependencies.test_follow import told
from tests.controllers.dependencies.test_follow_claims import CLAIMS, DATA, SPEC, marked
from tests.controllers.dependencies.test_standins import CLASSES, LATER, release
from tests.controllers.pair import Pair

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
LOCAL = {**LATER, "provisioner": "kubernetes.io/no-provisioner"}


@contextlib.asynccontextmanager
async def volume(pair: Pair) -> AsyncIterator[str]:
    """Create a volume in the source, in a storage class of its own, as an administrator does."""
    spec = {"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/none"}}
    spec["storageClassName"] = pair.namespace
    await pair.here.create(PERSISTENT_VOLUMES, {"metadata": {"name": pair.namespace}, "spec": spec})
    try:
        yield pair.namespace
    finally:
        await release(pair)
        with contextlib.suppress(NotFound):
            await pair.here.delete(PERSISTENT_VOLUMES, pair.namespace)


async def test_a_claim_that_is_bound_at_once_or_about_to_be_does_not_follow(pair: Pair) -> None:
    async with pair.at_work(FollowController), volume(pair) as name:
        await pair.create(CLAIMS, "data", spec={**SPEC, "storageClassName": name})
        await pair.pod("web", volumes=DATA)
        message = await told(pair, "Pod", "web", "volume")
        assert "of this cluster, whose data target eu does not have" in message
        assert names.ANNOTATION_VOLUME_IN in message
        await marked(pair, None)
        assert await pair.no_copy(CLAIMS, "data")


async def test_a_volume_that_waits_for_a_pod_is_named_until_it_is_gone_or_the_claim_may_begin_empty(pair: Pair) -> None:
    await pair.here.create(CLASSES, {"metadata": {"name": pair.namespace}, **LOCAL})
    try:
        async with pair.at_work(FollowController) as target, volume(pair) as name:
            spec = {field: value for field, value in SPEC.items() if field != "storageClassName"}
            annotations = {"volume.beta.kubernetes.io/storage-class": name}
            await pair.create(CLAIMS, "data", spec=spec, metadata={"annotations": annotations})
            pod = Object(PODS, msgspec.json.encode(await pair.pod("web", volumes=DATA)))
            message = await told(pair, "Pod", "web", f"could have volume {name} of this cluster")
            assert f'{names.SHORT_PREFIX}{names.ELECT}: "false"' in message
            notes: list[str] = []
            assert await volumes.promised(pair.here, pod, notes) == {}
            assert notes[0].startswith(f"claim data could have volume {name} of this cluster, and does not follow")
            assert await pair.no_copy(CLAIMS, "data")
            body = {"metadata": {"annotations": {names.ANNOTATION_VOLUME_IN: target.node_name}}}
            await pair.here.patch(CLAIMS, "data", body, pair.namespace)
            assert (await pair.copy(CLAIMS, "data"))["spec"]["storageClassName"] == name
    finally:
        await pair.here.delete(CLASSES, pair.namespace)


async def test_a_claim_follows_once_no_volume_of_this_cluster_fits_it_any_more(pair: Pair) -> None:
    await pair.here.create(CLASSES, {"metadata": {"name": pair.namespace}, **LOCAL})
    try:
        async with pair.at_work(FollowController), volume(pair) as name:
            await pair.create(CLAIMS, "data", spec={**SPEC, "storageClassName": name})
            await pair.pod("web", volumes=DATA)
            await told(pair, "PersistentVolumeClaim", "data", f"could have volume {name}")
            await pair.here.delete(PERSISTENT_VOLUMES, name)
            await pair.copy(CLAIMS, "data")
    finally:
        await pair.here.delete(CLASSES, pair.namespace)
