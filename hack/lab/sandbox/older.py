"""Control planes of other Kubernetes versions: from the cache, the releases, or a build."""

import os
from pathlib import Path

from agent.cli.progress import Progress
from hack.lab.sandbox import binaries, build, cache, download, golang
from hack.lab.sandbox.components import CONTROL_PLANE
from hack.lab.sandbox.errors import BuildError, SandboxError


def folder(version: str) -> Path:
    """Return the cache folder of a version's programs."""
    return cache.folder() / f"control-plane-{version}"


async def find(version: str, progress: Progress, *, compile: bool = True) -> dict[str, str]:
    """Find, download or build the Kubernetes programs of a version (`v1.30.14`). Return paths by name.

    `compile`: whether to build them as a last resort, which takes ten minutes or more. Raises SandboxError with
    all attempts.
    """
    try:
        async with cache.exclusive(progress):
            if not _is_there(version):
                await _obtain(version, progress, compile)
    except OSError as error:
        raise SandboxError(f"cannot use the cache {cache.folder()}: {error}") from error
    return paths(version)


def paths(version: str) -> dict[str, str]:
    """Return the paths of a version's programs in the cache, by name."""
    return {name: str(folder(version) / name) for name in CONTROL_PLANE}


def _is_there(version: str) -> bool:
    return all(os.access(folder(version) / name, os.X_OK) for name in CONTROL_PLANE)


async def _obtain(version: str, progress: Progress, compile: bool) -> None:
    try:
        await download.fetch(CONTROL_PLANE, binaries.architecture(), folder(version), progress, kubernetes=version)
    except download.DownloadError as error:
        reasons = [f"download: {error}"]
    else:
        return
    if compile:
        try:
            await build.older(golang.SOURCE / "older", folder(version), version, progress)
        except BuildError as error:
            reasons.append(f"build: {error}")
        else:
            return
    else:
        reasons.append(f"not built: `flotilla sandbox programs --kubernetes {version[1:]}` does that")
    tried = "\n".join(f"  - {reason}" for reason in reasons)
    raise SandboxError(f"a control plane of Kubernetes {version} could not be had:\n{tried}")
