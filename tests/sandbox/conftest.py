"""Directory for a sandbox of a single test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from hack.lab.sandbox import Sandbox


@pytest_asyncio.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    """Directory of one sandbox. Takes down a sandbox that a test leaves in it."""
    directory = tmp_path / "sandbox"
    yield directory
    await Sandbox(directory).down()
