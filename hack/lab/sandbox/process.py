"""Processes that outlive the command that started them: start, find, signal, wait.

Each has a mark in its environment that names its sandbox. A pid file contains the process id; the mark shows
whether it is still the same process. So `down` never signals a reused process id, and also finds processes
without a pid file.
"""

import asyncio
import contextlib
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.lab.sandbox.errors import SandboxError

MARK = "FLOTILLA_SANDBOX_PROCESS"
LAST_LINES = 8

_KERNEL_THREAD = 0x00200000
_EXEC_SECONDS = 5.0
_ENOUGH = 10
_POLL_SECONDS = 0.002
_DROPPED = ("ETCD_", "KUBE", "FLOTILLA_")


def environment(base: Mapping[str, str], mark: str, python_path: str) -> dict[str, str]:
    """Return the environment of a process, without variables that would configure a component unintentionally.

    It omits proxies as well: clusters cannot be reached through a proxy for the internet.
    """
    kept = {
        name: value
        for name, value in base.items()
        if not name.startswith(_DROPPED) and not name.lower().endswith("_proxy")
    }
    kept["PYTHONPATH"] = python_path
    kept["PYTHONUNBUFFERED"] = "1"
    kept[MARK] = mark
    return kept


def start(
    argv: Sequence[str], env: Mapping[str, str], *, log: Path, pid_file: Path, namespace: str = "", mounts: int = 0
) -> int:
    """Start a process in a new session, and in a network namespace if one is named; its output is written to `log`.

    The process inherits no open files: it would keep locks or pipes of its starter open. `mounts` is the id of
    a process whose mount namespace it joins, 0 for none; this requires a network namespace.

    Raises SandboxError if the program is missing, OSError if the log or the pid file cannot be written.
    """
    name = argv[0]
    if not os.access(name, os.X_OK):
        raise SandboxError(f"{name} is missing or not executable: take the sandbox down and up again")
    command = list(argv)
    if namespace:
        # `ip netns exec` would mount a new /sys, which hides the cgroups from a kubelet (measured).
        entered = [f"--net=/var/run/netns/{namespace}", *([f"--mount=/proc/{mounts}/ns/mnt"] if mounts else [])]
        command = ["/usr/bin/env", "nsenter", *entered, "--", *argv]
    log.touch(mode=0o600)
    pid = os.posix_spawn(
        command[0],
        command,
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
            *((os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in _inheritable()),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
    )
    try:
        pid_file.write_text(f"{pid}\n")
    except OSError:
        os.kill(pid, signal.SIGKILL)
        raise
    return pid


def find(pid_file: Path, mark: str) -> int | None:
    """Return the process id in the pid file; None if that process has ended."""
    try:
        pid = int(pid_file.read_text())
    except (OSError, ValueError):
        return None
    return pid if is_alive(pid) and _mark(pid) == mark else None


def find_all(mark: str) -> list[int]:
    """Return the ids of all processes with this mark or one below it, such as a whole sandbox, even without pid
    files.
    """
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return [pid for pid in pids if _is_below(_mark(pid), mark) and is_alive(pid)]


def is_alive(pid: int) -> bool:
    """Return whether the process runs; False for a zombie.

    The state in /proc is not enough: it shows a zombie once the first thread has ended, while other threads may
    keep ports open.
    """
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return not poll.poll(0)
    finally:
        os.close(descriptor)


def send(pid: int, mark: str, number: int) -> bool:
    """Send a signal if the process has this mark or one below it. Return whether it was sent."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # The descriptor pins the process, so that the checked process is the signalled one.
        if not _is_below(_mark(pid), mark):
            return False
        signal.pidfd_send_signal(descriptor, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    return True


async def wait_gone(pids: Sequence[int], timeout: float) -> list[int]:
    """Wait at most `timeout` seconds for processes to end. Return the remaining ones."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    left = [pid for pid in pids if is_alive(pid)]
    while left and loop.time() < deadline:
        await asyncio.sleep(0.02)
        left = [pid for pid in left if is_alive(pid)]
    return left


async def stop(pid: int, mark: str, *, grace: float) -> None:
    """End a process with SIGTERM, and after `grace` seconds with SIGKILL."""
    if send(pid, mark, signal.SIGTERM) and await wait_gone([pid], grace):
        send(pid, mark, signal.SIGKILL)
        await wait_gone([pid], 10)


def last_lines(log: Path) -> str:
    """Return the end of a log, indented, for an error message."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 8192))
            lines = file.read().decode(errors="replace").splitlines()[-LAST_LINES:]
    except OSError as error:
        return f"  (its log cannot be read: {error})"
    return "\n".join(f"  {line[:400]}" for line in lines) or "  (its log is empty)"


def _inheritable() -> list[int]:
    """Return the inheritable descriptors without the standard ones. They come from this process's starter."""
    found = []
    for number in map(int, os.listdir("/proc/self/fd")):
        # The descriptor that listed the directory is closed already.
        with contextlib.suppress(OSError):
            if number > 2 and os.get_inheritable(number):
                found.append(number)
    return found


def _mark(pid: int) -> str:
    prefix = f"{MARK}=".encode()
    variables = _environ(pid).split(b"\0")
    return next((entry[len(prefix) :].decode(errors="replace") for entry in variables if entry.startswith(prefix)), "")


def _is_below(found: str, mark: str) -> bool:
    return found == mark or found.startswith(f"{mark}/")


def _environ(pid: int) -> bytes:
    """Return a process's environment; empty if it has ended, cannot be read, has none, or is a kernel thread.

    During exec a process shows neither environment nor arguments, for over 0.1 s on a busy machine (measured):
    it may be a marked one. A process that repeatedly shows only arguments has no environment.
    """
    deadline = time.monotonic() + _EXEC_SECONDS
    with_arguments = 0
    while True:
        try:
            content = Path(f"/proc/{pid}/environ").read_bytes()
            with_arguments += bool(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            return b""
        if content or with_arguments == _ENOUGH or time.monotonic() > deadline:
            return content
        if not is_alive(pid) or _is_kernel_thread(pid):
            return b""
        time.sleep(_POLL_SECONDS)


def _is_kernel_thread(pid: int) -> bool:
    try:
        flags = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6])
    except OSError:
        return True
    return bool(flags & _KERNEL_THREAD)
