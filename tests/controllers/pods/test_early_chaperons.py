"""A chaperon that is deleted before its delegate: nothing is released before the delegate is deleted. On real
API servers, the tests play a garbage collector that has not observed the delegate, which has a finalizer."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, TARGETS
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.model.proxypod import proxy_pod
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.scheduler.controller import ProxyScheduler
from agent.scheduler.failed_targets import with_failed_target
from agent.targets.target import TargetController
from hack.lab.sandbox import Cluster
from tests.clusters.test_delegates import delegate
from tests.controllers.pair import Pair
from tests.controllers.proxies import chaperons, connected, create, elected, enable, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, tear_away
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]
HELD = {"metadata": {"finalizers": ["flotilla.test/still-running"]}}
FREE = {"metadata": {"finalizers": None}}


@dataclass
class Looks:
    """Requests for a delegate in a target, counted from the creation of this object."""

    relay: Relay
    name: str
    before: int = field(init=False)

    def __post_init__(self) -> None:
        self.before = self._count()

    def twice(self) -> bool:
        return self._count() > self.before + 1

    def _count(self) -> int:
        return sum(method == "GET" and path.endswith(f"/pods/{self.name}") for method, path in self.relay.requests)


@dataclass
class Stage:
    """A source whose only target `eu` is behind a relay."""

    client: Client
    namespace: str
    relay: Relay
    target: Target

    async def runs(self) -> str:
        """Run a pod `web`; return the name of its delegate, which has a finalizer."""
        await create(self.client, elected("web", self.namespace), [self.target])
        await pod_where(self.client, self.namespace, "web", phase="Running")
        (chaperon,) = await chaperons(self.client, self.namespace)
        name = str(chaperon["metadata"]["name"])
        await self.client.patch(PODS, name, HELD, self.namespace)
        return name

    async def waits_for(self, name: str) -> None:
        """Assert that the pod `web` exists until its delegate is deleted."""
        await gone(lambda: self.client.get(CHAPERONS, name, self.namespace))
        looks = Looks(self.relay, name)

        async def decided() -> bool:
            return looks.twice() or await self.is_gone()

        await until(decided)
        assert not await self.is_gone(), "the pod was let go of before its delegate"
        await self.client.patch(PODS, name, FREE, self.namespace)
        with contextlib.suppress(NotFound):
            await self.client.delete(PODS, name, self.namespace, grace=0)
        await gone(lambda: self.client.get(PODS, "web", self.namespace))
        await gone(lambda: self.client.get(PODS, name, self.namespace))

    async def is_gone(self) -> bool:
        with contextlib.suppress(NotFound):
            return not await self.client.get(PODS, "web", self.namespace)
        return True


@contextlib.asynccontextmanager
async def staged(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Stage]:
    async with (
        Relay.started(load(str(cluster.kubeconfig))) as relay,
        running(cluster, Chaperon, Feedback, ProxyScheduler) as deps,
        connected(deps, client, namespace, eu=relay.connection) as targets,
    ):
        yield Stage(client, namespace, relay, targets["eu"])


async def let_go_too_early(client: Client, name: str, namespace: str) -> None:
    """Remove the finalizer of a terminating chaperon, as a garbage collector does that has not observed its pod."""

    async def is_ending() -> bool:
        return "deletionTimestamp" in (await client.get(CHAPERONS, name, namespace))["metadata"]

    await until(is_ending)
    await client.patch(CHAPERONS, name, FREE, namespace)


async def test_a_pod_whose_chaperon_is_gone_before_its_delegate_goes_after_the_delegate(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with staged(cluster, client, namespace) as at:
        name = await at.runs()
        await client.delete(PODS, "web", namespace)
        await let_go_too_early(client, name, namespace)
        await at.waits_for(name)


async def test_a_pod_whose_chaperon_somebody_deletes_in_the_target_goes_after_the_delegate(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """kubectl deletes in the background: the garbage collector then deletes the delegate."""
    async with staged(cluster, client, namespace) as at:
        name = await at.runs()
        await client.delete(CHAPERONS, name, namespace, propagation="Background")
        await at.waits_for(name)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_an_agent_that_has_seen_no_chaperon_going_asks_for_the_delegate_too(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    """The agent has just started."""
    async with staged(cluster, client, namespace) as at:
        manifest = elected("web", namespace, schedulingGates=[{"name": "flotilla.test/gate"}])
        uid = (await create(client, manifest, [at.target]))["metadata"]["uid"]
        name = names.chaperon("web", uid)
        await delegate(client, namespace, name, uid)
        claim = {"metadata": {"annotations": {names.ANNOTATION_CLAIM: at.target.node_name}}}
        await client.patch(PODS, "web", claim, namespace)
        await client.delete(PODS, "web", namespace, grace=0)
        await at.waits_for(name)


@pytest.mark.parametrize("mode", ["ranked", "reserve"])
async def test_a_pod_goes_to_another_target_when_its_delegate_is_gone(pair: Pair, mode: str) -> None:
    async with (
        Relay.started(pair.connection) as relay,
        running(pair.clusters[0], ProxyScheduler) as deps,
        connected(deps, pair.here, pair.namespace, there=relay.connection, here=None) as targets,
    ):
        target = targets["there"]
        manifest = proxy_pod(elected("web", pair.namespace), [target.finalizer])
        refused = with_failed_target({}, target.node_name, "full", deps.clock.now(), refused=True)
        manifest["metadata"]["annotations"] |= {
            names.SHORT_PREFIX + names.SCHEDULING: mode,
            names.ANNOTATION_CLAIM: target.node_name,
            names.ANNOTATION_ATTEMPTS: refused,
            **({names.ANNOTATION_CLAIM_UID: "gone"} if mode == "reserve" else {}),
        }
        # The pod's UID is known only after creation; the gate prevents scheduling until then.
        manifest["spec"]["schedulingGates"] = [{"name": "flotilla.test/gate"}]
        pod = await pair.here.create(PODS, manifest)
        uid = pod["metadata"]["uid"]
        name = names.chaperon("web", uid)
        await delegate(pair.there, pair.namespace, name, uid)
        looks = Looks(relay, name)
        await pair.here.patch(PODS, "web", {"spec": {"schedulingGates": None}}, pair.namespace)

        async def has_left() -> bool:
            annotations = (await pair.here.get(PODS, "web", pair.namespace))["metadata"]["annotations"]
            return bool(annotations.get(names.ANNOTATION_CLAIM) != target.node_name)

        async def decided() -> bool:
            return looks.twice() or await has_left()

        await until(decided)
        assert not await has_left(), "the pod went elsewhere while its delegate was there"
        await pair.there.delete(PODS, name, pair.namespace, grace=0)
        await until(has_left)


async def test_a_target_that_is_removed_waits_for_the_delegate_of_a_pod_that_waits(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await enable(client, namespace)
    async with Relay.started(load(str(cluster.kubeconfig))) as relay:
        try:
            async with running(cluster, Feedback, TargetController, OrphanFinalizersController, release_after=3.0):
                await add(client, namespace, "eu", kubeconfig(cluster, server=relay.connection.server, user={}))
                await condition(client, namespace, "eu", "Ready", "True")
                manifest = proxy_pod(elected("web", namespace), [names.finalizer(namespace, "eu")])
                manifest["metadata"]["annotations"][names.ANNOTATION_CLAIM] = names.virtual_node(namespace, "eu")
                uid = (await client.create(PODS, manifest))["metadata"]["uid"]
                name = names.chaperon("web", uid)
                await delegate(client, namespace, name, uid)
                await client.delete(TARGETS, "eu", namespace)
                await condition(client, namespace, "eu", "Drained", "False", "Draining")
                assert (await client.get(PODS, "web", namespace))["metadata"].get("finalizers")
                await client.delete(PODS, name, namespace, grace=0)
                await gone(lambda: client.get(TARGETS, "eu", namespace))
        finally:
            await tear_away(client, namespace)
