"""hack/setup on machines that lack something. Every run of hack/test covers the complete set-up."""

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[2] / "hack" / "setup"
TOOLS = (
    *("awk", "bash", "cat", "cp", "df", "dirname", "flock", "grep", "id"),
    *("mkdir", "mktemp", "mv", "rm", "sha256sum", "sleep", "tail"),
)

MAKES_VENV = '*-m\\ venv*) mkdir -p .venv/bin; cp "$0" .venv/bin/python; cp "$0" .venv/bin/flotilla;;'


class Machine:
    """A copy of the script in a separate project with a minimal PATH."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "project"
        self.tools = directory / "bin"
        (self.directory / "hack").mkdir(parents=True)
        (self.directory / "pyproject.toml").write_text("")
        (self.directory / "hack" / "constraints.txt").write_text("")
        shutil.copy(SETUP, self.directory / "hack" / "setup")
        self.tools.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.tools / tool).symlink_to(found)

    def program(self, name: str, script: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def python(self, refuses: str = "") -> Path:
        """Install a Python that creates virtual environments, except in the cases of `refuses`. Return its log."""
        log = self.directory / "log"
        self.program("python3", f'echo "$*" >> {log}\ncase "$*" in {MAKES_VENV} {refuses} esac')
        return log

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.tools), "HOME": str(self.directory), "TMPDIR": os.environ.get("TMPDIR", "/tmp")}
        return subprocess.run(
            [self.directory / "hack" / "setup", *arguments], env=environment, capture_output=True, text=True
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_without_python_it_says_what_to_install(machine: Machine) -> None:
    result = machine.run()
    assert result.returncode == 1
    assert "Python 3.11 or newer is missing" in result.stderr
    assert "apt-get install python3" in result.stderr


def test_a_python_that_is_too_old_does_not_count(machine: Machine) -> None:
    machine.program("python3", "exit 1")
    assert "Python 3.11 or newer is missing" in machine.run().stderr


def test_of_several_pythons_the_fastest_is_taken(machine: Machine) -> None:
    log = machine.directory / "log"
    for name, took in (("python3.12", 200), ("python3.11", 100), ("python3", 10**9)):
        machine.program(name, f'case "$*" in *lap*) echo {took};; {MAKES_VENV} *install*) echo {name} >> {log};; esac')
    assert machine.run().returncode == 0
    assert log.read_text() == "python3.11\n"


def test_without_the_venv_module_it_says_which_package_has_it(machine: Machine) -> None:
    machine.program("python3", 'case "$*" in *lap*) echo 1000000100;; *ensurepip*) exit 1;; esac')
    result = machine.run()
    assert result.returncode == 1
    assert "apt-get install python3-venv" in result.stderr


def test_when_pip_fails_its_last_words_are_shown_and_the_next_run_tries_again(machine: Machine) -> None:
    machine.program("python3", f'case "$*" in {MAKES_VENV} *install*) echo no index >&2; exit 1;; esac')
    for _ in range(2):
        result = machine.run()
        assert result.returncode == 1
        assert "no index" in result.stderr
        assert "package index" in result.stderr


def test_a_python_for_which_the_pinned_versions_are_not_made_gets_others(machine: Machine) -> None:
    log = machine.python(refuses="*--constraint*) echo no such version >&2; exit 1;;")
    result = machine.run()
    assert result.returncode == 0
    assert "no such version" in result.stderr
    assert log.read_text().count("pip install") == 2


def test_a_second_clone_asks_no_index(machine: Machine) -> None:
    log = machine.python()
    assert machine.run().returncode == 0
    shutil.rmtree(machine.directory / ".venv")
    assert machine.run().returncode == 0
    assert log.read_text().count("pip download") == 1
    assert log.read_text().count("--no-index") == 2


def test_kept_packages_that_are_damaged_come_from_an_index(machine: Machine) -> None:
    log = machine.python(refuses="*--no-index*) echo no such wheel >&2; exit 1;;")
    result = machine.run()
    assert result.returncode == 0
    assert "no such wheel" in result.stderr
    last = log.read_text().splitlines()[-1]
    assert "--constraint" in last
    assert "--no-index" not in last


def test_when_all_is_done_it_does_nothing_until_the_project_changes(machine: Machine) -> None:
    log = machine.python()
    assert machine.run().returncode == 0
    assert log.read_text().count("pip install") == 1
    assert machine.run().returncode == 0
    assert log.read_text().count("pip install") == 1
    for number, file in enumerate(("pyproject.toml", "hack/constraints.txt"), 2):
        (machine.directory / file).write_text("[project]")
        assert machine.run().returncode == 0
        assert log.read_text().count("pip install") == number


def test_without_a_network_pip_is_asked_once_and_the_remedy_is_named(machine: Machine) -> None:
    log = machine.python(
        refuses="*-m\\ pip\\ [di]*) echo 'Retrying after connection broken by NewConnectionError' >&2; exit 1;;"
    )
    result = machine.run()
    assert result.returncode == 1
    assert "pip cannot reach its package index" in result.stderr.splitlines()[-1]
    assert "PIP_INDEX_URL" in result.stderr.splitlines()[-1]
    assert log.read_text().count("pip download") + log.read_text().count("pip install") == 1


def test_a_full_disk_is_named_with_its_remedy(machine: Machine) -> None:
    log = machine.python(refuses="*-m\\ pip\\ [di]*) echo '[Errno 28] No space left on device' >&2; exit 1;;")
    result = machine.run()
    assert result.returncode == 1
    assert "hack/setup: a disk is full" in result.stderr.splitlines()[-1]
    assert "FLOTILLA_CACHE" in result.stderr.splitlines()[-1]
    assert log.read_text().count("pip download") + log.read_text().count("pip install") == 1


def test_without_a_cache_packages_come_from_an_index(machine: Machine) -> None:
    log = machine.python()
    (machine.directory / ".cache").write_text("")
    result = machine.run()
    assert result.returncode == 0
    assert "FLOTILLA_CACHE may name another folder" in result.stderr
    assert "pip download" not in log.read_text()


def test_a_python_that_is_too_old_is_named(machine: Machine) -> None:
    machine.program("python3", 'case "$*" in --version) echo Python 3.9.2;; *) exit 1;; esac')
    assert f"({machine.tools}/python3 is Python 3.9.2)" in machine.run().stderr


def test_a_second_run_waits_for_the_first_and_says_so(machine: Machine) -> None:
    machine.python()
    held = os.open(machine.directory, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    environment = {"PATH": str(machine.tools), "HOME": str(machine.directory)}
    command = [machine.directory / "hack" / "setup"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as second:
        assert second.stderr is not None
        assert "waiting for another hack/setup" in second.stderr.readline()
        os.close(held)
        second.stderr.read()
    assert second.returncode == 0


def test_check_changes_nothing_and_tells_whether_all_is_done(machine: Machine) -> None:
    log = machine.python()
    assert machine.run("--check").returncode == 1
    assert not (machine.directory / ".venv").exists()
    assert not log.exists()
    assert machine.run().returncode == 0
    assert machine.run("--check").returncode == 0
