"""Required programs of the machine, and machines that lack them."""

import os
import sys
from pathlib import Path

import pytest

from agent.cli.progress import Silent
from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.realnode import host


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hide all programs of the machine. Return the folder in which they would be found."""
    monkeypatch.setattr(host, "_SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setattr(host, "_PLUGIN_FOLDERS", (str(tmp_path),))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def put(folder: Path, name: str, script: str = "exit 0") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


async def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(SandboxError, match="take root"):
        await host.programs(Silent())


async def test_without_apt_it_names_what_to_install(empty: Path) -> None:
    with pytest.raises(SandboxError, match=r"busybox-static containerd .* runc .*package manager"):
        await host.programs(Silent())


async def test_what_apt_says_when_it_fails_is_passed_on(empty: Path) -> None:
    put(empty, "apt-get", "echo E: Unable to locate package containerd; exit 100")
    with pytest.raises(SandboxError, match=r"apt-get install .*failed:\n  E: Unable to locate"):
        await host.programs(Silent())


async def test_a_package_that_does_not_bring_its_program_is_named(empty: Path) -> None:
    put(empty, "apt-get")
    put(empty, "ip")
    with pytest.raises(SandboxError, match=r"runc.* did not bring") as error:
        await host.programs(Silent())
    assert "iproute2" not in str(error.value)


async def test_only_missing_packages_are_installed_and_none_removed(empty: Path) -> None:
    for name in host.PACKAGES:
        put(empty, name)
    (empty / "runc").unlink()
    put(empty, "apt-get", f'echo "$@" >> {empty}/called; exit 1')
    with pytest.raises(SandboxError, match="busybox-static runc"):
        await host.programs(Silent())
    installs = [line for line in (empty / "called").read_text().splitlines() if line.startswith("install")]
    assert all("--no-remove" in line and line.endswith("busybox-static runc") for line in installs)


def test_a_busybox_that_is_a_script_or_needs_libraries_is_none(empty: Path) -> None:
    put(empty, "busybox")
    assert "busybox" not in host.installed()
    assert not host.is_static(Path(sys.executable).resolve())


def test_plugins_in_several_folders_do_not_count(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = empty / "other"
    other.mkdir()
    for name in ("ptp", "host-local", "loopback"):
        put(empty, name)
    put(other, "portmap")
    monkeypatch.setattr(host, "_PLUGIN_FOLDERS", (str(empty), str(other)))
    assert "ptp" not in host.installed()
