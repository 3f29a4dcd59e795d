"""Programs built from Go modules: slow the first time, but all it takes is Go."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.sandbox.progress import Progress, ticking

TEMPORARY = ".build-"

_USUAL_GO = "/usr/local/go/bin/go"
_LAST_LINES = 8


class BuildError(Exception):
    """A program cannot be built here; the message says why."""


def find_go() -> str:
    """Path of Go. Raises BuildError when it is not installed."""
    found = shutil.which("go") or shutil.which(_USUAL_GO)
    if not found:
        raise BuildError("Go is missing: install Go 1.26 or newer (https://go.dev/dl)")
    return found


async def control_plane(source: Path, out: Path, progress: Progress) -> None:
    """Build the control plane into the folder `out`, which appears complete or not at all. Raises BuildError."""
    go = find_go()
    script = source / "build"
    if not script.exists():
        raise BuildError(f"{source} is missing: it is part of the source repository only")
    with progress:
        task = progress.task("compiling the control plane")
        task.update(0, None, "reading the modules")
        packages: list[str] = []
        listing = _run([go, "list", "-deps", "."], cwd=source, line=packages.append, line_from="stdout")
        await ticking(progress, listing)
        compiled: list[str] = []

        def show(line: str) -> None:
            if " " not in line:
                compiled.append(line)
                task.update(len(compiled), len(packages), f"{len(compiled)} of {len(packages)} packages")

        await ticking(progress, _run([str(script), str(out)], cwd=source, line=show))
        task.finish()


async def older(source: Path, out: Path, version: str, progress: Progress) -> None:
    """Build the control plane of another version into the folder `out`, all or nothing. Raises BuildError."""
    find_go()
    script = source / "build"
    if not script.exists():
        raise BuildError(f"{source} is missing: it is part of the source repository only")
    with progress:
        task = progress.task(f"compiling the control plane of Kubernetes {version}")
        compiled: list[str] = []

        def show(line: str) -> None:
            if " " not in line:
                compiled.append(line)
                task.update(len(compiled), None, f"{len(compiled)} packages")

        await ticking(progress, _run([str(script), str(out), version], cwd=source, line=show))
        task.finish()


@dataclass(frozen=True)
class Module:
    """A program that a Go module makes by itself."""

    program: str
    version: str
    package: str
    stamp: str = ""
    """The variable of its code that says which version it is, where it has to be told."""


async def module(what: Module, out: Path, progress: Progress) -> None:
    """Build a module's program into the folder `out`. Raises BuildError."""
    go = find_go()
    with progress, tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=out.parent, ignore_cleanup_errors=True) as folder:
        task = progress.task(f"compiling {what.program}")
        compiled: list[str] = []

        def show(line: str) -> None:
            compiled.append(line)
            task.update(len(compiled), None, f"{len(compiled)} packages")

        environment = {"GOBIN": folder, "CGO_ENABLED": "0"}
        stamp = f" -X {what.stamp}={what.version}" if what.stamp else ""
        flags = ["-v", "-trimpath", f"-ldflags=-s -w{stamp}"]
        argv = [go, "install", *flags, f"{what.package}@{what.version}"]
        await ticking(progress, _run(argv, env=environment, line=show))
        _place(Path(folder, what.program), out)
        task.finish()


def _place(program: Path, out: Path) -> None:
    out.mkdir(exist_ok=True)
    program.replace(out / program.name)


async def _run(
    argv: Sequence[str],
    *,
    line: Callable[[str], None],
    line_from: str = "stderr",
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command in a process group of its own, which dies with us. Raises BuildError with its last words."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    last: deque[str] = deque(maxlen=_LAST_LINES)

    async def read(stream: asyncio.StreamReader, name: str) -> None:
        while data := await stream.readline():
            text = data.decode(errors="replace").rstrip()
            if name == line_from:
                line(text)
            if name == "stderr":
                last.append(text)

    try:
        await asyncio.gather(read(process.stdout, "stdout"), read(process.stderr, "stderr"))
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    if process.returncode:
        words = "\n".join(f"    {text[:300]}" for text in last)
        raise BuildError(f"`{' '.join(argv[:2])} ...` failed ({process.returncode}):\n{words}")
