"""The sandbox's directory: its record, its lock, and its removal."""

import asyncio
import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.plan import Plan

RECORD = "sandbox.json"
BYTES_PER_CLUSTER = 220 << 20
"""Disk space per cluster in bytes: etcd preallocates most of it for its logs (measured)."""


def load(directory: Path) -> Plan | None:
    """Return the record of the sandbox in a directory; None without a sandbox.

    Raises SandboxError if it is damaged, or if the directory was moved: its processes use the old path.
    """
    try:
        plan = Plan.parse((directory / RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    check_place(directory)
    return plan


def check_place(directory: Path) -> None:
    """Raise SandboxError if the directory was moved. Accepts a damaged record, so that `down` works."""
    try:
        plan = Plan.parse((directory / RECORD).read_bytes())
    except (FileNotFoundError, SandboxError):
        return
    if plan.directory != str(directory):
        raise SandboxError(f"this sandbox was started in {plan.directory}: move its directory back there")


def save(directory: Path, plan: Plan) -> None:
    """Write the record, complete or not at all."""
    temporary = directory / f".{RECORD}"
    temporary.write_bytes(plan.dump())
    temporary.replace(directory / RECORD)


def claim(directory: Path, clusters: int) -> None:
    """Claim an empty directory for a sandbox. Raises SandboxError if it contains other files, or the disk is full."""
    if any(entry.name != f".{RECORD}" for entry in directory.iterdir()):
        raise SandboxError(f"{directory} is not empty and not a sandbox: choose another --dir")
    needed = BYTES_PER_CLUSTER * clusters
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise SandboxError(
            f"the disk of {directory} is too full: {clusters} cluster(s) need {needed >> 20} MiB,"
            f" {free >> 20} MiB are free; free some space, or use another --dir"
        )


def remove(directory: Path) -> None:
    """Remove a sandbox's files, and the directory if it is empty then."""
    if not directory.is_dir():
        return
    for entry in directory.iterdir():
        if entry.is_dir() and ((entry / "pki").is_dir() or not any(entry.iterdir())):
            shutil.rmtree(entry)
    for name in (RECORD, f".{RECORD}"):
        (directory / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


@contextlib.asynccontextmanager
async def locked(directory: Path, *, create: bool) -> AsyncIterator[bool]:
    """Lock the sandbox against other commands. Yields whether the directory exists (always, with `create`)."""
    while True:
        if create:
            _make(directory)
        try:
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            yield False
            return
        except NotADirectoryError:
            raise SandboxError(f"{directory} is a file: choose another --dir") from None
        try:
            await _lock(descriptor)
            # The previous holder may have removed the directory: then this lock protects nothing.
            if _is_same(directory, descriptor):
                yield True
                return
        finally:
            os.close(descriptor)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise SandboxError(f"{directory} is a file: choose another --dir") from None
    except OSError as error:
        raise SandboxError(f"cannot make {directory}: {error.strerror}") from error


async def _lock(descriptor: int) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            await asyncio.sleep(0.1)


def _is_same(directory: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(directory), os.fstat(descriptor))
    except FileNotFoundError:
        return False
