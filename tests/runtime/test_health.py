import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from agent.runtime.health import Health, heartbeat
from agent.services.endpoints.asking import ask


def free_port(host: str = "127.0.0.1") -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


class Served:
    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.health = Health(self.address)
        self.task: asyncio.Task[None] | None = None

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as http:
            while True:
                try:
                    async with http.get(f"http://{self.address}{path}") as response:
                        return response.status, await response.text()
                except aiohttp.ClientConnectorError:
                    assert self.task is not None
                    assert not self.task.done(), self.task
                    await asyncio.sleep(0.01)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    task = asyncio.create_task(served.health.serve())
    served.task = task
    yield served
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_without_checks_all_is_well(served: Served) -> None:
    assert await served.get("/healthz") == (200, "ok\n")
    assert await served.get("/readyz") == (200, "ok\n")


async def test_what_is_not_ready_is_named_with_its_reason_and_leaves_health_alone(served: Served) -> None:
    reasons: dict[str, str | None] = {"watches": "still reading pods", "lease": None}
    served.health.ready("watches", lambda: reasons["watches"])
    served.health.ready("lease", lambda: reasons["lease"])
    assert await served.get("/readyz") == (503, "watches: still reading pods\n")
    assert (await served.get("/healthz"))[0] == 200
    reasons["watches"] = None
    assert (await served.get("/readyz"))[0] == 200


async def test_metrics_are_in_the_format_of_prometheus(served: Served) -> None:
    status, text = await served.get("/metrics")
    assert status == 200
    assert "# TYPE flotilla_reconciles_total counter" in text
    assert "process_resident_memory_bytes" in text


async def test_nothing_else_is_served(served: Served) -> None:
    assert (await served.get("/debug"))[0] == 404


async def test_a_port_that_is_taken_is_an_error(served: Served) -> None:
    await served.get("/healthz")
    with pytest.raises(OSError, match="address already in use"):
        await Health(served.address).serve()


async def test_a_silent_heart_is_noticed() -> None:
    pulse, check = heartbeat(0.02)
    assert check() is None
    await asyncio.sleep(0.03)
    assert "no sign of life" in (check() or "")
    pulse()
    assert check() is None


async def test_it_says_which_cluster_it_is_in_once_that_is_known(served: Served) -> None:
    assert (await served.get("/cluster"))[0] == 404
    served.health.cluster = ""
    assert await served.get("/cluster") == (503, '{"cluster": ""}')
    assert await ask(served.address) == ""
    served.health.cluster = "uid"
    assert await served.get("/cluster") == (200, '{"cluster": "uid"}')
    assert await ask(served.address) == "uid"
