"""flotilla demo: run pods across three real clusters."""

import asyncio
import io
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent.cli.options import duration, run_interruptible
from agent.cli.progress import default
from agent.kube.errors import KubeError
from hack.lab.demo import Demo
from hack.lab.demo.display import Display
from hack.lab.demo.steps import STEP_SECONDS
from hack.lab.sandbox import SandboxError

INTERRUPTED = 130


def demo(
    once: Annotated[bool, typer.Option("--once", help="Take everything down at the end, rather than stay up.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory to make for the clusters; by default a temporary one.")
    ] = None,
    patience: Annotated[float, duration(help="How long each step may take.")] = STEP_SECONDS,
) -> None:
    """Run a Deployment and a Job of one cluster in two others, and check every step in the clusters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Terminals without UTF-8 cannot print every character.
        sys.stdout.reconfigure(errors="replace")
    work: Demo | None = None
    try:
        work = Demo(_place(directory), Display(Console()), default(), once=once, patience=patience)
        run_interruptible(_guarded(work))
    except (SandboxError, KubeError) as error:
        print(f"flotilla: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        if work is None or not work.finished:
            print("flotilla: interrupted; everything started was taken down", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    if not work.finished:
        raise typer.Exit(1)


def _place(directory: Path | None) -> Path:
    """Create the directory, which is removed in the end, so it must not exist before."""
    if directory is None:
        return Path(tempfile.mkdtemp(prefix="flotilla-demo-"))
    try:
        directory.mkdir(parents=True)
    except FileExistsError:
        raise SandboxError(f"{directory} exists, and the demo would remove it: choose another --dir") from None
    except OSError as error:
        raise SandboxError(f"cannot make {directory}: {error.strerror}") from error
    return directory


async def _guarded(work: Demo) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, work.interrupt)
    await work.run()
