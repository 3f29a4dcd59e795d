"""The command `flotilla` for a shell, forked per call from a process that has imported all modules.

A new process costs 0.9 s of CPU, most of it for imports."""

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
"""Client script. The server reads its arguments, environment, folder and streams from /proc. A subshell sends
the PID, because sending it from bash itself would make the socket bash's standard output for that time."""


@contextlib.asynccontextmanager
async def forking(program: Path) -> AsyncIterator[None]:
    """Run the fork server and replace the program with its client, which stays afterwards but no longer works."""
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
    program.unlink()  # The path may be a link.
    program.write_text(script)
    program.chmod(0o755)


def serve() -> None:
    """Fork for every client until standard input ends, then wait for the remaining children."""
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
    """Reap children, so that this process accounts for their CPU time (tests/costs.py)."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def _run(client: socket.socket) -> None:
    """Run the command for a client in the forked child and send the exit status."""
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
    # Otherwise the usage text names the package that `python -m` started.
    vars(sys.modules["__main__"])["__package__"] = None


def _status(code: object) -> int:
    """Return the exit status for an argument of `sys.exit`, as the interpreter does."""
    if code is None or isinstance(code, int):
        return code or 0
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    serve()
