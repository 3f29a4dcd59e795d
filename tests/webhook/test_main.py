"""The webhook as a process: `python -m webhook`."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from tests.waiting import until
from tests.webhook.replica import Place, elected, free_port

REPOSITORY = Path(__file__).parents[2]
PYTHON = (sys.executable, "-X", "importtime")
MEBIBYTE = 1 << 20


class Running:
    """Webhook in a separate process."""

    def __init__(self, process: asyncio.subprocess.Process, health: str, log: Path) -> None:
        self.process = process
        self.health = health
        self.log = log

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(f"http://{self.health}{path}") as response:
            return response.status, await response.text()

    async def is_ready(self) -> bool:
        assert self.process.returncode is None, self.log.read_text()[-2000:]
        with contextlib.suppress(aiohttp.ClientError):
            return (await self.get("/readyz"))[0] == 200
        return False

    def imported(self) -> set[str]:
        """Return the top-level packages imported so far, as `-X importtime` logged them."""
        lines = re.findall(r"^import time:.*\| +([\w.]+)$", self.log.read_text(), re.MULTILINE)
        return {name.partition(".")[0] for name in lines}


@contextlib.asynccontextmanager
async def running(place: Place, log: Path, *extra: str) -> AsyncIterator[Running]:
    health = f"127.0.0.1:{free_port('127.0.0.1')}"
    flags = [*place.flags("--register"), f"--health-address={health}", *extra]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(*PYTHON, "-m", "webhook", *flags, stderr=output, cwd=REPOSITORY)
    try:
        yield Running(process, health, log)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.cluster
async def test_the_process_is_small_serves_and_ends_when_asked(place: Place, tmp_path: Path) -> None:
    async with running(place, tmp_path / "log") as webhook:
        await until(webhook.is_ready, what="/readyz")
        await until(place.mutates, what="API server calls the webhook")
        await asyncio.gather(*(place.create(elected(f"web-{number}"), dry_run=True) for number in range(300)))
        status, metrics = await webhook.get("/metrics")
        assert status == 200
        assert re.search(r'^flotilla_webhook_requests_total\{outcome="mutated"\} 30\d\.0$', metrics, re.MULTILINE)
        assert (await webhook.get("/healthz"))[0] == 200
        resident = re.search(r"^process_resident_memory_bytes (\S+)$", metrics, re.MULTILINE)
        assert resident is not None
        assert float(resident[1]) < 64 * MEBIBYTE
        assert "kubernetes_asyncio" not in webhook.imported()
        assert "webhook" in webhook.imported()

        webhook.process.send_signal(signal.SIGTERM)
        assert await webhook.process.wait() == 0
        assert "Traceback" not in webhook.log.read_text()


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
@pytest.mark.cluster
async def test_a_stopping_process_drains_before_it_ends(place: Place, tmp_path: Path) -> None:
    async with running(place, tmp_path / "log", "--drain=5s") as webhook:
        await until(webhook.is_ready, what="/readyz")
        await until(place.mutates, what="API server calls the webhook")
        webhook.process.send_signal(signal.SIGTERM)

        async def stopping() -> bool:
            return "process: stopping" in (await webhook.get("/readyz"))[1]

        await until(stopping, what="/readyz says stopping")
        assert await place.mutates()
        assert await webhook.process.wait() == 0


@pytest.mark.cluster
async def test_without_an_api_server_the_process_waits_and_says_why(place: Place, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    server = f"https://{place.cluster.address}:{free_port('127.0.0.1')}"
    kubeconfig.write_text(re.sub(r"https://[^\s\"']+", server, place.cluster.kubeconfig.read_text()))
    async with running(place, tmp_path / "log", f"--kubeconfig={kubeconfig}") as webhook:

        async def says_why() -> bool:
            with contextlib.suppress(aiohttp.ClientError):
                status, text = await webhook.get("/readyz")
                assert status == 503
                return all(f"{check}: " in text and "connect" in text.lower() for check in ("certificate", "targets"))
            return False

        await until(says_why, what="the reason in /readyz")
        assert webhook.process.returncode is None


def start(*flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "webhook", *flags),
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_kubeconfig_the_process_says_what_to_give() -> None:
    ended = start("--url=https://127.0.0.1:9443", "--bind=127.0.0.1:0")
    assert ended.returncode == 1
    assert ended.stderr.startswith("webhook: no kubeconfig at")
    assert "--kubeconfig" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_wrong_flag_ends_the_process_with_its_name() -> None:
    ended = start("--url=https://127.0.0.1:9443", "--bind=9443")
    assert ended.returncode == 2
    assert "--bind=9443: must be HOST:PORT" in ended.stderr


@pytest.mark.cluster
async def test_a_port_in_use_ends_the_process_with_its_flag(place: Place) -> None:
    async with place.replica() as webhook:
        ended = await asyncio.to_thread(start, *place.flags(port=webhook.server.port))
    assert ended.returncode == 1
    assert re.match(r"webhook: .*cannot listen on .*: address already in use \(--bind\)$", ended.stderr)


def test_importing_the_webhook_does_not_import_kubernetes_asyncio() -> None:
    check = "import sys, webhook.__main__; sys.exit('kubernetes_asyncio' in sys.modules)"
    assert subprocess.run((sys.executable, "-c", check), cwd=REPOSITORY, check=False).returncode == 0
