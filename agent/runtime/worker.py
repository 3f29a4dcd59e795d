"""A worker: one function in a process of its own, which may crash, hang or take all memory without harm to this one.

The process is started at the first request, and again after it has ended. Requests and answers are bytes, each after
its length, over the process's standard input and output: when this process ends, however it does, the worker reads the
end of its input and ends, too.
"""

import asyncio
import contextlib
import importlib
import logging
import os
import resource
import signal
import struct
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path

from agent.base.fairlock import FairLock

log = logging.getLogger(__name__)

CPU_SECONDS = 1.0
"""Seconds of CPU time for a request. Wall-clock time would depend on throttling of the agent."""
_PATIENCE_SECONDS = 15.0
"""Timeout in seconds by the wall clock for a request, and for the start of a worker on a busy machine."""
_MEMORY_BYTES = 256 << 20
"""Bytes of address space; Python and its libraries take a third."""
_LENGTH = struct.Struct(">I?")
"""Head of each message: the length of the body in bytes, and True for an answer, False for an error."""
_ROOT = Path(__file__).resolve().parents[2]


class WorkerFailed(Exception):
    """A request has no answer; the message is the reason."""


class Worker:
    """Calls a function from bytes to bytes in another process; `serves` names it as `package.module:function`."""

    def __init__(self, serves: str, cpu_seconds: float = CPU_SECONDS) -> None:
        self._serves = serves
        self._cpu_seconds = cpu_seconds
        self._process: Process | None = None
        self._turns = FairLock()

    @property
    def pid(self) -> int | None:
        """Return the process ID; None if no process runs."""
        return self._process.pid if self._process is not None else None

    async def ask(self, request: bytes, share: str = "") -> bytes:
        """Return the answer to one request; requests are answered one after the other.

        If the caller is cancelled once the process has the request, the next request waits for the end of this one.

        :param share: whose request it is: shares get equal parts of the worker's time
        :raises WorkerFailed: when the function fails, takes too long, or ends its process
        """
        async with self._turns.turn(share):
            exchange = asyncio.create_task(self._answered(request))
            try:
                good, answer = await asyncio.shield(exchange)
            except asyncio.CancelledError:
                # Starting a process costs more than most requests, and a user cancels one with each edit of an object.
                await _ended(exchange)
                raise
        if not good:
            raise WorkerFailed(answer.decode(errors="replace"))
        return answer

    async def close(self) -> None:
        """End the process, and so the request that it answers; the next request starts another."""
        await self._end()
        # A process that was being started answers its request before.
        async with self._turns.turn(""):
            await self._end()

    async def _answered(self, request: bytes) -> tuple[bool, bytes]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                return await self._exchange(request)
        except TimeoutError:
            await self._end()
            raise WorkerFailed(f"no answer within {_PATIENCE_SECONDS:.0f} s") from None
        except BaseException:
            await self._end()
            raise

    async def _exchange(self, request: bytes) -> tuple[bool, bytes]:
        alive = self._process is not None and self._process.returncode is None
        process = self._process if self._process is not None and alive else await self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_LENGTH.pack(len(request), True))
            process.stdin.write(request)
            await process.stdin.drain()
            length, good = _LENGTH.unpack(await process.stdout.readexactly(_LENGTH.size))
            return good, await process.stdout.readexactly(length)
        except (OSError, asyncio.IncompleteReadError):
            why = self._why(await process.wait())
            if self._process is process:
                log.warning("the worker of %s has ended: %s", self._serves, why)
            raise WorkerFailed(why) from None

    async def _start(self) -> Process:
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        command = (sys.executable, "-P", "-m", __name__, self._serves, str(self._cpu_seconds))
        environment = {**os.environ, "PYTHONPATH": path}
        try:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment
            )
        except OSError as error:
            raise WorkerFailed(f"its process cannot be started: {error}") from error
        return self._process

    def _why(self, code: int) -> str:
        if code == -signal.SIGPROF:
            return f"it takes more than {self._cpu_seconds:g} s"
        return f"its process ended with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}"

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _ended(exchange: asyncio.Task[tuple[bool, bytes]]) -> None:
    """Wait until an exchange has ended. Cancel it if the caller is cancelled again."""
    try:
        await asyncio.wait((exchange,))
    finally:
        if not exchange.cancel():
            # Read, so that asyncio does not log it.
            exchange.exception()


def serve(function: Callable[[bytes], bytes], cpu_seconds: float) -> None:
    """Answer requests until the input ends; a request that takes too long ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with os.fdopen(0, "rb", closefd=False) as requests, os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)
        while head := requests.read(_LENGTH.size):
            request = requests.read(_LENGTH.unpack(head)[0])
            signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
            try:
                good, answer = True, function(request)
            except Exception as error:
                good, answer = False, f"{type(error).__name__}: {error}".encode()
            signal.setitimer(signal.ITIMER_PROF, 0)
            answers.write(_LENGTH.pack(len(answer), good) + answer)
            answers.flush()


def main() -> None:
    """Run the worker process."""
    module, _, function = sys.argv[1].partition(":")
    serve(getattr(importlib.import_module(module), function), float(sys.argv[2]))


if __name__ == "__main__":
    main()
