"""A Target that is removed while its cluster, its Secret or its agent is unavailable, or just after."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, SECRETS, TARGETS
from agent.api.names import virtual_node
from agent.kube.client import Client
from agent.kube.config import load
from agent.pods.feedback.controller import Feedback
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.targets.target import TargetController, TargetSecretController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, secret, target, tear_away
from tests.controllers.targets.test_target import held, proxy
from tests.kube.relay import Relay
from tests.waiting import PATIENCE_SECONDS, gone, until


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    yield
    await tear_away(client, namespace)


async def test_it_is_asked_at_once_and_lets_go_of_its_pods(cluster: Cluster, client: Client, namespace: str) -> None:
    settings = {"release_after": 1.0, "probe_interval": 2 * PATIENCE_SECONDS}
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, TargetController, OrphanFinalizersController, **settings),
    ):
        await add(client, namespace, "c1", kubeconfig(cluster, server=relay.connection.server))
        await condition(client, namespace, "c1", "Ready", "True")
        await client.create(PODS, proxy("there", namespace, "c1", node=virtual_node(namespace, "c1")))
        relay.freeze()
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(PODS, "there", namespace))


async def test_it_stays_until_it_is_back_and_a_candidate_that_has_lost_there_is_gone(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, TargetController, OrphanFinalizersController, Feedback) as deps,
    ):
        await add(client, namespace, "c1", kubeconfig(cluster, server=relay.connection.server))
        await condition(client, namespace, "c1", "Ready", "True")
        # Its claim has left only the finalizer of another target on the pod, the one that runs it.
        await client.create(TARGETS, target("c2", namespace))
        pod = await client.create(PODS, proxy("there", namespace, "c2", node=virtual_node(namespace, "c2")))
        await client.create(CHAPERONS, loser(pod, deps.cluster_uid))
        await until(lambda: deps.chaperons.of((namespace, "there")))
        relay.cut()
        await condition(client, namespace, "c1", "Ready", "False", "Unreachable")
        await client.delete(TARGETS, "c1", namespace)
        found = await condition(client, namespace, "c1", "Drained", "False", "Unreachable")
        assert "it is removed when it is back and empty" in found["message"]
        relay.mend()
        await client.patch(PODS, "there", {"metadata": {"finalizers": None}}, namespace)
        await client.delete(PODS, "there", namespace, grace=0)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        assert await client.list(CHAPERONS, namespace) == []


async def test_it_is_drained_although_its_secret_was_deleted_with_it_while_no_agent_ran(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    controllers, seconds = (TargetSecretController, TargetController), 1.0
    async with running(cluster, *controllers, release_after=seconds):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        await until(lambda: held(client, SECRETS, namespace, "c1"))
    for kind in (SECRETS, TARGETS):
        await client.delete(kind, "c1", namespace)
    # deletionTimestamps have whole seconds.
    await asyncio.sleep(seconds + 1.0)
    async with running(cluster, *controllers, release_after=seconds):
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        await gone(lambda: client.get(SECRETS, "c1", namespace))


async def test_one_without_its_secret_says_so_and_is_drained_once_it_is_made_again(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, TargetController, TargetSecretController):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        await client.delete(SECRETS, "c1", namespace)
        await condition(client, namespace, "c1", "Ready", "False", "SecretNotFound")
        await client.create(PODS, proxy("there", namespace, "c1", node=virtual_node(namespace, "c1")))
        await client.delete(TARGETS, "c1", namespace)
        found = await condition(client, namespace, "c1", "Drained", "False", "Unreachable")
        assert f"Secret {namespace}/c1 does not exist: create it" in found["message"]
        await client.create(SECRETS, secret("c1", namespace, config=kubeconfig(cluster)))
        await client.patch(PODS, "there", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))


def loser(pod: dict[str, Any], cluster_uid: str) -> dict[str, Any]:
    """Return a candidate of a pod that has not been allowed to run."""
    labels = {names.LABEL_PARENT_UID: pod["metadata"]["uid"], names.LABEL_PARENT_CLUSTER_UID: cluster_uid}
    metadata = {
        "name": "loser",
        "namespace": pod["metadata"]["namespace"],
        "labels": labels,
        "annotations": {names.ANNOTATION_PARENT_NAME: pod["metadata"]["name"]},
    }
    spec = {"schedulerName": names.SCHEDULER_CANDIDATE, "containers": [{"name": "c", "image": "busybox"}]}
    return {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "metadata": metadata, "spec": spec}
