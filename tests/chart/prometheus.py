"""The real Prometheus from Debian's package, unpacked into the cache without installing it."""

import asyncio
import contextlib
import functools
import json
import os
import shutil
import socket
import subprocess
import tempfile
import urllib.parse
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hack.lab.sandbox import cache
from tests.waiting import until

Raw = dict[str, Any]

_SECONDS = 120


@functools.cache
def programs() -> Mapping[str, str]:
    """Return the paths of `prometheus` and `promtool`. Skips the test if one is unavailable."""
    folder = cache.folder() / "prometheus"
    if not (folder / "usr/bin/promtool").exists() and shutil.which("prometheus") is None:
        _unpack(folder)
    path = f"{os.environ.get('PATH', '')}:{folder / 'usr/bin'}"
    found = {name: shutil.which(name, path=path) for name in ("prometheus", "promtool")}
    if missing := [name for name, place in found.items() if place is None]:
        pytest.skip(f"there is no {' and no '.join(missing)} (Debian, Ubuntu: apt-get install prometheus)")
    return {name: str(place) for name, place in found.items()}


def _unpack(folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("there is no prometheus on PATH, and no apt-get to get it with")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        place = Path(name)
        download = "apt-get download -q prometheus"
        subprocess.run(
            f"{download} || {{ apt-get update -q && {download}; }}",
            shell=True, cwd=place, capture_output=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
        packages = list(place.glob("*.deb"))
        if not packages:
            pytest.skip("there is no prometheus on PATH, and apt-get does not bring it")
        subprocess.run(["dpkg-deb", "-x", str(packages[0]), str(place / "tree")], check=True, timeout=_SECONDS)
        with contextlib.suppress(OSError):  # Another process has unpacked it first.
            (place / "tree").rename(folder)


def promtool(*arguments: str, folder: Path) -> str:
    """Run promtool and return its output. Fails the test if promtool fails."""
    done = subprocess.run(
        [programs()["promtool"], *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Prometheus:
    """Client of a running Prometheus."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def query(self, expression: str) -> list[Raw]:
        """Return the series of an instant query. Raises AssertionError with Prometheus' error."""
        arguments = urllib.parse.urlencode({"query": expression})
        async with self._session.get(f"{self.url}/api/v1/query?{arguments}") as response:
            answer = await response.json()
        assert answer["status"] == "success", f"{expression}: {answer.get('error')}"
        return list(answer["data"]["result"])

    async def ready(self) -> bool:
        """Return True if Prometheus is ready."""
        try:
            async with self._session.get(f"{self.url}/-/ready") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False


@contextlib.asynccontextmanager
async def running(folder: Path, jobs: Mapping[str, Sequence[str]]) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that scrapes each job's HOST:PORT every second."""
    scrapes = [{"job_name": job, "static_configs": [{"targets": list(targets)}]} for job, targets in jobs.items()]
    config = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": scrapes}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    flags = (
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/data",
        "--scrape.discovery-reload-interval=100ms",
    )
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            programs()["prometheus"], *flags, f"--web.listen-address={address}", stdout=log, stderr=log
        )
    try:
        async with aiohttp.ClientSession() as session:
            prometheus = Prometheus(session, f"http://{address}")
            await until(prometheus.ready, seconds=30)
            yield prometheus
    finally:
        process.terminate()
        await process.wait()
