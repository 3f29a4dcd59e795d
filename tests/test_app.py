"""The agent as a process of its own on a real API server."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator

import aiohttp
import pytest

from agent.api import names
from agent.api.kinds import LEASES
from agent.kube.client import Client
from agent.sandbox import Cluster
from tests.runtime.test_health import free_port
from tests.waiting import until


@contextlib.asynccontextmanager
async def agent(*flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "agent", *flags, stderr=pipe)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


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


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--kubeconfig=/nonexistent"], "no kubeconfig at /nonexistent"),
        (["--probe-interval=0"], "--probe-interval"),
        (["--log-level=loud"], "--log-level"),
    ],
    ids=["a kubeconfig that is missing", "a number that makes no sense", "a level that does not exist"],
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
