"""The kinds of the Multi-Cluster Services API in whichever version clusters serve."""

import dataclasses
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.api.kinds import SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, TARGETS, Kind
from agent.cli.remove_copies import withdraw
from agent.controllers.endpoints import EndpointsRoom
from agent.controllers.globalsvc import GlobalServices
from agent.controllers.serviceimports import ServiceImportsRoom
from agent.drivers.mcs import OURS
from agent.kube.client import Client
from tests.controllers.installed import installed
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links
from tests.controllers.targets import target
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ROOMS = (EndpointsRoom, GlobalServices)
BETA_EXPORTS, BETA_IMPORTS = (
    dataclasses.replace(kind, version="v1beta1") for kind in (SERVICE_EXPORTS, SERVICE_IMPORTS)
)


async def by_hand(client: Client, namespace: str, name: str, kind: Kind = SERVICE_EXPORTS) -> Raw:
    """An export that a user has written."""
    return await client.create(
        kind, {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}}, namespace
    )


async def test_our_own_implementation_serves_the_newest_version_too_and_an_uninstall_takes_exports_of_it(
    pair: Pair,
) -> None:
    both, kinds = (pair.here, pair.there), [(BETA_EXPORTS, None), (BETA_IMPORTS, None)]
    async with installed(both, kinds):
        await pair.here.create(TARGETS, target("eu", pair.namespace))
        try:
            async with pair.at_work(ServiceImportsRoom, *ROOMS, mcs=True, discovery_interval=1.0):
                assert pair.deps is not None
                await Links(pair, pair.deps.cluster_uid).shared_by("True", "EndpointSlices")
                spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
                await pair.there.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec}, pair.namespace)
                mine = await by_hand(pair.there, pair.namespace, "web", BETA_EXPORTS)
                for client in both:
                    found = await until(lambda client=client: ready(client, BETA_IMPORTS, pair.namespace))  # type: ignore[misc]
                    assert found["status"]["clusters"] == [{"cluster": "eu"}]
                await until(lambda: ready(pair.there, BETA_EXPORTS, pair.namespace))
                await pair.there.delete(BETA_EXPORTS, "web", pair.namespace, uid=mine["metadata"]["uid"])
                for client in both:
                    await gone(lambda client=client: client.get(BETA_IMPORTS, "web", pair.namespace))  # type: ignore[misc]
        finally:
            await pair.here.delete(TARGETS, "eu", pair.namespace)
        head = {"apiVersion": BETA_EXPORTS.api_version, "kind": BETA_EXPORTS.name}
        ours = {**head, "metadata": {"name": "ours", "labels": {OURS: "some-cluster"}}}
        await pair.here.create(BETA_EXPORTS, ours, pair.namespace)
        await by_hand(pair.here, pair.namespace, "theirs", BETA_EXPORTS)
        await withdraw(pair.here, lambda said: None, copies=False)
        left = await pair.here.list(BETA_EXPORTS, pair.namespace)
        assert [each["metadata"]["name"] for each in left] == ["theirs"]


async def ready(client: Client, kind: Kind, namespace: str) -> Raw | None:
    found = await client.get(kind, "web", namespace)
    said = find_condition((found.get("status") or {}).get("conditions"), "Ready") or {}
    return found if said.get("status") == "True" else None
