"""Delegates that a user deletes in their target: Services of the source stop routing traffic to them."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import CHAPERONS, ENDPOINT_SLICES, PODS, SERVICES
from agent.clusters.target import Target
from agent.model.terminating import REASON
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.scheduler.controller import ProxyScheduler
from tests.controllers import byhand
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, create, elected
from tests.controllers.starting import running
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

READY = [{"type": "Ready", "status": "True"}]
ADDRESS = "10.2.0.9"


@contextlib.asynccontextmanager
async def at_work(pair: Pair) -> AsyncIterator[Target]:
    """Run the controllers of both clusters."""
    async with (
        running(pair.clusters[1], Chaperon),
        running(pair.clusters[0], Feedback, ProxyScheduler) as deps,
        connected(deps, pair.here, pair.namespace, eu=pair.connection) as targets,
    ):
        yield targets["eu"]


async def serving(pair: Pair, target: Target, name: str, **spec: Any) -> str:
    """Create a proxy pod behind a Service; return the name of its delegate, which ends when the test ends it."""
    await pair.create(SERVICES, name, spec={"selector": {"app": name}, "ports": [{"port": 80}]})
    made = await create(pair.here, elected(name, pair.namespace, **byhand.NOBODYS, **spec), [target])
    found = names.chaperon(name, made["metadata"]["uid"])
    await byhand.start(pair.there, pair.namespace, found)
    status = {"podIP": ADDRESS, "podIPs": [{"ip": ADDRESS}], "conditions": READY}
    await pair.there.patch(PODS, found, {"status": status}, pair.namespace, sub="status")
    await until(lambda: endpoint(pair, name, ready=True), what="the source routes to it")
    return found


async def endpoint(pair: Pair, name: str, **conditions: bool) -> bool:
    """Return whether the source's own EndpointSlices have a pod with these conditions."""
    slices = await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=f"{names.LABEL_SERVICE_NAME}={name}")
    found = [each for slice in slices for each in slice.get("endpoints") or ()]
    return any(conditions.items() <= each["conditions"].items() for each in found)


async def test_services_of_the_source_stop_routing_to_a_delegate_that_its_target_deletes(pair: Pair) -> None:
    async with at_work(pair) as target:
        # kube-proxy falls back to terminating endpoints, which therefore have to stay `serving`.
        terminates = {"ready": False, "serving": True, "terminating": True}
        for kind, name in ((PODS, "served"), (CHAPERONS, "unowned")):
            found = await serving(pair, target, name)
            await pair.there.delete(kind, found, pair.namespace, propagation="Foreground")
            await until(lambda name=name: endpoint(pair, name, **terminates), what="it terminates")  # type: ignore[misc]
            await byhand.remove(pair.there, pair.namespace, found)
            await gone(lambda name=name: pair.here.get(PODS, name, pair.namespace))  # type: ignore[misc]


async def test_a_pod_that_may_yet_end_well_is_not_ready_while_its_delegate_terminates(pair: Pair) -> None:
    async with at_work(pair) as target:
        for kind, name in ((PODS, "job"), (CHAPERONS, "unowned")):
            found = await serving(pair, target, name, restartPolicy="Never")
            await pair.there.delete(kind, found, pair.namespace, propagation="Foreground")
            await until(lambda name=name: endpoint(pair, name, ready=False, terminating=False))  # type: ignore[misc]
            pod = await pair.here.get(PODS, name, pair.namespace)
            assert (condition_of(pod, "Ready") or {})["reason"] == REASON
            assert pod["status"]["phase"] == "Running"
            assert pod["status"]["podIP"] == ADDRESS
            await byhand.say(pair.there, pair.namespace, found, "Succeeded", 0)
            await until(lambda name=name: _has_ended(pair, name))  # type: ignore[misc]
            await byhand.remove(pair.there, pair.namespace, found)


async def _has_ended(pair: Pair, name: str) -> bool:
    return bool((await pair.here.get(PODS, name, pair.namespace))["status"]["phase"] == "Succeeded")
