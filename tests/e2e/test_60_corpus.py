"""Promise 60: manifests written for one cluster give the same result in a plain and in an electing namespace."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.api.kinds import SERVICES
from agent.kube.errors import AlreadyExists, KubeError
from hack.lab.corpus import report
from hack.lab.corpus.expected import EXPECTED
from hack.lab.corpus.files import OWN, File, read
from hack.lab.corpus.ground import Ground, ground_of
from hack.lab.corpus.run import run
from hack.lab.corpus.trial import Result
from hack.lab.corpus.views import ENDPOINTS
from tests.e2e.fleet import Fleet
from tests.e2e.test_14_missing_things import PRIORITY_CLASSES

SIDE_BY_SIDE = 10
PARTS = 4
COVERS_MOST = "three-tiers.yaml"


@pytest_asyncio.fixture(loop_scope="session")
async def ground(fleet: Fleet) -> AsyncIterator[Ground]:
    """The fleet's source and one of its targets; the other target serves as the plain cluster."""
    clusters = {"source": "cd", "targets": ("us",), "plain": "eu"}
    async with ground_of(fleet.sandbox, fleet.clients, **clusters, home=fleet.home) as ground:
        yield ground


def told(result: Result) -> None:
    print(report.line(result, EXPECTED))


async def compared(ground: Ground, files: list[File]) -> None:
    """Apply manifests, several at a time, and fail on each difference that EXPECTED does not explain."""
    results = await run(ground, files, told, side_by_side=SIDE_BY_SIDE)
    assert report.unexpected(results, EXPECTED) == [], "\n".join(report.table(results, EXPECTED))


@pytest.mark.timeout(600)
async def test_the_one_that_covers_most_comes_out_alike(ground: Ground) -> None:
    files = {file.name: file for file in read(OWN)}
    await compared(ground, [files[COVERS_MOST]])


@pytest.mark.full("A variant of the comparison with a plain cluster.")
async def test_what_is_there_already_is_neither_changed_nor_deleted(ground: Ground, tmp_path: Path) -> None:
    name = "corpus-theirs"
    made = await ground.source.client.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 7})
    try:
        (tmp_path / "class.yaml").write_text(
            f"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {{name: {name}}}\nvalue: 8\n"
        )
        (result,) = await run(ground, read(tmp_path), told, side_by_side=1)
        (why,) = result.unlike
        assert why.startswith(f"could not be compared: cd has PriorityClass {name}, which is left alone")
        assert await ground.source.client.get(PRIORITY_CLASSES, name) == made
    finally:
        await ground.source.client.delete(PRIORITY_CLASSES, name)


WRITTEN = """
apiVersion: v1
kind: Service
metadata: {name: written, namespace: corpus-written}
spec: {selector: {app: nothing}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand, namespace: corpus-written}
spec: {ports: [{port: 80}]}
"""


async def write_on(ground: Ground, namespace: str) -> None:
    """Update one Service repeatedly and create core/v1 Endpoints for another, in the source only."""
    client = ground.source.client
    made = {"metadata": {"name": "by-hand"}, "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}]}
    for number in itertools.count():
        with contextlib.suppress(KubeError):
            mark = {"metadata": {"annotations": {"multicluster/test": str(number)}}}
            await client.patch(SERVICES, "written", mark, namespace)
            with contextlib.suppress(AlreadyExists):
                await client.create(ENDPOINTS, made, namespace)
        await asyncio.sleep(0.3)


@pytest.mark.full("A variant of the comparison with a plain cluster.")
async def test_writes_of_services_and_their_endpoints_are_differences(ground: Ground, tmp_path: Path) -> None:
    (tmp_path / "written.yaml").write_text(WRITTEN)
    writing = asyncio.create_task(write_on(ground, "corpus-written"))
    try:
        (result,) = await run(ground, read(tmp_path), told, side_by_side=1, patience=5)
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    found = "\n".join(result.unlike)
    assert "Service corpus-written/written in cd: is being written again and again" in found
    assert "references.port:80 ready" in found


@pytest.mark.seldom
@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", range(PARTS))
async def test_all_come_out_alike(ground: Ground, part: int) -> None:
    await compared(ground, read(OWN)[part::PARTS])
