"""No pod is lost if a target's garbage collector deletes a PodChaperon before its delegate."""

import contextlib
import signal
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import CHAPERONS, PODS
from tests.e2e import manifests
from tests.e2e.faults.overlaps import none_overlap
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import STATEFULSETS

pytestmark = pytest.mark.full("Injects a fault besides those that promises 5 to 8 keep in the first tier.")

COLLECTOR = "kube-controller-manager"


@contextlib.asynccontextmanager
async def standing_still(fleet: Fleet, cluster: str, process: str) -> AsyncIterator[None]:
    """Stop a process of a cluster with SIGSTOP during the block."""
    await fleet.sandbox.kill(cluster, process, signal.SIGSTOP)
    try:
        yield
    finally:
        await fleet.sandbox.kill(cluster, process, signal.SIGCONT)


async def a_pod_comes_and_goes(fleet: Fleet, namespace: str) -> None:
    """Create and delete a pod in another target. Afterwards, earlier events of all other pods have been
    handled."""
    await fleet.source.create(PODS, manifests.pod("other"), namespace)
    await fleet.running(namespace, "other", 1)
    await fleet.source.delete(PODS, "other", namespace)
    await fleet.gone(PODS, "other", namespace)


async def test_a_stateful_pod_whose_chaperon_is_gone_before_its_delegate_never_runs_twice(fleet: Fleet) -> None:
    async with (
        fleet.namespace(("us",)) as namespace,
        fleet.namespace(("eu",)) as elsewhere,
        none_overlap(fleet, namespace),
    ):
        await fleet.source.create(STATEFULSETS, manifests.stateful_set("web", 1), namespace)
        (before,) = await fleet.running(namespace, "web", 1)
        us, uid = fleet.clients["us"], before["metadata"]["uid"]
        _, delegate = (await fleet.delegates(namespace))[uid]
        name = delegate["metadata"]["name"]
        async with standing_still(fleet, "us", COLLECTOR):
            await fleet.source.delete(PODS, "web-0", namespace)

            async def is_ending() -> bool:
                return "deletionTimestamp" in (await us.get(CHAPERONS, name, namespace))["metadata"]

            await fleet.until("its PodChaperon is being deleted", is_ending, about=namespace)
            await us.patch(CHAPERONS, name, {"metadata": {"finalizers": None}}, namespace)
            await fleet.gone(CHAPERONS, name, namespace, source="us")
            await a_pod_comes_and_goes(fleet, elsewhere)
            kept = await fleet.source.get(PODS, "web-0", namespace)
            assert kept["metadata"]["uid"] == uid, "the pod was let go of while its delegate runs"
            await us.get(PODS, name, namespace)

        async def another() -> bool:
            found = await fleet.running(namespace, "web", 1)
            return bool(found[0]["metadata"]["uid"] != uid)

        await fleet.until("another web-0 runs", another, about=namespace)
        await fleet.agree(namespace)
