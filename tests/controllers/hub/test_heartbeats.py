"""Leases of members on a real API server: when a member counts as lost and as back, and what follows."""

from datetime import timedelta

import pytest

from agent.api.conditions import condition_of
from agent.api.kinds import LEASES, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS
from tests.controllers.hub.conftest import ACCEPTED, AVAILABLE, Hub
from tests.ocm import object_of
from tests.registrationagent import LEASE
from tests.waiting import until

pytestmark = pytest.mark.cluster

UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"
CLOCK = "ManagedClusterConditionClockSynced"


async def tainted(hub: Hub, cluster: str, *keys: str) -> None:
    async def probe() -> bool:
        taints = (await hub.get(cluster))["spec"].get("taints") or []
        return [each["key"] for each in taints] == list(keys) and all(each.get("timeAdded") for each in taints)

    await until(probe, what=f"taints {keys} of {cluster}")


async def test_a_silent_member_becomes_unknown_and_comes_back_with_its_next_renewal(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        lease = await until(lambda: hub.client.get(LEASES, LEASE, cluster))
        assert lease["metadata"]["labels"] == {"open-cluster-management.io/cluster-name": cluster}
        assert lease["spec"]["holderIdentity"] == LEASE
        await hub.client.patch(MANAGED_CLUSTERS, cluster, {"spec": {"leaseDurationSeconds": 1}})
        addon = object_of(MANAGED_CLUSTER_ADDONS, "a", cluster, spec={})
        await hub.client.create(MANAGED_CLUSTER_ADDONS, addon)
        async with hub.serving(agent):
            await tainted(hub, cluster)
        told = await hub.condition(cluster, AVAILABLE, "Unknown")
        assert told["reason"] == "ManagedClusterLeaseUpdateStopped"
        assert told["message"] == "Registration agent stopped updating its lease."
        await tainted(hub, cluster, UNREACHABLE)
        event = await hub.event(cluster, "AvailableUnknown")
        assert (event["metadata"]["namespace"], event["type"]) == (cluster, "Warning")
        found = condition_of(await hub.client.get(MANAGED_CLUSTER_ADDONS, "a", cluster), "Available")
        assert found is not None
        assert (found["status"], found["reason"]) == ("Unknown", "ManagedClusterLeaseUpdateStopped")
        async with agent.client() as client:
            await agent.beat(client)
        await hub.condition(cluster, AVAILABLE, "True", "ManagedClusterAvailable")
        await tainted(hub, cluster)


async def test_a_member_that_announces_faster_renewals_is_lost_sooner(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster, announces=1)
        async with hub.serving(agent):
            assert (await hub.get(cluster))["spec"]["leaseDurationSeconds"] == 60
        await hub.condition(cluster, AVAILABLE, "Unknown")


async def test_an_agent_whose_api_server_fails_keeps_new_work_away(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        await tainted(hub, cluster, UNREACHABLE)
        failed = {"type": AVAILABLE, "status": "False", "reason": "ManagedClusterKubeAPIServerUnavailable"}
        failed |= {"message": "The kube-apiserver is not ok", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        async with agent.client() as client:
            conditions = [*(await client.get(MANAGED_CLUSTERS, cluster))["status"]["conditions"], failed]
            await client.patch(MANAGED_CLUSTERS, cluster, {"status": {"conditions": conditions}}, sub="status")
        await tainted(hub, cluster, UNAVAILABLE)


async def test_a_member_with_a_wrong_clock_is_told_so_and_stays_available(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        async with hub.serving(agent):
            await hub.condition(cluster, CLOCK, "True")
            agent.skew = timedelta(hours=-1)
            told = await hub.condition(cluster, CLOCK, "False")
            assert told["reason"] == "ManagedClusterClockOutOfSync"
            await hub.condition(cluster, AVAILABLE, "True")
            agent.skew = timedelta()
            await hub.condition(cluster, CLOCK, "True")


async def test_a_member_whose_clock_is_behind_stays_available_for_an_agent_that_takes_over(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster, skew=timedelta(hours=-1))
        async with hub.serving(agent):
            await hub.condition(cluster, CLOCK, "False")
        await tainted(hub, cluster)
    async with hub.at_work():
        await hub.client.patch(MANAGED_CLUSTERS, cluster, {"spec": {"taints": [{"key": "a", "effect": "NoSelect"}]}})
        # The agent that takes over has judged the member when the taint has its time.
        await tainted(hub, cluster, "a")
    told = condition_of(await hub.get(cluster), AVAILABLE)
    assert told is not None
    assert told["status"] == "True"


async def test_a_lost_member_stays_lost_for_an_agent_that_takes_over(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster, announces=1)
        async with hub.serving(agent):
            pass
        await hub.condition(cluster, AVAILABLE, "Unknown")
    async with hub.at_work():
        await hub.condition(cluster, ACCEPTED, "True")
        await tainted(hub, cluster, UNREACHABLE)
    found = condition_of(await hub.get(cluster), AVAILABLE)
    assert found is not None
    assert found["status"] == "Unknown"
