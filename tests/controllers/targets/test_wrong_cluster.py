"""A Target whose kubeconfig or address starts to point to another cluster, with two real clusters and delegates."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SUMMARIES,
    CONFIGMAPS,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    TARGETS,
)
from agent.clusters.deps import Deps
from agent.dependencies.follow import FollowController, PermittedController, ReleaseController
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model.proxypod import proxy_pod
from agent.pods.chaperon.controller import Chaperon
from agent.pods.events.controller import DelegateEvents
from agent.pods.feedback.controller import Feedback
from agent.pods.live_changes.controller import LiveChanges
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.runtime.supervisor import Supervisor
from agent.scheduler.controller import ProxyScheduler
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController
from agent.services.reroute import ServiceRerouteController
from agent.targets.inventory import InventoryController
from agent.targets.summary import SummaryController
from agent.targets.target import TargetController, TargetSecretController
from agent.targets.virtual_node import VirtualNodeController
from tests.cli.command import flotilla
from tests.controllers.dependencies.test_follow import volume
from tests.controllers.pair import Pair
from tests.controllers.proxies import elected, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, rewrite, target
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]

AS_TARGET = (SummaryController, Chaperon)
AS_SOURCE = (
    TargetController,
    TargetSecretController,
    VirtualNodeController,
    OrphanFinalizersController,
    Feedback,
    LiveChanges,
    DelegateEvents,
    FollowController,
    PermittedController,
    ReleaseController,
    GlobalServices,
    NetworkDriverController,
    EndpointsController,
    ServiceRerouteController,
    InventoryController,
    ProxyScheduler,
)
PODS_THERE = ("web-0", "web-1", "web-2")
WATCHED = (PODS, CHAPERONS, CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS)


@contextlib.asynccontextmanager
async def agents(pair: Pair) -> AsyncIterator[Deps]:
    """Run an agent in each cluster; the source's agent could run pods of other sources, too."""
    async with (
        running(pair.clusters[1], *AS_TARGET),
        running(pair.clusters[0], *AS_SOURCE, *AS_TARGET, follow_linger=0.5) as deps,
    ):
        yield deps


@pytest.fixture(autouse=True)
async def _clean(pair: Pair) -> AsyncIterator[None]:
    yield
    with contextlib.suppress(NotFound):
        await pair.here.delete(NODES, names.virtual_node(pair.namespace, "us"))
    for client in (pair.here, pair.there):
        with contextlib.suppress(NotFound):
            await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)


class Losses:
    """Objects that are deleted, or begin to terminate, in either cluster."""

    def __init__(self) -> None:
        self.found: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def watched(cls, pair: Pair) -> AsyncIterator["Losses"]:
        losses = cls()
        async with Supervisor("losses") as supervisor:
            for client in (pair.here, pair.there):
                for kind in WATCHED:
                    informer = Informer(client, kind, pair.namespace)
                    informer.subscribe(losses._changed)
                    supervisor.spawn(f"{client.name} {kind}", informer.run)
                    await informer.synced.wait()
            yield losses

    def _changed(self, old: Object | None, new: Object | None) -> None:
        if old is not None and not old.deleting and (new is None or new.deleting or new.uid != old.uid):
            self.found.append(f"{old.kind.plural} {old.name}")


