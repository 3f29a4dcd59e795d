"""Where a test of this folder has a sandbox of its own."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from hack.lab.sandbox import Sandbox


@pytest_asyncio.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """For one sandbox; what a test leaves in it is taken down."""
    directory = tmp_path / "sandbox"
    yield directory
    await Sandbox(directory).down()
