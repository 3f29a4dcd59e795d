"""Sandboxes that fail to start: the reason is reported, and nothing remains of them."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from agent.cli.progress import Silent
from hack.lab.sandbox import Sandbox, SandboxError, binaries, process
from hack.lab.sandbox.plan import identity
from tests.sandbox.machine import leftovers
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="mounts take root")


@pytest_asyncio.fixture
async def real() -> Mapping[str, str]:
    """Paths of the programs that sandboxes use."""
    return (await binaries.for_nodes("kwok", Silent())).paths


@pytest.fixture
def replace(real: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Function that replaces a program of sandboxes by name."""

    def replace(name: str, content: str) -> None:
        folder = tmp_path / "assets"
        folder.mkdir()
        for other in real.keys() - {name}:
            (folder / other).symlink_to(real[other])
        (folder / name).write_text(content)
        (folder / name).chmod(0o755)
        monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))

    return replace


async def test_a_cancelled_up_leaves_nothing(directory: Path) -> None:
    task = asyncio.ensure_future(Sandbox(directory, ["one", "two"], "kwok:0", agents=False).up())
    await until(lambda: len(process.find_all(identity(directory))) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leftovers(directory) == []


async def test_a_process_that_dies_at_start_is_named_with_its_last_words_and_nothing_is_left(
    directory: Path, real: Mapping[str, str], replace: Callable[[str, str], None]
) -> None:
    program = real["kube-apiserver"]
    replace(
        "kube-apiserver",
        f'#!/bin/sh\n[ "$1" = --version ] && exec {program} "$@"\nexec {program} "$@" --no-such-flag\n',
    )
    ended = r"cluster one: kube-apiserver ended; the end of its log:\n(.*\n)*.*--no-such-flag"
    with pytest.raises(SandboxError, match=ended):
        await Sandbox(directory, ["one"], "kwok:0", agents=False).up()
    assert leftovers(directory) == []


@pytest.mark.seldom
async def test_a_webhook_that_dies_at_start_is_named_with_its_last_words_and_nothing_is_left(directory: Path) -> None:
    with pytest.raises(SandboxError, match=r"cluster one: webhook ended; the end of its log:\n(.*\n)*.*--no-such-flag"):
        await Sandbox(directory, ["one"], "kwok:0", webhook_flags=["--no-such-flag"]).up()
    assert leftovers(directory) == []


async def test_a_program_that_is_none_is_named_and_nothing_is_left(
    directory: Path, replace: Callable[[str, str], None]
) -> None:
    replace("etcd", "exit 3")
    with pytest.raises(SandboxError, match="etcd"):
        await Sandbox(directory, ["one"], "kwok:0", agents=False).up()
    assert leftovers(directory) == []


@pytest_asyncio.fixture
async def small_disk(tmp_path: Path) -> AsyncIterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = await asyncio.create_subprocess_exec("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk))
    assert await mount.wait() == 0
    yield disk
    unmount = await asyncio.create_subprocess_exec("umount", str(disk))
    assert await unmount.wait() == 0


@root
async def test_a_full_disk_is_named_and_nothing_is_left(small_disk: Path) -> None:
    with pytest.raises(SandboxError, match="too full"):
        await Sandbox(small_disk / "sandbox", ["one"], "kwok:0", agents=False).up()
    assert leftovers(small_disk / "sandbox") == []


@root
async def test_a_disk_that_fills_up_later_is_named_and_nothing_is_left(
    small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hack.lab.sandbox.store.BYTES_PER_CLUSTER", 0)
    with pytest.raises(SandboxError, match=r"etcd ended(.*\n)*.*(disk .* is full|no space left)"):
        await Sandbox(small_disk / "sandbox", ["one"], "kwok:0", agents=False).up()
    assert leftovers(small_disk / "sandbox") == []


@pytest.mark.parametrize("content", ["file", "folder"])
async def test_a_directory_that_holds_something_else_is_left_alone(directory: Path, content: str) -> None:
    mine = directory / "mine"
    os.makedirs(mine if content == "folder" else directory)
    if content == "file":
        mine.write_text("keep")
    with pytest.raises(SandboxError, match="not a sandbox"):
        await Sandbox(directory, ["one"], agents=False).up()
    assert not await Sandbox(directory).down()
    assert os.listdir(directory) == ["mine"]
