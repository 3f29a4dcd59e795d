"""Promise 41: software that owns, applies or reads a Service works as in a cluster without Flotilla."""

import asyncio
import functools

import pytest

from agent.api.kinds import PODS, SERVICES
from tests.e2e import discovery, manifests, shared
from tests.e2e.discovery import Labels
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.serviceowners import ENDPOINTS, NAME, Applier, Operator, every_second, settled
from tests.e2e.test_11_elect_by_default import stock

PODS_EACH, ROLES = 2, 2
SECONDS_OF_CONTRADICTION, MOST_WRITES = 10, 4
"""Most writes of the agent in that time to restore annotations that an operator removes every second."""


async def scaled(fleet: Fleet, namespace: str, replicas: int) -> None:
    """Scale the Deployment and wait until every cluster has that many endpoints."""
    await fleet.source.patch(DEPLOYMENTS, NAME, {"spec": {"replicas": replicas}}, namespace)
    await shared.known_everywhere(fleet, namespace, NAME, replicas)


async def test_an_operator_that_writes_its_service_every_second_sees_endpoints_and_no_other_writer(
    fleet: Fleet, namespace: str
) -> None:
    operator = Operator(fleet.source, namespace)
    async with every_second(operator.reconcile):
        await fleet.source.create(DEPLOYMENTS, manifests.deployment(NAME, 2), namespace)
        await settled(fleet, namespace)
        for replicas in (2, 3):
            await scaled(fleet, namespace, replicas)
            version = (await fleet.source.get(SERVICES, NAME, namespace))["metadata"]["resourceVersion"]
            want, before = await shared.addresses(fleet, namespace), operator.reconciled

            async def sees(want: list[str] = want, before: int = before) -> bool:
                return operator.addresses == want and operator.reconciled > before

            await fleet.until("the operator sees the endpoints", sees, about=namespace)
            found = await fleet.source.get(SERVICES, NAME, namespace)
            assert found["metadata"]["resourceVersion"] == version
            assert found["spec"]["selector"] == {"app": NAME}


@pytest.mark.full("A variant of an operator that keeps annotations which it has not set.")
async def test_an_operator_that_removes_foreign_annotations_keeps_its_endpoints_in_every_cluster(
    fleet: Fleet, namespace: str
) -> None:
    operator = Operator(fleet.source, namespace, forgets=True)
    async with every_second(operator.reconcile):
        await fleet.source.create(DEPLOYMENTS, manifests.deployment(NAME, 2), namespace)
        await shared.known_everywhere(fleet, namespace, NAME, 2)
        want = await shared.addresses(fleet, namespace)
        versions = set()
        until = operator.reconciled + SECONDS_OF_CONTRADICTION
        while operator.reconciled < until:
            for cluster in shared.CLUSTERS:
                assert await shared.ready(fleet, namespace, NAME, cluster) == want, cluster
            versions.add((await fleet.source.get(SERVICES, NAME, namespace))["metadata"]["resourceVersion"])
            await asyncio.sleep(0.1)
        assert operator.addresses == want
        # The operator answers each write of the agent with a write.
        assert len(versions) <= 2 * MOST_WRITES + 1


async def test_a_server_side_applier_finds_its_service_unchanged_every_second(fleet: Fleet, namespace: str) -> None:
    applier = Applier(fleet.source, namespace)
    async with every_second(applier.apply):
        await fleet.source.create(DEPLOYMENTS, manifests.deployment(NAME, 2), namespace)
        await settled(fleet, namespace)
        before = len(applier.outcomes)
        await scaled(fleet, namespace, 3)

        async def applied() -> bool:
            return len(applier.outcomes) >= before + 2

        await fleet.until("it has been applied again", applied, about=namespace)
        assert {*applier.outcomes[before:]} == {"unchanged"}


async def discovered(fleet: Fleet, namespace: str) -> list[Labels]:
    """Return the targets that Prometheus discovers for the Service by both roles, without values that differ
    between pods."""
    pods = await fleet.source.list(PODS, namespace)
    endpoints = await fleet.source.get(ENDPOINTS, NAME, namespace)
    slices = await shared.slices(fleet, namespace, NAME, "cd")
    targets = [*discovery.by_endpoints(endpoints, pods), *discovery.by_slices(slices, pods)]
    return sorted((discovery.normal(each) for each in targets), key=str)


async def test_prometheus_discovers_elected_pods_as_plain_ones(fleet: Fleet, namespace: str) -> None:
    async with fleet.namespace((), enabled=False) as plain:
        elected = manifests.deployment(NAME, PODS_EACH)
        for where, deployment in ((namespace, elected), (plain, stock(manifests.deployment(NAME, PODS_EACH)))):
            await fleet.source.create(SERVICES, shared.service(NAME), where)
            await fleet.source.create(DEPLOYMENTS, deployment, where)
        await shared.known_everywhere(fleet, namespace, NAME, PODS_EACH)

        async def complete(where: str) -> bool:
            return len(await shared.ready(fleet, where, NAME, "cd")) == PODS_EACH

        await fleet.until("plain pods are endpoints", functools.partial(complete, plain), about=plain)
        found: dict[str, list[Labels]] = {}

        async def alike() -> bool:
            for where in (plain, namespace):
                found[where] = await discovered(fleet, where)
            return len(found[plain]) == PODS_EACH * ROLES and found[plain] == found[namespace]

        try:
            await fleet.until("both have the same targets", alike, about=namespace)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{found}") from error
