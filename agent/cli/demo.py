"""flotilla demo: see it work, on three real clusters."""

import asyncio
import io
import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agent.kube.errors import KubeError
from agent.sandbox import SandboxError
from agent.sandbox.demo import Demo
from agent.sandbox.demo.display import Display
from agent.sandbox.demo.steps import STEP_SECONDS
from agent.sandbox.progress import default

INTERRUPTED = 130


def demo(
    once: Annotated[bool, typer.Option("--once", help="Take everything down at the end, rather than stay up.")] = False,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Directory of the clusters; by default a new temporary one.")
    ] = None,
    patience: Annotated[float, typer.Option(min=0, help="Seconds that each step has to come true.")] = STEP_SECONDS,
) -> None:
    """Run a Deployment and a Job of one cluster in two others, and check every step on the clusters."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal that does not know every character is no reason to stop.
        sys.stdout.reconfigure(errors="replace")
    place = directory or Path(tempfile.mkdtemp(prefix="flotilla-demo-"))
    work = Demo(place, Display(Console()), default(), once=once, patience=patience)
    try:
        asyncio.run(_guarded(work))
    except (SandboxError, KubeError) as error:
        print(f"flotilla: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        if not work.finished:
            print("flotilla: interrupted; everything started was taken down", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
    if not work.finished:
        raise typer.Exit(1)


async def _guarded(work: Demo) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, work.interrupt)
    await work.run()
