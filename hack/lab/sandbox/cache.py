"""The folder that keeps downloads and builds, and its lock."""

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TextIO

from agent.cli.progress import Progress

DOWNLOAD, BUILD, TOOLCHAIN = ".download-", ".build-", ".go-"
"""Prefixes of temporary folders. Each is renamed once it is complete."""


def folder() -> Path:
    """Return the path of the cache: $FLOTILLA_CACHE, else ~/.cache/flotilla."""
    return Path(os.environ.get("FLOTILLA_CACHE") or Path.home() / ".cache" / "flotilla").absolute()


@contextlib.asynccontextmanager
async def exclusive(progress: Progress) -> AsyncIterator[None]:
    """Hold the lock of the cache, and first remove temporary folders of interrupted downloads and builds."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / ".lock").open("w") as lock:
        if not _try_lock(lock):
            with progress:
                task = progress.task("waiting for another download or build")
                while not _try_lock(lock):
                    progress.tick()
                    await asyncio.sleep(0.2)
                task.finish()
        for prefix in (DOWNLOAD, BUILD, TOOLCHAIN):
            for left in folder().glob(f"{prefix}*"):
                shutil.rmtree(left, ignore_errors=True)
        yield


def _try_lock(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
