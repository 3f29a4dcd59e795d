"""Builds, with a stand-in for the compiler: the real one takes minutes and is the real sandbox's own proof."""

import asyncio
import os
from pathlib import Path

import pytest

from agent.sandbox import build, process
from agent.sandbox.binaries import SOURCE
from agent.sandbox.build import BuildError
from agent.sandbox.progress import Silent
from tests.waiting import until

COMPONENTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}


def fake_go(folder: Path, body: str) -> None:
    """A `go` whose `list` answers at once and whose `build -o FILE` runs `body` with $out set."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        f"""#!/bin/bash
if [ "$1" = list ]; then echo one; echo two; exit; fi
while [ "$1" != -o ]; do shift; done
out=$2
{body}
"""
    )
    go.chmod(0o755)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path / 'go'}:{os.environ['PATH']}")
    return tmp_path / "go"


def left(cache: Path) -> list[str]:
    return [entry.name for entry in cache.iterdir()] if cache.exists() else []


async def test_a_build_makes_one_file_and_a_name_for_each_component(path: Path, tmp_path: Path) -> None:
    fake_go(path, 'echo one >&2; echo two >&2; echo program > "$out"; chmod +x "$out"')
    out = tmp_path / "cache" / "bin"
    await build.control_plane(SOURCE, out, Silent())
    assert {name for name in COMPONENTS if (out / name).resolve() == out / "kube-multicall"} == COMPONENTS
    assert left(tmp_path / "cache") == ["bin"]


async def test_a_failed_build_says_why_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    fake_go(path, 'echo half > "$out"; echo "main.go:1: no such thing" >&2; exit 1')
    with pytest.raises(BuildError, match="no such thing"):
        await build.control_plane(SOURCE, tmp_path / "cache" / "bin", Silent())
    assert left(tmp_path / "cache") == []


async def test_an_interrupted_build_ends_the_compiler_and_leaves_nothing(path: Path, tmp_path: Path) -> None:
    fake_go(path, f'echo half > "$out"; echo $$ > {tmp_path}/pid; exec sleep 600')
    task = asyncio.ensure_future(build.control_plane(SOURCE, tmp_path / "cache" / "bin", Silent()))
    pid_file = tmp_path / "pid"
    await until(lambda: pid_file.exists() and pid_file.read_text() != "")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(tmp_path / "cache") == []
    assert not process.is_alive(int(pid_file.read_text()))


async def test_without_go_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(build, "_USUAL_GO", str(tmp_path / "go"))
    with pytest.raises(BuildError, match="install Go"):
        await build.control_plane(SOURCE, tmp_path / "cache" / "bin", Silent())
