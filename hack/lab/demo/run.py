"""The whole demo: start the clusters, execute each step, and take everything down."""

import asyncio
import contextlib
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from agent.cli.progress import Progress
from agent.kube.errors import KubeError
from hack.lab.demo import manifests
from hack.lab.demo.display import Display
from hack.lab.demo.explain import dead, explain
from hack.lab.demo.fleet import DemoState
from hack.lab.demo.reader import Clients, connected
from hack.lab.demo.steps import STEP_SECONDS, Step, steps
from hack.lab.sandbox import Sandbox, SandboxError

SOURCE = "cd"
TARGETS = ("us", "eu")
POLL_SECONDS = 0.5
_DOWN_TRIES = 3
_NEXT = """
Try next:

hack/demo                              # the clusters stay up, to try commands
.venv/bin/flotilla sandbox up --join   # clusters that stay, for your own pods
hack/test                              # the tests"""


class Demo:
    """One run of the demo; `interrupt` ends it early and takes everything down."""

    def __init__(
        self, directory: Path, display: Display, progress: Progress, *, once: bool, patience: float = STEP_SECONDS
    ) -> None:
        """Prepare a run.

        :param patience: seconds that a step may take
        """
        self._display = display
        self._once = once
        self._patience = patience
        self._sandbox = Sandbox(directory, (SOURCE, *TARGETS), progress=progress)
        self._task: asyncio.Task[None] | None = None
        self._step = ""
        self._finished = False
        self._closing = False

    @property
    def finished(self) -> bool:
        """True if every step succeeded."""
        return self._finished

    def interrupt(self) -> None:
        """Stop and take everything down. Another call meanwhile does nothing."""
        if self._task is None or self._closing:
            return
        self._closing = True
        self._task.cancel()

    async def run(self) -> None:
        """Run all steps, and take everything down in any case.

        Raises SandboxError that names the step, CancelledError after `interrupt`. A step that fails its check is shown,
        and `finished` stays False.
        """
        self._task = asyncio.current_task()
        try:
            await self._go()
        except (SandboxError, KubeError) as error:
            raise SandboxError(f"{self._step}: {error}") from error
        finally:
            self._closing = True
            try:
                self._display.close()
                self._display.say("\nTaking everything down.")
            finally:
                await self._down()
            self._display.say("Nothing is left: no process, no network, no directory.")
        if self._finished and self._once:
            self._display.say(_NEXT, "cyan")

    async def _go(self) -> None:
        began = time.monotonic()
        await self._up()
        async with connected(self._sandbox) as clients:
            todo = steps(SOURCE, TARGETS, self._sandbox.join)
            for number, step in enumerate(todo, 2):
                self._step = f"{number}. {step.title}"
                if not await self._take(step, clients):
                    return
        self._finished = True
        self._display.say(f"\nAll {len(todo) + 1} steps succeeded ({time.monotonic() - began:.0f} s).", "bold green")
        if not self._once:
            self._invite()
            await asyncio.Event().wait()

    async def _up(self) -> None:
        names = ", ".join((SOURCE, *TARGETS))
        self._step = "1. Three clusters"
        self._display.begin(
            self._step,
            f"{names}: each has its own API server, etcd, controller manager and scheduler, five fake nodes, and the"
            f" agent and webhook of Flotilla. {SOURCE} becomes the source, the others become its targets. If the demo"
            " is killed, this command cleans up:",
            f"{_flotilla()} sandbox down --dir {shlex.quote(str(self._sandbox.directory))}",
        )
        await self._sandbox.up()
        self._display.done(f"{names} are up, with {len(self._sandbox.status())} processes")

    async def _take(self, step: Step, clients: Clients) -> bool:
        self._display.begin(self._step, step.text, step.command, step.app)
        self._display.watch()
        await step.act(clients)
        fleet, reasons = await self._until_true(step, clients)
        if reasons or fleet is None:
            self._display.failed(self._step, reasons, await explain(clients, self._sandbox, fleet))
            return False
        self._display.done(step.summary(fleet))
        return True

    async def _until_true(self, step: Step, clients: Clients) -> tuple[DemoState | None, Sequence[str]]:
        """Return the last state that was read, and why the check fails: no reasons if the step succeeded."""
        deadline = time.monotonic() + self._patience
        fleet: DemoState | None = None
        while True:
            try:
                fleet = await clients.fleet()
                reasons = step.check(fleet)
                self._display.show(fleet, reasons)
            except KubeError as error:
                reasons = [f"the clusters cannot be read: {error}"]
            ended = dead(self._sandbox)
            if ended or not reasons or time.monotonic() > deadline:
                return fleet, [*ended, *reasons]
            await asyncio.sleep(POLL_SECONDS)

    def _invite(self) -> None:
        cluster = self._sandbox[SOURCE]
        environment = cluster.kubeconfig.with_name("env")
        paths = f"{Path(sys.executable).parent}:{Path(self._sandbox.plan.programs['kubectl']).parent}"
        environment.write_text(
            f'export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}\nexport PATH={shlex.quote(paths)}:"$PATH"\n'
        )
        self._display.say("The clusters stay up until Ctrl-C. Try next, in another terminal:\n")
        self._display.say(f"source {shlex.quote(str(environment))}   # kubectl and flotilla, for {SOURCE}\n", "cyan")
        self._display.say(manifests.COMMANDS, "cyan")

    async def _down(self) -> None:
        """Take the sandbox down. A Ctrl-C may also end a program that this runs: then try again."""
        for attempt in range(_DOWN_TRIES):
            try:
                await self._sandbox.down()
                break
            except SandboxError:
                if attempt == _DOWN_TRIES - 1:
                    raise
        with contextlib.suppress(OSError):
            self._sandbox.directory.rmdir()


def _flotilla() -> str:
    """Return the path of the command, relative to the current folder if possible."""
    path = Path(sys.executable).with_name("flotilla")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else "flotilla"
