"""Operators of other projects, run as processes next to a cluster of a fleet, with all rights in it."""

import contextlib
import hashlib
import io
import os
import signal
import sys
import tarfile
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from agent.api.kinds import CRDS, NAMESPACES
from agent.cli.progress import Silent
from hack.lab.operators.programs import definitions, find
from hack.lab.sandbox import SandboxError, process
from hack.lab.sandbox.build import Part
from hack.lab.sandbox.objects import REPOSITORY
from tests.controllers.installed import uninstalled
from tests.e2e.fleet import Fleet, condition
from tests.e2e.test_11_elect_by_default import ELECTS, elects
from tests.runtime.test_health import free_port

Raw = dict[str, Any]

ARTIFACT = "manifests.tar.gz"


class Places(NamedTuple):
    """Two namespaces of the source: one that elects pods by default, and one whose pods stay local."""

    elected: str
    plain: str


@contextlib.asynccontextmanager
async def places(fleet: Fleet) -> AsyncIterator[Places]:
    """Create both namespaces, and delete them at the end."""
    async with fleet.namespace() as elected, fleet.namespace((), enabled=False) as plain:
        await fleet.source.patch(NAMESPACES, elected, ELECTS)
        await elects(fleet, elected, True)
        yield Places(elected, plain)


@contextlib.asynccontextmanager
async def operator(fleet: Fleet, part: Part, arguments: Sequence[str]) -> AsyncIterator[Path]:
    """Install the CRDs of an operator and run it for the source; yield the path of its log.

    Skips the test if the operator is not built.
    """
    try:
        program = await find(part, Silent(), compile=False)
    except SandboxError as error:
        pytest.skip(str(error))
    found = [each for each in yaml.safe_load_all(definitions(part).read_text()) if each]
    try:
        for each in found:
            await fleet.source.create(CRDS, each)
        for each in found:
            await _established(fleet, each["metadata"]["name"])
        async with started(fleet, part.name, [str(program), *arguments]) as log:
            yield log
    finally:
        await uninstalled([fleet.source], [each["metadata"]["name"] for each in found])


async def _established(fleet: Fleet, name: str) -> None:
    async def served() -> bool:
        return condition(await fleet.source.get(CRDS, name), "Established").get("status") == "True"

    await fleet.until(f"{name} is served", served)


@contextlib.asynccontextmanager
async def started(fleet: Fleet, name: str, command: Sequence[str]) -> AsyncIterator[Path]:
    """Run a program in the network of the source, with all rights there; yield the path of its log."""
    each = fleet.sandbox[fleet.names[0]]
    log = each.directory / f"{name}.log"
    environment = process.environment(os.environ, each.runner.mark(name), str(REPOSITORY))
    pid = process.start(
        command,
        {**environment, "KUBECONFIG": str(each.kubeconfig)},
        log=log,
        pid_file=each.directory / f"{name}.pid",
        namespace=each.runner.cluster.namespace,
    )
    try:
        yield log
    finally:
        os.kill(pid, signal.SIGKILL)
        await process.wait_gone([pid], 10)


@contextlib.asynccontextmanager
async def artifact(fleet: Fleet, folder: Path, manifests: Mapping[str, Raw]) -> AsyncIterator[Raw]:
    """Serve an artifact of a Flux source, as source-controller would; yield `status.artifact`.

    :param manifests: objects by the names of their files
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, manifest in manifests.items():
            content = yaml.safe_dump(manifest).encode()
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    (folder / ARTIFACT).write_bytes(data.getvalue())
    port = free_port()
    serve = [sys.executable, "-m", "http.server", "--bind=127.0.0.1", f"--directory={folder}", str(port)]
    async with started(fleet, "artifacts", serve):
        yield {
            "digest": f"sha256:{hashlib.sha256(data.getvalue()).hexdigest()}",
            "lastUpdateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "path": ARTIFACT,
            "revision": "main@sha1:0000000000000000000000000000000000000001",
            "size": len(data.getvalue()),
            "url": f"http://127.0.0.1:{port}/{ARTIFACT}",
        }
