"""Delegates that must not run twice, and the status of missing ones, on a real API server."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, SERVICE_ACCOUNTS
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound, Unreachable
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.pods.chaperon.controller import Chaperon
from agent.pods.chaperon.once import Once
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_chaperon import chaperon, status
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


async def notes(client: Client, namespace: str) -> dict[str, str]:
    """Return the annotations of the chaperon."""
    found: dict[str, str] = (await client.get(CHAPERONS, "web", namespace))["metadata"].get("annotations") or {}
    return found


async def is_missing(client: Client, namespace: str) -> bool:
    return names.ANNOTATION_POD_MISSING_SINCE in await notes(client, namespace)


async def delegate(client: Client, namespace: str) -> Raw:
    return await client.get(PODS, "web", namespace)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
async def test_one_that_was_made_and_is_gone_while_no_agent_looked_is_missing_and_not_made_again(
    cluster: Cluster, client: Client, namespace: str, policy: str
) -> None:
    async with running(cluster, Chaperon):
        # Its status stays empty, since no scheduler handles it.
        await client.create(CHAPERONS, chaperon("web", restartPolicy=policy, schedulerName="nobody"), namespace)
        await until(lambda: delegate(client, namespace))
        assert names.ANNOTATION_POD_MADE in await notes(client, namespace)
    assert not (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("phase")
    await client.delete(PODS, "web", namespace, grace=0)
    async with running(cluster, Chaperon):
        await until(lambda: is_missing(client, namespace))
        await client.create(CHAPERONS, chaperon("later", schedulerName="nobody"), namespace)
        await until(lambda: client.get(PODS, "later", namespace))
        with pytest.raises(NotFound):
            await delegate(client, namespace)
        assert names.ANNOTATION_POD_MADE in await notes(client, namespace)


async def test_one_that_is_restarted_is_made_again_and_costs_no_write_more(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        made = await client.create(CHAPERONS, chaperon("web", schedulerName="nobody"), namespace)
        await until(lambda: delegate(client, namespace))
        assert (await client.get(CHAPERONS, "web", namespace))["metadata"]["resourceVersion"] == (
            made["metadata"]["resourceVersion"]
        )
    await client.delete(PODS, "web", namespace, grace=0)
    async with running(cluster, Chaperon):
        await until(lambda: delegate(client, namespace))


async def test_one_that_went_before_it_had_a_node_is_said_not_to_have_run(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon):
        manifest = chaperon("web", restartPolicy="Never", nodeSelector={"flotilla.test/no": "node"})
        await client.create(CHAPERONS, manifest, namespace)
        await status(client, namespace, "web", phase="Pending")
        assert names.ANNOTATION_POD_MADE in await notes(client, namespace)
        await client.delete(PODS, "web", namespace, grace=0)
        await until(lambda: is_missing(client, namespace))
        assert names.ANNOTATION_POD_MADE not in await notes(client, namespace)


async def test_one_that_was_refused_is_not_recorded_and_made_once_it_is_allowed_also_by_another_agent(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    manifest = chaperon("web", restartPolicy="Never", serviceAccountName="later")
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, manifest, namespace)
        await until(lambda: is_refused(client, namespace))
        refused = await client.get(CHAPERONS, "web", namespace)
        assert names.ANNOTATION_POD_MADE not in refused["metadata"]["annotations"]
    async with running(cluster, Chaperon):
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "later"}}, namespace)
        await until(lambda: delegate(client, namespace))
        assert names.ANNOTATION_POD_MADE in await notes(client, namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_one_that_goes_on_being_refused_costs_no_write(cluster: Cluster, client: Client, namespace: str) -> None:
    manifest = chaperon("web", restartPolicy="Never", serviceAccountName="nobodys")
    async with running(cluster, Chaperon):
        await client.create(CHAPERONS, manifest, namespace)
        await until(lambda: is_refused(client, namespace))
        before, refused = await client.get(CHAPERONS, "web", namespace), counted("POST", "403")
        await until(lambda: counted("POST", "403") >= refused + 2)
        after = await client.get(CHAPERONS, "web", namespace)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


class Deaf:
    """A client that loses the responses to its patches."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def patch_raw(self, *args: Any, **options: Any) -> bytes:
        await self._client.patch_raw(*args, **options)
        raise Unreachable("no answer")


@pytest.mark.parametrize("recorded_by", ["us", "another agent"])
async def test_that_a_pod_is_recorded_is_known_though_the_answer_was_lost(
    client: Client, namespace: str, recorded_by: str
) -> None:
    before = await client.create(CHAPERONS, chaperon("web", restartPolicy="Never"), namespace)
    chaperons, pods = Informer(client, CHAPERONS), Informer(client, PODS)
    ours, others = (Once(client, chaperons, pods) for _ in range(2))
    deaf = ours if recorded_by == "us" else others
    deaf._client = Deaf(client)
    with pytest.raises(Unreachable):
        await deaf.record(before, {})
    deaf._client = client
    with pytest.raises(Conflict):
        await ours.record(before, {})
    after = Object(CHAPERONS, await client.get_raw(CHAPERONS, "web", namespace))
    assert ours.is_unmade(after) == (recorded_by == "us")


async def is_refused(client: Client, namespace: str) -> bool:
    """Return whether the chaperon reports that its pod is refused."""
    found = (await client.get(CHAPERONS, "web", namespace)).get("status", {}).get("conditions") or ()
    return any(each["reason"] == "Refused" for each in found)


def counted(method: str, outcome: str) -> float:
    """Return the number of this process's requests for pods in its own cluster with this outcome."""
    labels = {"cluster": "local", "method": method, "resource": "pods", "outcome": outcome}
    return REGISTRY.get_sample_value("flotilla_api_requests_total", labels) or 0.0


async def test_a_pod_that_is_there_is_not_said_to_be_missing_on_the_word_of_an_old_store(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, Chaperon) as deps:
        await client.create(CHAPERONS, chaperon("web"), namespace)
        await status(client, namespace, "web", phase="Running")
        pods = deps.local.informer(PODS, labels=names.LABEL_PARENT_UID)
        # The cache of a process that was suspended while the pod was created.
        assert pods.store.remove((namespace, "web"))
        before = counted("GET", "200")
        await client.patch(CHAPERONS, "web", {"metadata": {"annotations": {"any": "change"}}}, namespace)
        await until(lambda: counted("GET", "200") > before)
        await client.patch(PODS, "web", {"metadata": {"annotations": {"cni": "ip"}}}, namespace)

        async def carried() -> bool:
            return (await notes(client, namespace)).get("cni") == "ip"

        await until(carried)
        assert not await is_missing(client, namespace)
