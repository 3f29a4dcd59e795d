"""From nothing to clusters, through the steps, and back to nothing."""

import asyncio
import contextlib
import shlex
import time
from collections.abc import Sequence
from pathlib import Path

from agent.kube.errors import KubeError
from agent.sandbox import Sandbox, SandboxError
from agent.sandbox.demo import manifests
from agent.sandbox.demo.display import Display
from agent.sandbox.demo.explain import dead, explain
from agent.sandbox.demo.fleet import DemoState
from agent.sandbox.demo.reader import Clients, connected
from agent.sandbox.demo.steps import STEP_SECONDS, Step, steps
from agent.sandbox.progress import Progress

SOURCE = "cd"
TARGETS = ("us", "eu")
POLL_SECONDS = 0.5
_DOWN_TRIES = 3


class Demo:
    """Runs once; `interrupt` ends it early, and cleanly."""

    def __init__(
        self, directory: Path, display: Display, progress: Progress, *, once: bool, patience: float = STEP_SECONDS
    ) -> None:
        """`patience`: seconds that a step has to come true."""
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
        """Whether every step came true."""
        return self._finished

    def interrupt(self) -> None:
        """Stop and take everything down; a second call, or one while that goes on, does nothing."""
        if self._task is None or self._closing:
            return
        self._closing = True
        self._task.cancel()

    async def run(self) -> None:
        """Everything; takes down what it brought up, whatever happens.

        Raises SandboxError or KubeError naming the step, CancelledError after `interrupt`. A step that does not come
        true is shown, and `finished` stays False.
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
        self._display.say(f"\nEvery step came true ({time.monotonic() - began:.0f} s).", "bold green")
        if not self._once:
            self._invite()
            await asyncio.Event().wait()

    async def _up(self) -> None:
        names = ", ".join((SOURCE, *TARGETS))
        self._step = "1. Three clusters"
        self._display.begin(
            self._step,
            f"{names}: for each an API server with etcd, controller manager and scheduler, five fake nodes, and our"
            f" agent and webhook. {SOURCE} is to be the source, the others its targets. Should this ever be killed,"
            " the command below cleans up.",
            f"flotilla sandbox down --dir {shlex.quote(str(self._sandbox.directory))}",
        )
        await self._sandbox.up()
        self._display.done(", ".join(f"{cluster.name} at {cluster.server}" for cluster in self._sandbox.clusters))

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
        """The last that was read, and what was not true of it: nothing when the step came true."""
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
        kubectl = Path(self._sandbox.plan.programs["kubectl"]).parent
        self._display.say("The clusters stay up until Ctrl-C. In another terminal:\n")
        lines = [
            f"export KUBECONFIG={shlex.quote(str(cluster.kubeconfig))}",
            f'export PATH={shlex.quote(str(kubectl))}:"$PATH"',
            "kubectl get nodes,targets",
            f"kubectl apply -f - <<'EOF'\n{manifests.sample()}EOF",
            "kubectl get pods -o wide",
            *(f"kubectl --kubeconfig {shlex.quote(str(self._sandbox[name].kubeconfig))} get pods" for name in TARGETS),
        ]
        self._display.say("\n".join(lines), "cyan")

    async def _down(self) -> None:
        """Take the sandbox down. A Ctrl-C meant for us may end a helper program on the way: then again."""
        for attempt in range(_DOWN_TRIES):
            try:
                await self._sandbox.down()
                break
            except SandboxError:
                if attempt == _DOWN_TRIES - 1:
                    raise
        with contextlib.suppress(OSError):
            self._sandbox.directory.rmdir()
