"""Real processes that outlive their starter."""

import fcntl
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.lab.sandbox import SandboxError, process

MARK = "f00d00/us/sleeper"
FOREVER = [sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(600)"]


class Starter:
    def __init__(self, directory: Path) -> None:
        self.log = directory / "p.log"
        self.pid_file = directory / "p.pid"
        self.pids: list[int] = []

    def __call__(self, argv: list[str], mark: str = MARK) -> int:
        env = process.environment(os.environ, mark, "")
        self.pids.append(process.start(argv, env, log=self.log, pid_file=self.pid_file))
        return self.pids[-1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for pid in starter.pids:
        if process.send(pid, "f00d00", signal.SIGKILL) or process.send(pid, "beef00", signal.SIGKILL):
            os.waitpid(pid, 0)


def test_a_process_is_found_by_its_pid_file(start: Starter) -> None:
    pid = start(FOREVER)
    assert start.pid_file.read_text() == f"{pid}\n"
    assert process.find(start.pid_file, MARK) == pid
    assert pid in process.find_all("f00d00")


def test_a_process_of_another_sandbox_is_neither_found_nor_signalled(start: Starter) -> None:
    pid = start(FOREVER, "beef00/us/sleeper")
    assert process.find(start.pid_file, MARK) is None
    assert pid not in process.find_all("f00d00")
    assert not process.send(pid, "f00d00", signal.SIGKILL)
    assert process.is_alive(pid)


def test_a_pid_file_that_names_a_foreign_process_finds_nothing(start: Starter) -> None:
    start.pid_file.write_text("1\n")
    assert process.find(start.pid_file, MARK) is None
    assert not process.send(1, MARK, signal.SIGKILL)


@pytest.mark.parametrize("content", ["", "no number", "999999999"])
def test_a_damaged_pid_file_finds_nothing(start: Starter, content: str) -> None:
    start.pid_file.write_text(content)
    assert process.find(start.pid_file, MARK) is None


async def test_stopping_is_polite_first(start: Starter) -> None:
    pid = start(FOREVER)
    await process.stop(pid, MARK, grace=30)
    assert not process.is_alive(pid)


async def test_a_process_that_ignores_the_request_is_killed(start: Starter) -> None:
    script = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    pid = start([sys.executable, "-c", script])
    while "deaf" not in process.last_lines(start.log):
        assert process.is_alive(pid)
    await process.stop(pid, MARK, grace=0.1)
    assert not process.is_alive(pid)


def test_a_process_is_found_from_its_start_while_one_program_gives_way_to_the_next(start: Starter) -> None:
    for _ in range(8):
        pid = start(
            ["/usr/bin/env", "sh", "-c", f"exec {shlex.quote(sys.executable)} -c 'import time; time.sleep(600)'"]
        )
        assert all(process.find(start.pid_file, MARK) == pid for _ in range(200))
        process.send(pid, MARK, signal.SIGKILL)


async def test_a_process_that_has_ended_counts_as_gone_though_nobody_reaped_it(start: Starter) -> None:
    pid = start([sys.executable, "-c", "pass"])
    assert await process.wait_gone([pid], 30) == []
    assert process.find(start.pid_file, MARK) is None


def test_a_missing_program_is_named(start: Starter) -> None:
    with pytest.raises(SandboxError, match="/no/such/program is missing"):
        start(["/no/such/program"])
    assert not start.pid_file.exists()


async def test_a_process_whose_pid_file_cannot_be_written_is_not_left_running(start: Starter, tmp_path: Path) -> None:
    start.pid_file = tmp_path / "missing" / "p.pid"
    with pytest.raises(FileNotFoundError):
        start(FOREVER)
    # The kill does not wait for the process to end.
    assert await process.wait_gone(process.find_all("f00d00"), 30) == []


def test_a_process_that_is_just_being_started_is_found(start: Starter) -> None:
    for _ in range(30):
        pid = start(["/usr/bin/env", "/usr/bin/env", *FOREVER])
        assert process.find(start.pid_file, MARK) == pid
        assert process.send(pid, MARK, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_its_starter_left_open_for_children_is_not_open_in_a_process(start: Starter, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    pid = start(FOREVER)
    while "hello" not in process.last_lines(start.log):
        assert process.is_alive(pid)
    assert {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()} == {os.devnull, str(start.log)}
    assert os.get_inheritable(descriptor)
    os.close(descriptor)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_settings_of_the_surroundings_do_not_reach_a_process() -> None:
    base = {"PATH": "/bin", "ETCD_NAME": "x", "KUBECONFIG": "y", "https_proxy": "z", "HTTPS_PROXY": "z"}
    env = process.environment(base, MARK, "/src")
    assert env == {"PATH": "/bin", "PYTHONPATH": "/src", "PYTHONUNBUFFERED": "1", process.MARK: MARK}


def test_the_end_of_a_log_is_short(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text("\n".join(f"line {number}" for number in range(100)))
    assert process.last_lines(log).splitlines()[0] == "  line 92"
    assert "cannot be read" in process.last_lines(tmp_path / "missing.log")
