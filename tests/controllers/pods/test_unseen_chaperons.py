"""Pods and Targets are not released while a chaperon may exist that no watch has reported, on a real API server."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS, TARGETS
from agent.clusters.deps import Deps
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Conflict, NotFound
from agent.model.proxypod import proxy_pod
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.scheduler import chaperon_writer
from agent.scheduler.cache.scheduler_cache import SchedulerCache
from agent.scheduler.chaperon_writer import ChaperonWriter
from agent.scheduler.controller import ProxyScheduler
from agent.scheduler.proxy_writer import ProxyWriter
from agent.targets.target import TargetController
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import PROVIDER, chaperons, connected, create, elected, enable, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

ALL = (Chaperon, Feedback, ProxyScheduler)
Raw = dict[str, Any]


def is_post(method: str, path: str) -> bool:
    return method == "POST" and path.endswith(f"/{CHAPERONS.plural}")


def posts(relay: Relay) -> int:
    return sum(is_post(*request) for request in relay.requests)


async def runs(client: Client, namespace: str) -> bool:
    """Return whether a delegate runs."""
    found = await client.list(PODS, namespace, labels=names.LABEL_PARENT_UID)
    return any(pod["status"].get("phase") == "Running" for pod in found)


async def is_ending(client: Client, namespace: str) -> bool:
    """Return whether the only chaperon is terminating or has been deleted."""
    return all("deletionTimestamp" in each["metadata"] for each in await chaperons(client, namespace))


@dataclass
class Stage:
    """A source whose only target `eu` is behind a relay."""

    client: Client
    namespace: str
    relay: Relay
    deps: Deps
    targets: Mapping[str, Target]

    async def create(self, name: str) -> Raw:
        return await create(self.client, elected(name, self.namespace), [*self.targets.values()])

    async def chaperons(self) -> list[Raw]:
        return await chaperons(self.client, self.namespace)

    async def is_gone(self, name: str) -> bool:
        with contextlib.suppress(NotFound):
            return not await self.client.get(PODS, name, self.namespace)
        return True

    async def nothing_runs_once_gone(self, name: str) -> None:
        """Assert that no delegate exists once the pod has been deleted."""
        await gone(lambda: self.client.get(PODS, name, self.namespace))
        assert await self.chaperons() == []
        assert await self.client.list(PODS, self.namespace, labels=names.LABEL_PARENT_UID) == []


@contextlib.asynccontextmanager
async def staged(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Stage]:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, *ALL) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        yield Stage(client, namespace, relay, deps, targets)


async def test_a_pod_that_is_deleted_after_an_unanswered_post_waits_for_what_that_has_made(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with staged(cluster, client, namespace) as at:
        at.relay.mute_watches()
        at.relay.lose_reply = is_post
        await at.create("web")
        await until(lambda: runs(client, namespace))
        await client.delete(PODS, "web", namespace, grace=0)

        async def decided() -> bool:
            return await at.is_gone("web") or await is_ending(client, namespace)

        await until(decided)
        assert not await at.is_gone("web"), "the pod was let go of while its delegate runs"
        at.relay.speak()
        await at.nothing_runs_once_gone("web")


async def test_a_pod_that_is_deleted_while_its_post_is_under_way_waits_for_what_comes_of_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with staged(cluster, client, namespace) as at:
        await at.create("earlier")
        await pod_where(client, namespace, "earlier", phase="Running")
        at.relay.freeze(is_post)
        before = posts(at.relay)
        await at.create("web")
        await until(lambda: posts(at.relay) > before)
        await client.delete(PODS, "web", namespace, grace=0)
        await client.delete(PODS, "earlier", namespace, grace=0)
        await gone(lambda: client.get(PODS, "earlier", namespace))
        assert not await at.is_gone("web"), "the pod was let go of before its chaperon had arrived"
        at.relay.thaw()
        await at.nothing_runs_once_gone("web")
        assert at.targets["eu"].ready


async def test_a_pod_whose_post_never_arrived_goes_once_the_target_says_so(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with staged(cluster, client, namespace) as at:
        at.relay.freeze(is_post)
        await at.create("web")
        await until(lambda: posts(at.relay) > 0)
        await client.delete(PODS, "web", namespace, grace=0)
        at.relay.break_streams()
        await at.nothing_runs_once_gone("web")


async def test_a_pod_whose_delegate_was_seen_going_costs_one_small_question(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with staged(cluster, client, namespace) as at:
        pod = await at.create("web")
        await pod_where(client, namespace, "web", phase="Running")
        await client.delete(PODS, "web", namespace, grace=0)
        await at.nothing_runs_once_gone("web")
        assert not any(pod["metadata"]["uid"] in query for query in at.relay.queries)
        assert [path for method, path in at.relay.requests if method == "GET" and "/pods" in path] == [
            PODS.path(namespace, names.chaperon("web", pod["metadata"]["uid"]))
        ]


async def test_a_claimed_pod_without_a_chaperon_is_asked_for_before_it_goes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """The agent has just started, and has not observed a deletion."""
    async with staged(cluster, client, namespace) as at:
        manifest = elected("web", namespace, schedulingGates=[{"name": "flotilla.test/gate"}])
        pod = await create(client, manifest, [*at.targets.values()])
        claim = {"metadata": {"annotations": {names.ANNOTATION_CLAIM: at.targets["eu"].node_name}}}
        await client.patch(PODS, "web", claim, namespace)
        await client.delete(PODS, "web", namespace, grace=0)
        await at.nothing_runs_once_gone("web")
        assert any(pod["metadata"]["uid"] in query for query in at.relay.queries)


async def test_a_chaperon_that_has_changed_since_it_was_judged_is_not_given_up(
    cluster: Cluster, client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No agent answers in this cluster, but another test's ClusterSummary may claim that one does.
    monkeypatch.setattr(chaperon_writer, "answers", lambda *asked: False)
    async with running(cluster, Feedback) as deps, connected(deps, client, namespace, eu=None) as targets:
        target = targets["eu"]
        proxy = await create(client, elected("web", namespace), [target])
        labels = {names.LABEL_PARENT_UID: proxy["metadata"]["uid"], names.LABEL_PARENT_CLUSTER_UID: deps.cluster_uid}
        metadata = {"name": "web-1", "labels": labels, "annotations": {names.ANNOTATION_PARENT_NAME: "web"}}
        head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
        judged = await client.create(CHAPERONS, {**head, "metadata": metadata, "spec": {"containers": []}}, namespace)
        status = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        await client.patch(CHAPERONS, "web-1", {"status": status}, namespace, sub="status")
        cache = SchedulerCache(deps, lambda: None, lambda pods: None)
        writer = ChaperonWriter(deps, cache, ProxyWriter(deps, cache))
        await writer.give_up(proxy, target, judged, "no room", "ranked")
        (kept,) = await chaperons(client, namespace)
        assert "deletionTimestamp" not in kept["metadata"]
        await writer.give_up(proxy, target, kept, "no room", "ranked")
        await until(lambda: _none(client, namespace))


async def _none(client: Client, namespace: str) -> bool:
    return not await chaperons(client, namespace)


@contextlib.asynccontextmanager
async def removing(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Relay]:
    """Run all controllers for the removal of a Target, with a ready Target `eu` and its virtual node."""
    node = names.virtual_node(namespace, "eu")
    spec = {"taints": [PROVIDER]}
    await enable(client, namespace)
    async with Relay.started(load(str(cluster.kubeconfig))) as relay:
        try:
            async with running(cluster, *ALL, TargetController, OrphanFinalizersController, release_after=3.0):
                await add(client, namespace, "eu", kubeconfig(cluster, server=relay.connection.server, user={}))
                await condition(client, namespace, "eu", "Ready", "True")
                labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
                await client.create(NODES, {"metadata": {"name": node, "labels": labels}, "spec": spec})
                yield relay
        finally:
            await tear_away(client, namespace)
            with contextlib.suppress(NotFound):
                await client.delete(NODES, node)


async def send(client: Client, namespace: str, name: str) -> Raw:
    """Create a proxy pod for the Target `eu`."""
    manifest = elected(name, namespace)
    return await client.create(PODS, proxy_pod(manifest, [names.finalizer(namespace, "eu")]))


async def test_a_target_that_is_removed_waits_for_a_chaperon_whose_post_was_not_answered(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with removing(cluster, client, namespace) as relay:
        relay.mute_watches()
        relay.lose_reply = is_post
        await send(client, namespace, "web")
        await until(lambda: runs(client, namespace))
        await client.delete(TARGETS, "eu", namespace)

        async def decided() -> bool:
            return await _is_gone(client, namespace) or await is_ending(client, namespace)

        await until(decided)
        assert not await _is_gone(client, namespace), "the Target has gone while a delegate runs there"
        relay.speak()
        await gone(lambda: client.get(TARGETS, "eu", namespace))
        assert await _none(client, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_a_target_that_is_removed_during_a_post_waits_for_what_comes_of_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with removing(cluster, client, namespace) as relay:
        relay.freeze(is_post)
        await send(client, namespace, "web")
        await until(lambda: posts(relay) > 0)
        await client.delete(TARGETS, "eu", namespace)
        await condition(client, namespace, "eu", "Drained", "False", "Draining")
        relay.thaw()
        await gone(lambda: client.get(TARGETS, "eu", namespace))
        assert await _none(client, namespace)
        await gone(lambda: client.get(PODS, "web", namespace))


async def test_a_target_that_is_removed_waits_for_an_orphan_that_no_watch_has_shown(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with removing(cluster, client, namespace) as relay:
        relay.mute_watches()
        relay.lose_reply = is_post
        pod = await send(client, namespace, "web")
        await until(lambda: chaperons(client, namespace))
        # A user removes the pod's finalizers.
        await client.patch(PODS, "web", {"metadata": {"finalizers": None}}, namespace)
        with contextlib.suppress(NotFound, Conflict):
            await client.delete(PODS, "web", namespace, uid=pod["metadata"]["uid"], grace=0)
        await client.delete(TARGETS, "eu", namespace)
        await condition(client, namespace, "eu", "Drained", "False", "Draining")
        relay.speak()
        await gone(lambda: client.get(TARGETS, "eu", namespace))
        assert await _none(client, namespace)


async def _is_gone(client: Client, namespace: str) -> bool:
    with contextlib.suppress(NotFound):
        return not await client.get(TARGETS, "eu", namespace)
    return True
