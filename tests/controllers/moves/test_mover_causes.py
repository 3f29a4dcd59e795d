"""Causes for which pods have to leave their target, derived from Targets and Placements of a real API server."""

from dataclasses import replace

import pytest

from agent.api import names
from agent.api.kinds import PLACEMENTS, PODS, TARGETS
from agent.api.names.ocm import MOVE, PLACEMENT, WHEN_UNPLACED
from agent.kube.client import Client, encode
from agent.kube.config import load
from agent.kube.store import Object
from agent.moves.mover import causes
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import connected
from tests.controllers.starting import running
from tests.controllers.target_links import target as of_itself
from tests.kube.relay import Relay
from tests.scheduler.test_placement import decide, place
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]


def follower(namespace: str, node: str) -> Object:
    """Return a running pod that follows the Placement `web`."""
    metadata = {"name": "web-0", "namespace": namespace, "uid": "web-0"}
    metadata |= {"annotations": {names.SHORT_PREFIX + PLACEMENT: "web"}}
    return Object(PODS, encode({"metadata": metadata, "spec": {"nodeName": node}}))


@pytest.mark.usefixtures("placement_kinds")
async def test_pods_of_a_target_that_is_back_stay_until_their_placement_may_have_decided_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    looked: list[str] = []
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, placement="consume") as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        eu = targets["eu"]
        await client.create(TARGETS, of_itself("eu", namespace))
        await client.patch(TARGETS, "eu", {"status": {"managedCluster": "eu"}}, namespace, sub="status")
        await place(client, namespace)
        await client.patch(PLACEMENTS, "web", {"metadata": {"annotations": {WHEN_UNPLACED: MOVE}}}, namespace)
        await decide(client, namespace, "us")
        patient, hasty = (
            causes.Causes(
                replace(deps, settings=replace(deps.settings, placement_grace=grace)),
                told,
                lambda _: None,
                lambda _: None,
            )
            for grace, told in ((600.0, lambda node: None), (0.1, looked.append))
        )
        pod = follower(namespace, eu.node_name)

        async def is_to_leave() -> bool:
            return hasty.of(pod, causes.Levels())[0] == "Placement"

        async def is_back() -> bool:
            return eu.ready

        async def is_away() -> bool:
            return not eu.ready

        await until(is_to_leave)
        relay.cut()
        await until(is_away)
        looked.clear()
        relay.mend()
        await until(is_back)
        assert patient.of(pod, causes.Levels()) == ("", "")
        await until(is_to_leave)

        async def looked_again() -> bool:
            return looked.count(eu.node_name) > 1

        await until(looked_again)
