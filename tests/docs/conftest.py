"""One sandbox for all commands in the documentation. Documented commands start and end it."""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.cli.progress import Silent
from hack.lab.sandbox import Sandbox, binaries
from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.forked import forking
from tests.docs.pages import DOCS, README, blocks
from tests.docs.shell import Shell

QUICK_START = [block.text for block in blocks(DOCS / "start/quickstart.md", "sh")]
FIRST_STEPS, THE_END = [block.text for block in blocks(README, "sh") if not block.mark]
_HERE = Path(__file__).parent
_FLAGS = ("--tuning=discovery-interval=2s,withdraw=1s,slow-target=5s",)
SOON = " ".join(("sandbox up --join", *(f"--agent-flag={flag}" for flag in _FLAGS)))
"""Flags that enable moves and shorten waits. Without them, agents take minutes to detect Placements and seconds
to move each pod. Slow targets are tolerated, since other tests may keep the machine busy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move tests that need the sandbox to the end, so that its clusters run no longer than needed."""
    ours = [number for number, item in enumerate(items) if item.path.parent == _HERE]
    ordered = sorted((items[number] for number in ours), key=lambda item: bool(item.get_closest_marker("cluster")))
    for number, item in zip(ours, ordered, strict=True):
        items[number] = item


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def shell(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shell]:
    """Shell after the README's first steps and two of the quick start, from which every page can be tried."""
    folder = tmp_path_factory.mktemp("docs")
    shell = Shell(checkout(folder / "flotilla"), await programs(folder / "programs"))
    try:
        # Through the installed entry point, not the fork server.
        await shell.run(FIRST_STEPS.replace("sandbox up --join", SOON))
        async with forking(shell.folder / ".venv/bin/flotilla"):
            shell.quick_start = [await shell.run(block) for block in QUICK_START[:3]]
            yield shell
            await shell.run(QUICK_START[-1])
            await shell.run(THE_END)
        assert not (shell.folder / ".sandbox").exists()
    finally:
        await Sandbox(shell.folder / ".sandbox").down()


def checkout(folder: Path) -> Path:
    """Create a reader's checkout from links, so that a developer's own sandbox stays untouched."""
    for name in ("hack", ".venv/bin"):
        (folder / name).mkdir(parents=True)
    programs = (f".venv/bin/{program.name}" for program in Path(sys.executable).parent.iterdir())
    for name in ("charts", "docs", ".venv/lib", ".venv/pyvenv.cfg", *programs):
        (folder / name).symlink_to(REPOSITORY / name)
    setup = folder / "hack" / "setup"
    setup.write_text(f'#!/bin/sh\nexec "{REPOSITORY}/hack/setup" "$@"\n')
    setup.chmod(0o755)
    return folder


async def programs(folder: Path) -> Path:
    """Create a folder for PATH with kubectl and helm."""
    found = await binaries.for_nodes("kwok", Silent())
    link(folder, kubectl=found.paths["kubectl"], helm=await binaries.helm(Silent()))
    return folder


def link(folder: Path, **programs: str) -> None:
    """Create a folder with links to programs."""
    folder.mkdir()
    for name, path in programs.items():
        (folder / name).symlink_to(path)
