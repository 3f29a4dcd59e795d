"""hack/plan, the list of missing parts that hack/demo and hack/test announce."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hack.lab.sandbox import binaries
from hack.lab.sandbox.components import PROGRAMS
from hack.lab.sandbox.objects import REPOSITORY

TOOLS = ("bash", "cat", "dirname", "env", "flock", "nproc", "sed", "sha256sum")


class Machine:
    """A copy of the scripts in a clone with an empty cache and a minimal PATH."""

    def __init__(self, directory: Path) -> None:
        self.clone = directory / "a clone"
        self.home = directory / "home"
        self.tools = directory / "bin"
        shutil.copytree(REPOSITORY / "hack" / "controlplane", self.clone / "hack" / "controlplane")
        for name in ("demo", "plan", "setup", "constraints.txt"):
            shutil.copy(REPOSITORY / "hack" / name, self.clone / "hack" / name)
        shutil.copy(REPOSITORY / "pyproject.toml", self.clone)
        self.tools.mkdir()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.tools / tool).symlink_to(found)
        self.is_user(1000)

    def program(self, path: Path, script: str = "exit 0") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def is_user(self, number: int) -> None:
        self.program(self.tools / "id", f"echo {number}")

    def has_set_up(self) -> None:
        """Install a fake virtual environment and the stamp that hack/setup writes at its end."""
        self.program(self.clone / ".venv" / "bin" / "python")
        self.program(self.clone / ".venv" / "bin" / "flotilla", 'echo "flotilla $*"')
        stamp = "$(cat pyproject.toml hack/setup hack/constraints.txt | sha256sum) $PWD"
        line = f'printf "%s" "{stamp}" >.venv/.flotilla-setup'
        subprocess.run(["bash", "-c", line], cwd=self.clone, check=True)

    def has_programs(self, folder: Path) -> None:
        for name in PROGRAMS:
            self.program(folder / name)

    def run(self, script: str, *arguments: str, **environment: str) -> str:
        variables = {"PATH": str(self.tools), "HOME": str(self.home), **environment}
        command = [self.clone / "hack" / script, *arguments]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
        return done.stdout


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_on_a_new_machine_it_lists_all_that_is_installed_and_the_time(machine: Machine) -> None:
    lines = machine.run("plan").splitlines()
    assert lines[0] == "To install first, once:"
    assert "  - Python packages in .venv" in lines
    assert "  - Kubernetes programs in ~/.cache/flotilla:" in lines
    assert re.search(rf"\(up to \d+ min on {len(os.sched_getaffinity(0))} cores\)", lines[4])
    assert re.match(r"This takes up to \d+ min\.", lines[5])
    assert max(map(len, lines)) < 80


def test_once_all_is_installed_it_prints_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.has_set_up()
    assert "Kubernetes" in machine.run("plan")
    monkeypatch.setenv("FLOTILLA_CACHE", str(machine.home / ".cache" / "flotilla"))
    machine.has_programs(binaries.built_folder())
    assert machine.run("plan") == ""


def test_programs_of_another_version_in_the_cache_do_not_count(machine: Machine) -> None:
    machine.has_programs(machine.home / ".cache" / "flotilla" / "control-plane-v1.30.0-12345678")
    assert "Kubernetes programs" in machine.run("plan")


@pytest.mark.parametrize("variable", ["KUBEBUILDER_ASSETS", "PATH"])
def test_programs_of_the_machine_count(machine: Machine, variable: str) -> None:
    machine.has_programs(machine.tools if variable == "PATH" else machine.home / "assets")
    told = machine.run("plan", **({} if variable == "PATH" else {variable: str(machine.home / "assets")}))
    assert "Kubernetes" not in told
    assert "This takes up to 1 min." in told


def test_a_change_of_the_project_is_announced(machine: Machine) -> None:
    machine.has_set_up()
    (machine.clone / "pyproject.toml").write_text("")
    assert "Python packages in .venv" in machine.run("plan")


def test_the_demo_announces_itself_before_anything_else(machine: Machine) -> None:
    machine.has_set_up()
    text = machine.run("demo", "--once", FLOTILLA_CACHE="/nowhere")
    first, *_, last = text.splitlines()
    assert first.startswith("The Flotilla demo: three Kubernetes clusters")
    assert "Kubernetes programs in /nowhere:" in text
    assert "It takes everything down at the end." in text
    assert "Without root, the clusters share the loopback interface" in text
    assert last == "flotilla demo --once"
    assert machine.run("demo", "--help") == "flotilla demo --help\n"
