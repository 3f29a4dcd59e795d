"""The command `flotilla` for a shell, forked for each call by a process that has imported all of it.

A process of its own costs 0.9 s of CPU, most of it imports.
"""

import asyncio
import atexit
import contextlib
import gc
import importlib
import os
import select
import socket
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

from agent import cli
from hack.lab.sandbox.objects import REPOSITORY

_CLIENT = """#!/bin/bash
exec 3<>/dev/tcp/127.0.0.1/{port}
(echo $$ >&3)
read -r -u 3 status
exit "$status"
"""
"""Its words, environment, folder and streams are read from /proc. A subshell sends its PID: bash itself would have the
socket as standard output for as long as that takes."""


@contextlib.asynccontextmanager
async def forking(program: Path) -> AsyncIterator[None]:
    """Put a client in the place of a program, and run the process that does its work; the client stays, of no use."""
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, cwd=REPOSITORY, stdin=pipe, stdout=pipe
    )
    assert server.stdin
    assert server.stdout
    try:
        port = int(await server.stdout.readline())
        _replace(program, _CLIENT.format(port=port))
        yield
    finally:
        server.stdin.close()
        await server.wait()


def _replace(program: Path, script: str) -> None:
    program.unlink()  # It may be a link.
    program.write_text(script)
    program.chmod(0o755)


def serve() -> None:
    """Fork for every client until standard input ends, and wait for those that have not ended then."""
    for module in {*cli.verb_modules().values()}:
        importlib.import_module(module)
    gc.freeze()
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(server.getsockname()[1], flush=True)
        while sys.stdin not in select.select([sys.stdin, server], [], [])[0]:
            client, _ = server.accept()
            _reap(os.WNOHANG)
            if os.fork() == 0:
                server.close()
                _run(client)
            client.close()
    _reap(0)


def _reap(options: int) -> None:
    """What children have spent is told to whoever asks this process (tests/costs.py)."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _run(client: socket.socket) -> None:
    """Be the command that a client stands for, and tell it how it has ended."""
    code = 1
    try:
        _become(Path("/proc") / client.makefile().readline().strip())
        cli.main()
    except SystemExit as ended:
        code = _status(ended.code)
    except BaseException:
        traceback.print_exc()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    client.sendall(f"{code}\n".encode())
    os._exit(code)


def _become(client: Path) -> None:
    _, *sys.argv = os.fsdecode((client / "cmdline").read_bytes()).split("\0")[:-1]
    variables = os.fsdecode((client / "environ").read_bytes()).split("\0")
    os.environ.clear()
    os.environ.update(each.split("=", 1) for each in variables if each)
    os.chdir((client / "cwd").readlink())
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND)):
        os.dup2(os.open(client / "fd" / str(number), flags), number)
    # The package that was started by `python -m` would be the command's name in what it says about its usage.
    vars(sys.modules["__main__"])["__package__"] = None


def _status(code: object) -> int:
    """Exit status, as the interpreter makes it of what `sys.exit` is told."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    serve()
