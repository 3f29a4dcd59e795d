"""Backups of a cluster's etcd, made while it works, and restored: the cluster forgets what came after."""

import asyncio
import shutil
import signal
from pathlib import Path

from hack.lab.sandbox.components import AGENT, APISERVER, ETCD, WEBHOOK, components
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.sandbox import Sandbox

_OURS = (AGENT.name, WEBHOOK.name)


async def back_up(sandbox: Sandbox, cluster: str) -> Path:
    """Copy the data of a cluster's etcd, which stands still meanwhile; returns the copy. Raises SandboxError."""
    directory = sandbox[cluster].directory
    number = 1 + sum(1 for _ in directory.glob("etcd-backup-*"))
    copy = directory / f"etcd-backup-{number}"
    await sandbox.kill(cluster, ETCD.name, signal.SIGSTOP)
    try:
        await _copy(directory / "etcd", copy)
    finally:
        await sandbox.kill(cluster, ETCD.name, signal.SIGCONT)
    return copy


async def restore(sandbox: Sandbox, cluster: str, backup: Path) -> None:
    """Have a cluster be what it was when a backup was made. Raises SandboxError.

    As Kubernetes demands, whatever knows the cluster by watches starts again; our own agent and webhook, and those of
    other clusters, do not.
    """
    names = [name for name in components(sandbox.plan) if name not in _OURS]
    known_by_watches = [name for name in names if name not in (ETCD.name, APISERVER.name)]
    for name in (*known_by_watches, APISERVER.name, ETCD.name):
        await sandbox.stop(cluster, name)
    data = sandbox[cluster].directory / "etcd"
    shutil.rmtree(data)
    await _copy(backup, data)
    for name in (ETCD.name, APISERVER.name, *known_by_watches):
        await sandbox.start(cluster, name)


async def _copy(source: Path, target: Path) -> None:
    """Most of what etcd has on disk is zeros."""
    process = await asyncio.create_subprocess_exec(
        "cp", "--archive", "--sparse=always", str(source), str(target), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise SandboxError(f"cannot copy {source}: {errors.decode(errors='replace').strip()}")
