"""Commands that run for minutes: compilers and pip."""

import asyncio
import contextlib
import os
import shutil
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hack.lab.sandbox.errors import BuildError, SandboxError

_LAST_LINES = 8
_DISK_FULL = "no space left on device"


async def run(
    argv: Sequence[str],
    *,
    line: Callable[[str], None] = lambda _: None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a command in a process group of its own, which ends when this process ends, also by SIGKILL.

    Raises BuildError with the command's last lines, SandboxError if the disk is full.

    :param line: called with each line of its standard error
    :param env: variables to set in addition to those of this process
    """
    process = await _start(argv, cwd, env or {})
    assert process.stderr is not None
    last: deque[str] = deque(maxlen=_LAST_LINES)
    full = ""
    try:
        while data := await process.stderr.readline():
            text = data.decode(errors="replace").rstrip()
            line(text)
            last.append(text)
            full = full or (text if _DISK_FULL in text.lower() else "")
        await process.wait()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            await process.wait()
    if process.returncode and full:
        raise SandboxError(_disk_full(full))
    if process.returncode:
        words = "\n".join(f"    {text[:300]}" for text in last)
        raise BuildError(f"`{' '.join(argv[:2])} ...` failed ({process.returncode}):\n{words}")


async def _start(argv: Sequence[str], cwd: Path | None, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    # Without setpriv, a compiler whose starter was killed would continue next to that of the next attempt.
    setpriv = shutil.which("setpriv")
    dying = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []
    pipe, quiet = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    environment = {**os.environ, **env}
    return await asyncio.create_subprocess_exec(
        *dying, *argv, cwd=cwd, env=environment, stdin=quiet, stdout=quiet, stderr=pipe, start_new_session=True
    )


def _disk_full(text: str) -> str:
    return (
        f"a disk is full: {text.strip()[:300]}\nFree some space (a build takes 4 GB), or put these folders on a larger"
        " disk: $FLOTILLA_CACHE (programs), $GOCACHE and $GOPATH (of Go), $TMPDIR"
    )
