"""Deletion of delegates between real clusters: Services stop routing to them first, and grace periods apply."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, ENDPOINT_SLICES, PODS, SERVICES
from agent.api.names.endings import ANNOTATION_GRACE_PERIOD
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.store import Key
from agent.model.deletion import is_withdrawn
from agent.model.endpoints import ready
from agent.pods.chaperon.controller import Chaperon
from agent.pods.chaperon.grace_periods import GracePeriods
from agent.pods.feedback import pause
from agent.pods.feedback.controller import Feedback
from agent.pods.feedback.withdrawal import Withdrawal
from agent.pods.live_changes.controller import LiveChanges
from agent.scheduler.controller import ProxyScheduler
from agent.targets.summary.controller import SummaryController
from tests.controllers import byhand
from tests.controllers.counting import counting_writes
from tests.controllers.pair import Pair
from tests.controllers.proxies import connected, create, elected
from tests.controllers.starting import running
from tests.kube.relay import Relay
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

HERE, THERE = (Feedback, LiveChanges, ProxyScheduler), (Chaperon, GracePeriods, SummaryController)
PORTS = [{"port": 80}]


class Place:
    """A namespace of two clusters with a shared Service."""

    def __init__(self, pair: Pair, target: Target, relay: Relay) -> None:
        self.pair, self.target, self.relay = pair, target, relay

    async def share(self) -> None:
        """Create the Service in the source, and its copy in the target."""
        assert self.pair.deps is not None
        shared = {"annotations": {names.ANNOTATION_GLOBAL: "true"}, "labels": {names.LABEL_GLOBAL: "true"}}
        await self.pair.create(SERVICES, "web", metadata=shared, spec={"selector": {"app": "web"}, "ports": PORTS})
        mine = {names.LABEL_PARENT_CLUSTER_UID: self.pair.deps.cluster_uid}
        copy = {"metadata": {"name": "web", "labels": mine}, "spec": {"selector": {names.LABEL_SERVING: "true"}}}
        copy["spec"]["ports"] = PORTS
        await self.pair.there.create(SERVICES, copy, self.pair.namespace)

    async def pod(self, name: str = "web", *, app: str = "", **spec: Any) -> str:
        """Create a pod with the label `app` (default: its name); return the name of its delegate."""
        pod = elected(name, self.pair.namespace, **spec)
        pod["metadata"]["labels"]["app"] = app or name
        made = await create(self.pair.here, pod, [self.target])
        return names.chaperon(name, made["metadata"]["uid"])

    async def serving(self) -> tuple[str, str]:
        """Return the name and address of a pod that the target's Service routes to."""
        name = await self.pod()

        async def served() -> str:
            found = await self.routed(self.pair.there)
            own = (await self.pair.here.get(PODS, "web", self.pair.namespace))["status"].get("podIP")
            return own if own in found else ""

        return name, await until(served)

    async def routed(self, client: Client) -> set[str]:
        """Return the addresses that a cluster routes to."""
        slices = await client.list(ENDPOINT_SLICES, self.pair.namespace)
        return {each for slice in slices for found in ready(slice).values() for each in found}

    async def mirror(self, address: str, service: str = "web") -> None:
        """Create an endpoint that a cluster has not removed yet."""
        labels = {names.LABEL_SERVICE_NAME: service, names.LABEL_GLOBAL: "true"}
        slice = {"metadata": {"name": f"late-{service}", "labels": labels}, "addressType": "IPv4", "ports": PORTS}
        slice["endpoints"] = [{"addresses": [address], "conditions": {"ready": True}}]
        await self.pair.here.create(ENDPOINT_SLICES, slice, self.pair.namespace)

    async def is_withdrawn(self, name: str) -> bool:
        """Return whether neither the chaperon nor its delegate has the label that Services select."""
        found = [await self.pair.there.get(kind, name, self.pair.namespace) for kind in (CHAPERONS, PODS)]
        return not any(names.LABEL_SERVING in each["metadata"]["labels"] for each in found)

    async def chaperon(self, name: str) -> Raw:
        metadata: Raw = (await self.pair.there.get(CHAPERONS, name, self.pair.namespace))["metadata"]
        return metadata

    async def labels(self, name: str) -> Raw:
        """Return the labels of a delegate."""
        labels: Raw = (await self.pair.there.get(PODS, name, self.pair.namespace))["metadata"]["labels"]
        return labels

    async def grace(self, name: str) -> int | None:
        """Return the grace period of a delegate in seconds; None if it is not being deleted."""
        return (await self.pair.there.get(PODS, name, self.pair.namespace))["metadata"].get(
            "deletionGracePeriodSeconds"
        )

    async def delete(self, name: str = "web", grace: int | None = None) -> None:
        await self.pair.here.delete(PODS, name, self.pair.namespace, grace=grace)

    async def ended(self, name: str = "web") -> None:
        """Wait until a proxy pod has been removed."""
        await gone(lambda: self.pair.here.get(PODS, name, self.pair.namespace))


