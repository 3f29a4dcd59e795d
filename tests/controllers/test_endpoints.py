"""Endpoints of a target that is slow to be read."""

import pytest

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.controllers.endpoints.controller import UNREAD_SECONDS, EndpointsRoom
from agent.kube.client import Client
from agent.kube.config import load
from agent.sandbox import Cluster
from tests.controllers.proxies import connected
from tests.controllers.rooms import running
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster


async def test_a_service_is_looked_at_again_while_the_slices_of_its_cluster_are_not_known(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with Relay.started(load(str(cluster.kubeconfig))) as relay, running(cluster) as deps:
        service = {
            "metadata": {
                "name": "web",
                "annotations": {names.ANNOTATION_GLOBAL: "true"},
                "labels": {names.LABEL_PARENT_CLUSTER_UID: deps.cluster_uid},
            },
            "spec": {"ports": [{"port": 80}]},
        }
        await client.create(SERVICES, service, namespace)
        room = EndpointsRoom(deps)
        relay.freeze(lambda method, path: path.endswith(ENDPOINT_SLICES.plural))
        async with connected(deps, client, namespace, far=relay.connection) as targets:
            key = (targets["far"].node_name, namespace, "web")
            assert await until(lambda: room.reconcile(key)) == UNREAD_SECONDS
