"""Promise 37: Argo Rollouts switches its Services between elected pods as it does between plain pods.

It runs as a process in the network of the source, for a namespace that elects by default and for a plain one.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import PODS, SERVICES, Kind
from hack.lab.operators.programs import ROLLOUTS
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, on_virtual_node
from tests.e2e.operators import Places, operator, places
from tests.e2e.serviceowners import ENDPOINTS
from tests.e2e.test_11_elect_by_default import stock

pytestmark = [pytest.mark.seldom, pytest.mark.timeout(900)]

Raw = dict[str, Any]
Counts = dict[str, int]

ROLLOUT = Kind("argoproj.io", "v1alpha1", "rollouts", "Rollout")
NAME, ACTIVE, PREVIEW = "web", "web-active", "web-preview"
REPLICAS = 2
BLUE_GREEN = {"blueGreen": {"activeService": ACTIVE, "previewService": PREVIEW, "autoPromotionEnabled": False}}
CANARY = {"canary": {"stableService": ACTIVE, "canaryService": PREVIEW, "steps": [{"setWeight": 50}, {"pause": {}}]}}
FLAGS = ("--leader-elect=false", "--metricsPort=18090", "--healthzPort=18080")
PATIENCE_SECONDS = 180.0
TARGETS = ("us", "eu")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rollouts(fleet: Fleet) -> AsyncIterator[None]:
    """Run Argo Rollouts for the source."""
    async with operator(fleet, ROLLOUTS, FLAGS):
        yield


@pytest_asyncio.fixture(loop_scope="session")
async def both(fleet: Fleet, rollouts: None) -> AsyncIterator[Places]:
    """Both namespaces; their Rollouts are deleted afterwards."""
    async with places(fleet) as found:
        yield found
        for namespace in found:
            await fleet.source.delete(ROLLOUT, NAME, namespace)
            await fleet.gone(ROLLOUT, NAME, namespace)


class Case:
    """A Rollout in one namespace, with its Services."""

    def __init__(self, fleet: Fleet, namespace: str, targets: Sequence[str]) -> None:
        self._fleet = fleet
        self._namespace = namespace
        self._targets = targets

    async def create(self, strategy: Raw) -> None:
        """Create the Services and the Rollout, as a user does."""
        for name in (ACTIVE, PREVIEW):
            await self._fleet.source.create(SERVICES, shared.service(name, selector={"app": NAME}), self._namespace)
        made = stock(manifests.deployment(NAME, REPLICAS))
        made |= {"apiVersion": ROLLOUT.api_version, "kind": ROLLOUT.name}
        made["spec"] |= {"strategy": strategy, "revisionHistoryLimit": 2}
        made["spec"]["template"]["spec"]["containers"][0]["image"] = "app:1"
        await self._fleet.source.create(ROLLOUT, made, self._namespace)

    async def update(self, image: str) -> None:
        """Start another revision."""
        change = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
        await self._fleet.source.patch(ROLLOUT, NAME, change, self._namespace, style="json")

    async def promote(self) -> None:
        """Continue after the pause, like `kubectl argo rollouts promote`."""
        await self._status({"pauseConditions": None})

    async def abort(self) -> None:
        """Return to the stable revision, like `kubectl argo rollouts abort`."""
        await self._status({"abort": True})

    async def _status(self, change: Raw) -> None:
        await self._fleet.source.patch(ROLLOUT, NAME, {"status": change}, self._namespace, sub="status")

    async def became(self, phase: str, want: Mapping[str, Counts]) -> None:
        """Wait until the Rollout is in a phase and its Services have these endpoints in every cluster.

        :param want: numbers of endpoints by image, by the name of the Service
        """
        found: Raw = {}

        async def agrees() -> bool:
            status = (await self._fleet.source.get(ROLLOUT, NAME, self._namespace)).get("status") or {}
            found.update(phase=status.get("phase"), message=status.get("message"))
            found["endpoints"] = {name: await self._endpoints(name) for name in want}
            return found["phase"] == phase and found["endpoints"] == want and await self._known_everywhere(want)

        what = f"the Rollout in {self._namespace} is {phase} with {want}"
        try:
            await self._fleet.until(what, agrees, about=self._namespace, seconds=PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{what}, but found {found}\n{error}") from error

    async def _endpoints(self, name: str) -> Counts:
        """Count the ready addresses of core/v1 Endpoints by the image of the pod that they refer to."""
        pods = {each["metadata"]["name"]: each for each in await self._fleet.source.list(PODS, self._namespace)}
        counts: Counts = {}
        endpoints = await self._fleet.source.get(ENDPOINTS, name, self._namespace)
        for subset in endpoints.get("subsets") or ():
            for address in subset.get("addresses") or ():
                pod = pods.get((address.get("targetRef") or {}).get("name", ""))
                image = pod["spec"]["containers"][0]["image"] if pod else "no pod"
                counts[image] = counts.get(image, 0) + 1
        return counts

    async def _known_everywhere(self, names: Mapping[str, Counts]) -> bool:
        """Check that targets route traffic to the same addresses as the source."""
        for name in names:
            want = await shared.ready(self._fleet, self._namespace, name, "cd")
            for cluster in self._targets:
                if await shared.ready(self._fleet, self._namespace, name, cluster) != want:
                    return False
        return True


async def in_both(fleet: Fleet, both: Places, strategy: Raw, halfway: Mapping[str, Counts]) -> None:
    """Roll out, promote and abort, in both namespaces concurrently.

    :param halfway: numbers of endpoints at the pause of the second revision, by image, by the name of the
    Service
    """

    async def lives(namespace: str, targets: Sequence[str]) -> None:
        case = Case(fleet, namespace, targets)
        await case.create(strategy)
        await case.became("Healthy", {ACTIVE: {"app:1": REPLICAS}, PREVIEW: {"app:1": REPLICAS}})
        await case.update("app:2")
        await case.became("Paused", halfway)
        await case.promote()
        await case.became("Healthy", {ACTIVE: {"app:2": REPLICAS}, PREVIEW: {"app:2": REPLICAS}})
        await case.update("app:3")
        await case.became("Paused", {ACTIVE: {"app:2": halfway[ACTIVE]["app:1"]}})
        await case.abort()
        await case.became("Degraded", {ACTIVE: {"app:2": REPLICAS}})

    await asyncio.gather(lives(both.plain, ()), lives(both.elected, TARGETS))
    assert all(map(on_virtual_node, await fleet.pods(both.elected, NAME)))
    assert not any(map(on_virtual_node, await fleet.pods(both.plain, NAME)))


async def test_blue_green_is_promoted_and_aborted_as_on_plain_pods(fleet: Fleet, both: Places) -> None:
    await in_both(fleet, both, BLUE_GREEN, {ACTIVE: {"app:1": REPLICAS}, PREVIEW: {"app:2": REPLICAS}})


async def test_a_canary_is_promoted_and_aborted_as_on_plain_pods(fleet: Fleet, both: Places) -> None:
    await in_both(fleet, both, CANARY, {ACTIVE: {"app:1": REPLICAS // 2}, PREVIEW: {"app:2": REPLICAS // 2}})