@contextlib.asynccontextmanager
async def source(pair: Pair, **settings: Any) -> AsyncIterator[Place]:
    """Run the source's agent, with the target behind a relay."""
    async with (
        Relay.started(load(str(pair.clusters[1].kubeconfig))) as relay,
        running(pair.clusters[0], *HERE, **settings) as pair.deps,
        connected(pair.deps, pair.here, pair.namespace, eu=relay.connection) as targets,
    ):
        target = targets["eu"]
        await until(lambda: target.summary is not None)
        yield Place(pair, target, relay)


@contextlib.asynccontextmanager
async def at_work(pair: Pair, **settings: Any) -> AsyncIterator[Place]:
    """Run both agents."""
    async with running(pair.clusters[1], *THERE), source(pair, **settings) as place:
        yield place


async def test_a_delegate_ends_once_no_cluster_routes_to_it_and_keeps_its_other_labels(pair: Pair) -> None:
    async with at_work(pair, withdraw=1.5) as place:
        await place.share()
        name, address = await place.serving()
        await place.mirror(address)
        before = await place.labels(name)
        await place.delete()
        await until(lambda: place.is_withdrawn(name))
        assert await place.labels(name) == {key: before[key] for key in before if key != names.LABEL_SERVING}
        await until(lambda: _lacks(place, address))
        await asyncio.sleep(2)
        metadata = await place.chaperon(name)
        assert "deletionTimestamp" not in metadata, "a cluster routes to it still"
        assert metadata["annotations"][ANNOTATION_GRACE_PERIOD] == "27"
        began = time.monotonic()
        await pair.here.delete(ENDPOINT_SLICES, "late-web", pair.namespace)
        await place.ended()
        assert time.monotonic() - began >= 1.4
        await pair.gone(CHAPERONS, name)


async def test_pods_in_their_pause_occupy_no_worker(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Feedback, "workers", 2)
    monkeypatch.setattr(pause, "LONGEST_SECONDS", 600.0)
    async with at_work(pair, withdraw=600.0) as place:
        await place.share()
        pods = [f"web-{number}" for number in range(Feedback.workers + 1)]
        delegates = [await place.pod(pod, app="web", terminationGracePeriodSeconds=1200) for pod in pods]
        for pod in pods:
            await until(lambda pod=pod: _runs(pair, pod))  # type: ignore[misc]
            await place.delete(pod)
        for name in delegates:
            await until(lambda name=name: place.is_withdrawn(name))  # type: ignore[misc]
        await place.pod("work")
        await until(lambda: _runs(pair, "work"))
        for pod, name in zip(pods, delegates, strict=True):
            assert "deletionTimestamp" not in await place.chaperon(name), "the pause has ended"
            await place.delete(pod, grace=0)
            await pair.there.delete(CHAPERONS, name, pair.namespace)
            await place.ended(pod)