async def uid_of(client: Client) -> str:
    return str((await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"])


async def recorded(pair: Pair, uid: str) -> None:
    """Wait until the Target's status records this cluster UID."""

    async def says() -> bool:
        found = await pair.here.get(TARGETS, "us", pair.namespace)
        return bool(found["status"].get("clusterUID") == uid)

    await until(says)


async def swap(pair: Pair, to: int) -> None:
    """Write the kubeconfig of a cluster to the Secret of the Target."""
    await rewrite(pair.here, pair.namespace, "us", kubeconfig(pair.clusters[to]))


async def accept(pair: Pair, uid: str) -> None:
    annotations = {names.SHORT_PREFIX + names.ACCEPT_CLUSTER: uid}
    await pair.here.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, pair.namespace)


async def ready(pair: Pair, status: str, reason: str = "") -> Raw:
    return await condition(pair.here, pair.namespace, "us", "Ready", status, reason)


async def pod(pair: Pair, name: str) -> None:
    """Create an elected pod that needs a ConfigMap, as the webhook turns it into a proxy pod."""
    finalizers = [names.finalizer(pair.namespace, "us")]
    await pair.here.create(PODS, proxy_pod(elected(name, pair.namespace, volumes=[volume("words")]), finalizers))


async def runs(pair: Pair, name: str) -> str:
    """Return the UID of a pod, once it runs."""
    found = await pod_where(pair.here, pair.namespace, name, phase="Running", node=True)
    return str(found["metadata"]["uid"])


@contextlib.asynccontextmanager
async def at_work(pair: Pair) -> AsyncIterator[dict[str, str]]:
    """Run pods of the source in the target; yield their UIDs by name."""
    await pair.create(CONFIGMAPS, "words", data={"a": "1"})
    async with agents(pair):
        await add(pair.here, pair.namespace, "us", kubeconfig(pair.clusters[1]))
        await ready(pair, "True")
        await recorded(pair, await uid_of(pair.there))
        for name in PODS_THERE:
            await pod(pair, name)
        yield {name: await runs(pair, name) for name in PODS_THERE}


async def delegates(client: Client, namespace: str) -> set[str]:
    return {each["metadata"]["uid"] for each in await client.list(PODS, namespace, labels=names.LABEL_PARENT_UID)}


async def nothing_of_ours(pair: Pair) -> None:
    """Assert that the cluster behind the new kubeconfig, which is the source itself, has none of our objects."""
    assert await pair.here.list(CHAPERONS, pair.namespace) == []
    assert await delegates(pair.here, pair.namespace) == set()
    assert await pair.here.list(CONFIGMAPS, pair.namespace, labels=names.LABEL_PARENT_UID) == []


async def events(pair: Pair, name: str, reason: str) -> list[Raw]:
    return await pair.here.list(EVENTS, pair.namespace, fields=f"involvedObject.name={name},reason={reason}")


async def waits_for(pair: Pair, name: str, words: str) -> None:
    """Wait until a pod reports why it waits."""

    async def says() -> bool:
        found = await pair.here.get(PODS, name, pair.namespace)
        told = find_condition(found["status"].get("conditions"), "PodScheduled") or {}
        assert not found["spec"].get("nodeName")
        return words in told.get("message", "")

    await until(says)


async def node(pair: Pair) -> Raw:
    return await pair.here.get(NODES, names.virtual_node(pair.namespace, "us"))


async def test_a_kubeconfig_of_another_cluster_lets_everything_be_until_the_right_one_is_back(pair: Pair) -> None:
    here, there = await uid_of(pair.here), await uid_of(pair.there)
    async with at_work(pair) as before, Losses.watched(pair) as losses:
        labels = (await node(pair))["metadata"]["labels"]
        await swap(pair, 0)
        found = await ready(pair, "False", "WrongCluster")
        for word in (here, there, f"multicluster/accept-cluster={here}"):
            assert word in found["message"]
        await condition(pair.here, pair.namespace, "us", "Reachable", "True", "WrongCluster")
        (event,) = await until(lambda: events(pair, "us", "WrongCluster"))
        assert event["message"] == found["message"]

        # A new pod is not sent, and its message reports why.
        await pod(pair, "late")
        await waits_for(pair, "late", f"the kubeconfig leads to cluster {here}")
        now = await node(pair)
        assert names.TAINT_UNREACHABLE in [taint["key"] for taint in now["spec"]["taints"]]
        assert (find_condition(now["status"]["conditions"], "TargetReachable") or {})["reason"] == "WrongCluster"
        assert now["metadata"]["labels"] == labels
        await nothing_of_ours(pair)
        where = ("-n", pair.namespace, "--kubeconfig", str(pair.clusters[0].kubeconfig))
        _, output, _ = await flotilla("targets", *where)
        assert "WrongCluster" in output
        assert found["message"] in output
        _, output, errors = await flotilla("explain", "pod", "late", *where)
        assert "the kubeconfig leads to cluster" in output + errors

        await swap(pair, 1)
        await ready(pair, "True")
        assert await runs(pair, "late")
        assert {name: await runs(pair, name) for name in PODS_THERE} == before
        assert len(await delegates(pair.there, pair.namespace)) == len(PODS_THERE) + 1
        assert losses.found == []
        assert len(await events(pair, "us", "WrongCluster")) == 1
        assert (await pair.here.get(TARGETS, "us", pair.namespace))["status"]["clusterUID"] == there


async def test_an_agent_that_starts_while_the_kubeconfig_is_another_clusters_lets_everything_be(pair: Pair) -> None:
    async with Losses.watched(pair) as losses:
        async with at_work(pair) as before:
            pass
        await swap(pair, 0)
        async with agents(pair):
            await ready(pair, "False", "WrongCluster")
            await pod(pair, "late")
            await waits_for(pair, "late", "the kubeconfig leads to cluster")
            await nothing_of_ours(pair)
        await swap(pair, 1)
        async with agents(pair):
            assert await runs(pair, "late")
            assert {name: await runs(pair, name) for name in PODS_THERE} == before
        assert losses.found == []


async def test_a_pod_that_is_deleted_meanwhile_waits_for_its_own_cluster(pair: Pair) -> None:
    async with at_work(pair):
        running_there = await delegates(pair.there, pair.namespace)
        await swap(pair, 0)
        await ready(pair, "False", "WrongCluster")
        await pair.here.delete(PODS, "web-0", pair.namespace)
        await pod(pair, "late")
        await waits_for(pair, "late", "the kubeconfig leads to cluster")
        assert "deletionTimestamp" in (await pair.here.get(PODS, "web-0", pair.namespace))["metadata"]
        assert await delegates(pair.there, pair.namespace) == running_there
        await swap(pair, 1)
        await gone(lambda: pair.here.get(PODS, "web-0", pair.namespace))
        assert await runs(pair, "late")
        assert len(await delegates(pair.there, pair.namespace)) == len(PODS_THERE)


@pytest.mark.full("A person accepts it; the first tier keeps that nobody else may.")
async def test_a_cluster_that_a_person_accepts_takes_the_others_place(pair: Pair) -> None:
    here = await uid_of(pair.here)
    async with at_work(pair):
        left = await delegates(pair.there, pair.namespace)
        await swap(pair, 0)
        await ready(pair, "False", "WrongCluster")
        # Another cluster than this one.
        await accept(pair, "some-other-cluster")
        await pod(pair, "late")
        await waits_for(pair, "late", "the kubeconfig leads to cluster")
        for name in PODS_THERE:
            assert "deletionTimestamp" not in (await pair.here.get(PODS, name, pair.namespace))["metadata"]
        await accept(pair, here)
        await ready(pair, "True")
        for name in PODS_THERE:
            await gone(lambda name=name: pair.here.get(PODS, name, pair.namespace))  # type: ignore[misc]
        assert await runs(pair, "late")
        await recorded(pair, here)
        # Only the administrator of that cluster can delete them now.
        assert await delegates(pair.there, pair.namespace) == left

        # From now on the first cluster is the wrong one.
        await swap(pair, 1)
        found = await ready(pair, "False", "WrongCluster")
        assert f"stands for cluster {here}" in found["message"]
        assert await runs(pair, "late")


async def test_another_cluster_behind_the_same_address_is_noticed(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "words", data={"a": "1"})
    here, there = (load(str(cluster.kubeconfig)) for cluster in pair.clusters)
    async with Relay.started(there) as relay, agents(pair), contextlib.AsyncExitStack() as stack:
        document = yaml.safe_load(kubeconfig(pair.clusters[1], user={}))
        document["clusters"][0]["cluster"] = {"server": relay.connection.server}
        await add(pair.here, pair.namespace, "us", yaml.safe_dump(document))
        await ready(pair, "True")
        await recorded(pair, await uid_of(pair.there))
        for name in PODS_THERE:
            await pod(pair, name)
        before = {name: await runs(pair, name) for name in PODS_THERE}
        losses = await stack.enter_async_context(Losses.watched(pair))
        relay.lead_to(here)
        await ready(pair, "False", "WrongCluster")
        await pod(pair, "late")
        await waits_for(pair, "late", "the kubeconfig leads to cluster")
        await nothing_of_ours(pair)
        relay.lead_to(there)
        await ready(pair, "True")
        assert await runs(pair, "late")
        assert {name: await runs(pair, name) for name in PODS_THERE} == before
        assert losses.found == []


async def test_what_a_target_was_joined_for_counts_from_the_beginning_and_a_lost_status_raises_no_alarm(
    pair: Pair,
) -> None:
    there = await uid_of(pair.there)
    manifest = target("us", pair.namespace)
    manifest["metadata"]["annotations"] = {names.ANNOTATION_CLUSTER_UID: "joined-with-another"}
    await pair.here.create(
        SECRETS, {"metadata": {"name": "us"}, "stringData": {"config": kubeconfig(pair.clusters[1])}}, pair.namespace
    )
    await pair.here.create(TARGETS, manifest)
    async with agents(pair):
        found = await ready(pair, "False", "WrongCluster")
        assert "stands for cluster joined-with-another" in found["message"]
        await accept(pair, there)
        await ready(pair, "True")
        await recorded(pair, there)
    # The Target as restored without its status, and without annotations that were added since.
    annotations = {names.SHORT_PREFIX + names.ACCEPT_CLUSTER: None}
    await pair.here.patch(TARGETS, "us", {"metadata": {"annotations": annotations}}, pair.namespace)
    await pair.here.patch(TARGETS, "us", {"status": None}, pair.namespace, sub="status")
    async with agents(pair):
        await ready(pair, "True")
        await recorded(pair, there)
        assert len(await events(pair, "us", "WrongCluster")) == 1
