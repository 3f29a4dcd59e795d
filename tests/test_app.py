"""The agent as a separate process on a real API server."""

import asyncio
import contextlib
import functools
import signal
from pathlib import Path

import aiohttp
import pytest

from agent.api import names
from agent.api.kinds import LEASES, NODES
from agent.base.clock import SystemClock, micro_stamp
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.model.virtualnode import virtual_node
from hack.lab.sandbox import Cluster
from tests.extender.candidates import Asker
from tests.kube import kubeconfigs
from tests.kube.relay import Relay
from tests.processes import started
from tests.runtime.test_health import free_port
from tests.waiting import until

agent = functools.partial(started, "agent")


async def ready(address: str) -> bool:
    with contextlib.suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession() as http, http.get(f"http://{address}/readyz") as response:
            return response.status == 200
    return False


async def holder(client: Client, namespace: str) -> str:
    found: str = (await client.get(LEASES, names.LEASE_CONTROLLERS, namespace))["spec"].get("holderIdentity", "")
    return found


@pytest.mark.cluster
async def test_an_agent_leads_becomes_ready_and_lets_go_of_its_lease_when_asked_to_stop(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    address = f"127.0.0.1:{free_port()}"
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}", f"--health-address={address}"]
    async with agent(*flags, "--identity=one", "--cluster-name=test") as process:
        await until(lambda: ready(address), 40)
        assert await holder(client, namespace) == "one"
        process.send_signal(signal.SIGTERM)
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()
        assert b"Traceback" not in told
    assert await holder(client, namespace) == ""


@pytest.mark.cluster
async def test_a_replica_that_does_not_lead_keeps_virtual_nodes_alive(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    spec = {"holderIdentity": "leader", "leaseDurationSeconds": 3600, "renewTime": micro_stamp(SystemClock().now())}
    await client.create(LEASES, {"metadata": {"name": names.LEASE_CONTROLLERS, "namespace": namespace}, "spec": spec})
    node = virtual_node(namespace, "c1")
    await client.create(NODES, node)
    name = node["metadata"]["name"]
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}"]
    address = f"127.0.0.1:{free_port()}"
    async with agent(*flags, f"--health-address={address}", "--identity=two", "--node-lease-renew=0.3") as process:
        first = await until(lambda: renewal(client, name), 40)
        await until(lambda: renewed_since(client, name, first))
        assert await holder(client, namespace) == "leader"
        process.send_signal(signal.SIGTERM)
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()
        assert b"Traceback" not in told
    await client.delete(NODES, name)


@pytest.mark.cluster
async def test_a_replica_that_does_not_lead_serves_the_bind_extender(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    spec = {"holderIdentity": "leader", "leaseDurationSeconds": 3600, "renewTime": micro_stamp(SystemClock().now())}
    await client.create(LEASES, {"metadata": {"name": names.LEASE_CONTROLLERS, "namespace": namespace}, "spec": spec})
    health, extender = (f"127.0.0.1:{free_port()}" for _ in range(2))
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}", f"--health-address={health}"]
    async with agent(*flags, f"--extender-address={extender}") as process, aiohttp.ClientSession() as http:
        asker = Asker(http, f"http://{extender}")
        missing = {"metadata": {"name": "web", "namespace": namespace, "uid": "u"}}

        async def answer() -> str:
            with contextlib.suppress(aiohttp.ClientError):
                return await asker.bind(missing, "node")
            return ""

        assert "does not exist any more" in await until(answer, 40)
        assert await holder(client, namespace) == "leader"
        process.send_signal(signal.SIGTERM)
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()
        assert b"Traceback" not in told


async def health(address: str) -> tuple[int, str]:
    """Return status and body of /healthz; status 0 without an answer."""
    with contextlib.suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession() as http, http.get(f"http://{address}/healthz") as response:
            return response.status, await response.text()
    return 0, ""


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this file keep the rule.")
@pytest.mark.cluster
async def test_a_leader_that_cannot_watch_its_own_cluster_stands_down_and_is_restarted_if_that_does_not_help(
    cluster: Cluster, client: Client, namespace: str, tmp_path: Path
) -> None:
    async with Relay.started(load(str(cluster.kubeconfig))) as relay:
        kubeconfig = tmp_path / "relayed"
        kubeconfig.write_bytes(kubeconfigs.kubeconfig({}, {"server": relay.connection.server}))
        here, there = (f"127.0.0.1:{free_port()}" for _ in range(2))
        flags = [f"--namespace={namespace}", "--cluster-name=test"]
        behind = [f"--kubeconfig={kubeconfig}", f"--health-address={here}", "--identity=one", "--unwell-after=2"]
        other = [f"--kubeconfig={cluster.kubeconfig}", f"--health-address={there}", "--identity=two"]
        async with agent(*flags, *behind) as one:
            await until(lambda: ready(here), 40)
            async with agent(*flags, *other) as two:
                await until(lambda: health(there), 40)
                assert await holder(client, namespace) == "one"
                assert await health(here) == (200, "ok\n")
                relay.breaks_watch = lambda path: path.endswith("/targets")
                relay.break_streams()

                async def another() -> bool:
                    return await holder(client, namespace) == "two"

                await until(another, 60)
                # A replica that does not lead is healthy, too.
                assert (await health(here))[0] == 200
                two.send_signal(signal.SIGTERM)
                await two.communicate()

            async def hopeless() -> bool:
                status, told = await health(here)
                return status == 503 and "targets cannot be watched" in told

            await until(hopeless, 90)
            one.send_signal(signal.SIGTERM)
            _, told = await one.communicate()
            assert b"another replica had better lead: targets cannot be watched" in told
            assert b"Traceback" not in told


async def renewal(client: Client, name: str) -> str:
    with contextlib.suppress(NotFound):
        found: str = (await client.get(LEASES, name, names.NODE_LEASE_NAMESPACE))["spec"]["renewTime"]
        return found
    return ""


async def renewed_since(client: Client, name: str, before: str) -> bool:
    return await renewal(client, name) > before


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kubeconfig=/nonexistent"], "no kubeconfig at /nonexistent"),
        (["--tuning=probe-interval=0"], "--tuning=probe-interval"),
        (["--log-level=loud"], "--log-level"),
        (["--extender-address=0.0.0.0:10261"], "--extender-address"),
    ],
    ids=[
        "a kubeconfig that is missing",
        "a number that makes no sense",
        "a level that does not exist",
        "an extender for everybody",
    ],
)
async def test_what_cannot_work_ends_the_agent_with_one_line_that_says_why(flags: list[str], words: str) -> None:
    async with agent(*flags) as process:
        _, told = await process.communicate()
    assert process.returncode == 1
    assert words in told.decode()
    assert len(told.splitlines()) == 1


@pytest.mark.cluster
async def test_a_port_that_is_taken_ends_the_agent_with_the_reason(cluster: Cluster, namespace: str) -> None:
    server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    flags = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={namespace}", f"--health-address={address}"]
    async with agent(*flags) as process:
        _, told = await asyncio.wait_for(process.communicate(), 30)
    server.close()
    await server.wait_closed()
    assert process.returncode == 1
    assert "address already in use" in told.decode()
