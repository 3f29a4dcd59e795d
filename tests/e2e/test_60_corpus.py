"""Promise 60: manifests as people write them come out alike, plain and where they are elected by default."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from hack.corpora import report
from hack.corpora.expected import EXPECTED
from hack.corpora.files import OWN, File, read
from hack.corpora.ground import Ground, ground_of
from hack.corpora.run import run
from hack.corpora.trial import Result
from tests.e2e.fleet import Fleet
from tests.e2e.test_14_missing_things import PRIORITY_CLASSES

SIDE_BY_SIDE = 10
PARTS = 4
COVERS_MOST = "three-tiers.yaml"


@pytest_asyncio.fixture(loop_scope="session")
async def ground(fleet: Fleet) -> AsyncIterator[Ground]:
    """The source and a target of this fleet; its other cluster is the plain one."""
    clusters = {"source": "cd", "targets": ("us",), "plain": "eu"}
    async with ground_of(fleet.sandbox, fleet.clients, **clusters, home=fleet.home) as ground:
        yield ground


def told(result: Result) -> None:
    print(report.line(result, EXPECTED))


async def compared(ground: Ground, files: list[File]) -> None:
    """Apply manifests, several side by side, and see what differs of which nobody has said why."""
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


@pytest.mark.seldom
@pytest.mark.timeout(400)
@pytest.mark.parametrize("part", range(PARTS))
async def test_all_come_out_alike(ground: Ground, part: int) -> None:
    await compared(ground, read(OWN)[part::PARTS])