async def test_endpoints_of_other_services_wake_no_pod_in_its_pause(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    waking, woken = Withdrawal._endpoints_changed, Counter[str]()

    def counted(self: Withdrawal, service: Key) -> None:
        wake, keys = self._wake, list[Key]()
        self._wake = lambda key, seconds: keys.append(key) or wake(key, seconds)
        waking(self, service)
        self._wake = wake
        woken[service[1]] += len(keys)

    monkeypatch.setattr(Withdrawal, "_endpoints_changed", counted)
    async with at_work(pair, withdraw=60.0) as place:
        await place.share()
        name, address = await place.serving()
        await place.mirror(address)
        await place.delete()
        await until(lambda: place.is_withdrawn(name))
        await place.mirror("10.9.9.9", "other")
        await until(lambda: "other" in woken)
        assert woken["other"] == 0
        await pair.here.delete(ENDPOINT_SLICES, "late-web", pair.namespace)
        await until(lambda: woken["web"])
        await place.delete(grace=0)
        await pair.there.delete(CHAPERONS, name, pair.namespace)
        await place.ended()


async def _lacks(place: Place, address: str) -> bool:
    return address not in await place.routed(place.pair.there)


async def test_a_pod_that_no_service_selects_ends_at_once_and_costs_no_write(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_work(pair, withdraw=30.0) as place:
        await place.share()
        name = await place.pod("work")
        await until(lambda: _runs(pair, "work"))
        writes = counting_writes(monkeypatch)
        began = time.monotonic()
        await place.delete("work")
        await place.ended("work")
        assert time.monotonic() - began < 15
        assert ("patch_raw", "PodChaperon") not in writes
        assert writes.count(("delete", "Pod")) == 1, "the test's own"
        await pair.gone(CHAPERONS, name)


async def _runs(pair: Pair, name: str) -> bool:
    return bool((await pair.here.get(PODS, name, pair.namespace))["status"].get("phase") == "Running")


async def test_a_live_change_that_was_sent_before_a_delegate_is_withdrawn_does_not_undo_that(pair: Pair) -> None:
    async with at_work(pair, withdraw=60.0) as place:
        await place.share()
        name, _ = await place.serving()
        held, answered = list[str](), list[str]()

        def is_first(method: str, path: str) -> bool:
            if method != "PATCH" or not path.endswith(name) or held:
                return False
            held.append(path)
            return True

        def note(method: str, path: str) -> bool:
            answered.extend([path] if method == "PATCH" and path in held else ())
            return False

        place.relay.freeze(is_first)
        await pair.here.patch(PODS, "web", {"metadata": {"labels": {"tier": "a"}}}, pair.namespace)
        await until(lambda: held, what="a live change is under way")
        place.relay.lose_reply = note
        await place.delete()
        await until(lambda: place.is_withdrawn(name))
        count = len(answered)
        place.relay.thaw()
        await until(lambda: len(answered) > count, what="the live change has reached the target")
        chaperon = await pair.there.get(CHAPERONS, name, pair.namespace)
        assert is_withdrawn(chaperon)
        assert names.LABEL_SERVING not in chaperon["metadata"]["labels"]
        await place.delete(grace=0)
        await pair.there.delete(CHAPERONS, name, pair.namespace)
        await place.ended()


@pytest.mark.full("The state of a pause is on the chaperon, which the tests of its parts hold.")
async def test_a_source_that_is_started_again_goes_on_with_the_pause(pair: Pair) -> None:
    connection = load(str(pair.clusters[1].kubeconfig))
    async with running(pair.clusters[1], *THERE), contextlib.AsyncExitStack() as stack:
        first = contextlib.AsyncExitStack()
        pair.deps = await first.enter_async_context(running(pair.clusters[0], *HERE, withdraw=60.0))
        eu = connected(pair.deps, pair.here, pair.namespace, eu=connection)
        async with Relay.started(connection) as relay:
            place = Place(pair, (await stack.enter_async_context(eu))["eu"], relay)
            await until(lambda: place.target.summary is not None)
            await place.share()
            name, _ = await place.serving()
            await place.delete()
            await until(lambda: place.is_withdrawn(name))
            await first.aclose()
            assert "deletionTimestamp" not in await place.chaperon(name)
            async with running(pair.clusters[0], *HERE, withdraw=0.5) as pair.deps:
                await pair.connect("eu", connection)
                await place.ended()
                await pair.gone(CHAPERONS, name)


@pytest.mark.full("A variant of the test of a pause.")
async def test_a_target_that_is_cut_off_in_the_pause_ends_the_delegate_when_it_is_back(pair: Pair) -> None:
    async with at_work(pair, withdraw=1.5) as place:
        await place.share()
        name, _ = await place.serving()
        await place.delete()
        await until(lambda: place.is_withdrawn(name))
        place.relay.cut()
        await until(lambda: not place.target.ready)
        await asyncio.sleep(2)
        assert "deletionTimestamp" not in await place.chaperon(name)
        assert (await pair.here.get(PODS, "web", pair.namespace))["metadata"]["deletionTimestamp"]
        place.relay.mend()
        await place.ended()


async def test_a_deletion_brings_its_grace_period_and_a_second_one_shortens_it(pair: Pair) -> None:
    async with at_work(pair) as place:
        names_of = {}
        for pod in ("usual", "short", "shorter", "now"):
            spec = {"terminationGracePeriodSeconds": 60, **byhand.NOBODYS}
            names_of[pod] = await place.pod(pod, **spec)
            await byhand.start(pair.there, pair.namespace, names_of[pod])
            await until(lambda pod=pod: _runs(pair, pod))  # type: ignore[misc]
        for pod, grace in (("usual", None), ("short", 3), ("shorter", 40), ("now", 1)):
            await place.delete(pod, grace)
        for pod, grace in (("usual", 60), ("short", 3), ("shorter", 40), ("now", 1)):
            await until(lambda pod=pod, grace=grace: _has(place, names_of[pod], grace))  # type: ignore[misc]
        await place.delete("shorter", 2)
        await until(lambda: _has(place, names_of["shorter"], 2))
        for pod, name in names_of.items():
            await byhand.remove(pair.there, pair.namespace, name)
            await place.ended(pod)


async def _has(place: Place, name: str, grace: int) -> bool:
    return await place.grace(name) == grace
