"""Backup and restore of a cluster's etcd while the cluster runs; a restore loses all later changes."""

import asyncio
import shutil
import signal
from pathlib import Path

from hack.lab.sandbox.components import AGENT, APISERVER, ETCD, WEBHOOK, components
from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.sandbox import Sandbox

_OURS = (AGENT.name, WEBHOOK.name)


async def back_up(sandbox: Sandbox, cluster: str) -> Path:
    """Copy the data of a cluster's etcd, which is stopped meanwhile. Return the copy. Raises SandboxError."""
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
    """Restore a cluster's etcd from a backup. Raises SandboxError.

    Restarts all Kubernetes processes with watches, as Kubernetes requires. Flotilla's agents and webhooks keep
    running.
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
    """Copy a folder with holes, since most of etcd's files are zeros."""
    process = await asyncio.create_subprocess_exec(
        "cp", "--archive", "--sparse=always", str(source), str(target), stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    if process.returncode:
        raise SandboxError(f"cannot copy {source}: {errors.decode(errors='replace').strip()}")
