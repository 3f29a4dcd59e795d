"""The agent of a target, as seen through a real API server with the rights of a source."""

import asyncio
import dataclasses
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, CLUSTER_ROLE_BINDINGS, LEASES, SERVICE_ACCOUNTS
from agent.api.names import LEASE_CONTROLLERS
from agent.base.clock import SystemClock
from agent.clusters.health.agent_health import AgentState
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.runtime.lease import LeaderLease, LeaseTimes
from agent.runtime.supervisor import Supervisor
from hack.lab.sandbox import Cluster as SandboxCluster
from tests.clusters.test_target import PROBING, registry
from tests.kube.relay import Relay, trusting
from tests.waiting import until

pytestmark = pytest.mark.cluster

QUICK = dataclasses.replace(PROBING, agent_interval=0.3)
TIMES = LeaseTimes(duration=1.0, renew=0.8, retry=0.1)


def agent_state(target: Target, state: AgentState) -> Any:
    return lambda: target.agent is not None and target.agent.state is state


@pytest.fixture
def connection(cluster: SandboxCluster) -> Connection:
    return load(str(cluster.kubeconfig))


async def forever() -> None:
    await until(lambda: False, 3600)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_lease_that_was_read_spares_a_probe_but_not_two_in_a_row(
    connection: Connection, client: Client, namespace: str
) -> None:
    probing = dataclasses.replace(PROBING, interval=0.5, timeout=30.0, agent_interval=0.05)
    lease = LeaderLease(client, SystemClock(), namespace, LEASE_CONTROLLERS, "one", TIMES)
    async with Relay.started(connection) as relay, registry(connection, probing) as targets, Supervisor("agent") as led:
        led.spawn("agent", lambda: lease.run(forever))
        target = await targets.connect((namespace, "eu"), relay.connection, "1")
        await until(agent_state(target, AgentState.READY))
        now = asyncio.get_running_loop().time
        began = now()
        relay.requests.clear()
        await until(lambda: relay.requests.count(("GET", CHAPERONS.path(namespace))) >= 6)
    assert now() - began > 1.5 * 6 * probing.interval


async def test_an_agent_is_alive_while_it_leads_and_silent_when_it_has_stopped(
    connection: Connection, client: Client, namespace: str
) -> None:
    lease = LeaderLease(client, SystemClock(), namespace, LEASE_CONTROLLERS, "one", TIMES)
    async with registry(connection, QUICK) as targets, Supervisor("agent") as agent:
        stop = agent.spawn("agent", lambda: lease.run(forever))
        target = await targets.connect((namespace, "eu"), connection, "1")
        await until(lambda: target.ready)
        await until(agent_state(target, AgentState.READY))
        told: list[Target] = []
        targets.on_change(told.append)
        stop()
        await until(agent_state(target, AgentState.SILENT))
        assert told == [target]
        assert target.ready
        assert f"{namespace}/{LEASE_CONTROLLERS}" in (target.agent.message if target.agent else "")
        agent.spawn("agent", lambda: lease.run(forever))
        await until(agent_state(target, AgentState.READY))


async def test_a_source_with_the_viewers_role_may_read_this_lease_and_no_other(
    connection: Connection, client: Client, namespace: str
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd", "namespace": namespace}})
    answer = await client.create(
        SERVICE_ACCOUNTS, {"metadata": {"name": "cd", "namespace": namespace}, "spec": {}}, sub="token"
    )
    token = answer["status"]["token"]
    as_source = Connection(connection.server, trusting(connection), StaticAuth(f"Bearer {token}"))
    lease = LeaderLease(client, SystemClock(), namespace, LEASE_CONTROLLERS, "one", TIMES)
    subject = {"kind": "ServiceAccount", "name": "cd", "namespace": namespace}
    binding = {
        "metadata": {"name": f"viewer-{namespace}"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "multicluster-scheduler-cluster-summary-viewer",
        },
        "subjects": [subject],
    }
    source = {**binding, "metadata": {"name": f"source-{namespace}"}}
    source["roleRef"] = {**binding["roleRef"], "name": "multicluster-scheduler-source"}  # type: ignore[dict-item]
    await client.create(CLUSTER_ROLE_BINDINGS, source)
    async with registry(connection, QUICK) as targets, Supervisor("agent") as agent:
        agent.spawn("agent", lambda: lease.run(forever))
        target = await targets.connect((namespace, "eu"), as_source, "1")
        await until(agent_state(target, AgentState.UNKNOWN))
        assert target.agent is not None
        assert "cannot be read" in target.agent.message
        assert target.agent.usable
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
        await until(agent_state(target, AgentState.READY))
        assert await allowed(target, LEASE_CONTROLLERS)
        assert not await allowed(target, "kube-scheduler")
    for name in ("viewer", "source"):
        await client.delete(CLUSTER_ROLE_BINDINGS, f"{name}-{namespace}")


async def allowed(target: Target, name: str) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {"group": LEASES.group, "resource": LEASES.plural, "verb": "list", "name": name},
        },
    }
    kind = dataclasses.replace(
        LEASES, group="authorization.k8s.io", plural="selfsubjectaccessreviews", namespaced=False
    )
    return bool((await target.cluster.client.create(kind, review))["status"]["allowed"])


async def test_this_cluster_as_its_own_target_has_this_agent(connection: Connection, namespace: str) -> None:
    async with registry(connection, QUICK) as targets:
        target = await targets.connect((namespace, "me"), None, "1")
        assert agent_state(target, AgentState.READY)()
