"""Sources of programs, and their order."""

import asyncio
import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.cli.progress import Silent
from hack.lab.sandbox import SandboxError, binaries, build, download, golang
from hack.lab.sandbox.build import NODE
from hack.lab.sandbox.components import NODE_PROGRAMS, PROGRAMS, REAL_PROGRAMS
from hack.lab.sandbox.download import KUBERNETES


def install(folder: Path, version: str, names: tuple[str, ...] = PROGRAMS) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        program = folder / name
        program.write_text(f"#!/bin/sh\necho Kubernetes {version}\n")
        program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Machine with an empty PATH, an empty cache, no network and no Go."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("FLOTILLA_CACHE", str(tmp_path / "cache"))
    for name in ("KUBERNETES", "GITHUB", "GITHUB_API"):
        monkeypatch.setenv(f"FLOTILLA_{name}_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(golang, "_USUAL", str(tmp_path / "go"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return tmp_path


async def find() -> binaries.Programs:
    return await binaries.find(PROGRAMS, Silent())


async def test_assets_come_before_path(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    install(nowhere / "path", "v1.31.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(install(nowhere / "assets", "v1.32.4")))
    found = await find()
    assert found.version == "1.32"
    assert set(found.paths.values()) == {str(nowhere / "assets" / name) for name in PROGRAMS}


async def test_an_incomplete_set_is_not_mixed_with_another(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(install(nowhere / "assets", "v1.32.4", ("etcd", "kubectl"))))
    install(nowhere / "path", "v1.31.0")
    assert (await find()).paths["kubectl"] == str(nowhere / "path" / "kubectl")


@pytest.mark.parametrize("version", ["v1.29.9", "unknown"])
async def test_a_version_that_does_not_fit_is_passed_over(nowhere: Path, version: str) -> None:
    install(nowhere / "path", version)
    install(binaries.built_folder(), KUBERNETES)
    assert (await find()).paths["etcd"] == str(binaries.built_folder() / "etcd")


async def test_programs_of_different_versions_are_passed_over(nowhere: Path) -> None:
    install(nowhere / "path", "v1.36.0")
    install(nowhere / "path", "v1.35.0", ("kubectl",))
    install(binaries.released_folder(), KUBERNETES)
    assert (await find()).paths["kubectl"] == str(binaries.released_folder() / "kubectl")


async def test_when_nothing_works_it_says_what_was_tried_and_what_to_install() -> None:
    with pytest.raises(SandboxError) as caught:
        await find()
    for words in (
        "PATH: no etcd",
        "download: cannot connect to 127.0.0.1:1",
        "build: Go 1.26.0 or newer is missing (pip: ",
        "install it",
    ):
        assert words in str(caught.value)


async def test_what_an_interrupted_attempt_left_is_cleared_away(nowhere: Path) -> None:
    (nowhere / "cache" / ".build-x").mkdir(parents=True)
    (nowhere / "cache" / ".download-x").mkdir()
    with pytest.raises(SandboxError):
        await find()
    assert [path.name for path in (nowhere / "cache").iterdir()] == [".lock"]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> Callable[[], list[str]]:
    """Machine with Go, and the list of programs built so far."""
    tools = nowhere / "path"
    tools.mkdir()
    body = 'while [ "$1" != -o ]; do shift; done; /bin/echo $3 >> $LOG; /bin/sleep 0.3; /bin/cp /bin/true "$2"'
    (tools / "go").write_text(
        f'#!/bin/bash\nif [ "$1" = env ]; then echo go1.99; exit; fi\nif [ "$1" = list ]; then exit; fi\n{body}\n'
    )
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("LOG", str(nowhere / "log"))
    return lambda: (nowhere / "log").read_text().splitlines()


async def test_two_at_once_build_once(built: Callable[[], list[str]]) -> None:
    first, second = await asyncio.gather(find(), find())
    assert first == second
    assert built() == ["."]


async def test_what_only_real_nodes_need_is_built_when_it_is_asked_for(built: Callable[[], list[str]]) -> None:
    await find()
    assert not binaries.built_folder(NODE).exists()
    found = await binaries.find(REAL_PROGRAMS, Silent())
    assert built() == [".", "./node"]
    folders = {
        name: binaries.built_folder(NODE) if name in NODE_PROGRAMS else binaries.built_folder()
        for name in REAL_PROGRAMS
    }
    assert found.paths == {name: str(folder / name) for name, folder in folders.items()}
    assert await binaries.find(REAL_PROGRAMS, Silent()) == found
    assert built() == [".", "./node"]


async def test_both_parts_are_built_at_once_where_both_are_asked_for(built: Callable[[], list[str]]) -> None:
    await binaries.find(REAL_PROGRAMS, Silent())
    assert built() == [".", "./node"]
    assert (await find()).paths["kwok"] == str(binaries.built_folder() / "kwok")
    assert built() == [".", "./node"]


async def test_a_part_may_be_released_and_the_other_built(built: Callable[[], list[str]]) -> None:
    install(binaries.released_folder(), KUBERNETES)
    found = await binaries.find(REAL_PROGRAMS, Silent())
    assert built() == ["./node"]
    assert found.paths["etcd"] == str(binaries.released_folder() / "etcd")
    assert found.paths["kubelet"] == str(binaries.built_folder(NODE) / "kubelet")


async def test_the_programs_of_one_part_are_not_mixed(nowhere: Path) -> None:
    install(binaries.released_folder(), KUBERNETES, ("etcd", "kubectl"))
    install(binaries.built_folder(), KUBERNETES)
    assert set((await find()).paths.values()) == {str(binaries.built_folder() / name) for name in PROGRAMS}


async def test_only_what_is_missing_is_downloaded(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    install(binaries.built_folder(), KUBERNETES)
    asked: list[str] = []

    async def fetch(programs: list[str], *_: object) -> None:
        asked.extend(programs)
        install(binaries.released_folder(), KUBERNETES, tuple(programs))

    monkeypatch.setattr(download, "fetch", fetch)
    found = await binaries.find(REAL_PROGRAMS, Silent())
    assert asked == list(NODE_PROGRAMS)
    assert found.paths["kubelet"] == str(binaries.released_folder() / "kubelet")
    assert found.paths["etcd"] == str(binaries.built_folder() / "etcd")


async def test_an_error_names_what_is_missing_and_all_that_has_to_be_on_path(nowhere: Path) -> None:
    install(binaries.built_folder(), KUBERNETES)
    with pytest.raises(SandboxError) as caught:
        await binaries.find(REAL_PROGRAMS, Silent())
    first, *_, last = str(caught.value).splitlines()
    assert first.endswith("could not be had: kubelet, kube-proxy")
    assert last.endswith(f"or put {', '.join(REAL_PROGRAMS)} on PATH or into the folder $KUBEBUILDER_ASSETS.")


async def test_another_source_is_another_folder_of_its_own_part_alone(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path
) -> None:
    source = nowhere / "source"
    shutil.copytree(binaries.SOURCE, source)
    monkeypatch.setattr(binaries, "SOURCE", source)

    def changed(name: str) -> list[str]:
        before = [binaries.built_folder(part) for part in build.PARTS]
        with (source / name).open("a") as file:
            file.write("\n")
        after = [binaries.built_folder(part) for part in build.PARTS]
        return [part.name for part, old, new in zip(build.PARTS, before, after, strict=True) if old != new]

    assert changed("main.go") == ["control-plane"]
    assert changed("node/main.go") == ["node"]
    for shared in ("build", "go.mod", "multicall/multicall.go"):
        assert changed(shared) == ["control-plane", "node"]


async def test_a_program_that_go_alone_does_not_build_has_a_script(
    monkeypatch: pytest.MonkeyPatch, nowhere: Path
) -> None:
    with pytest.raises(SandboxError, match="flotilla sandbox programs --traefik"):
        await binaries.traefik(Silent(), compile=False)
    with pytest.raises(SandboxError, match=r"traefik is missing: Go .* is missing"):
        await binaries.traefik(Silent())
    tools = nowhere / "path"
    tools.mkdir()
    (tools / "go").write_text("#!/bin/sh\necho go1.99\n")
    (tools / "go").chmod(0o755)
    scripts = nowhere / "scripts"
    scripts.mkdir()
    (scripts / "build").write_text('#!/bin/sh\n/bin/mkdir "$1"; echo $2 > "$1/traefik"; /bin/chmod +x "$1/traefik"\n')
    (scripts / "build").chmod(0o755)
    monkeypatch.setattr(binaries, "TRAEFIK", dataclasses.replace(binaries.TRAEFIK, source=scripts))
    built = await binaries.traefik(Silent())
    assert built == await binaries.traefik(Silent(), compile=False)
    assert Path(built).parent == nowhere / "cache" / f"traefik-{binaries.TRAEFIK.version}"


async def test_a_modules_program_is_built_once_and_kept(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    with pytest.raises(SandboxError, match="flotilla sandbox programs --metrics-server"):
        await binaries.metrics_server(Silent(), compile=False)
    with pytest.raises(SandboxError, match=r"metrics-server is missing: Go .* is missing"):
        await binaries.metrics_server(Silent())
    tools = nowhere / "path"
    tools.mkdir()
    (tools / "go").write_text(
        '#!/bin/sh\n[ "$1" != env ] || exec /bin/echo go1.99\n'
        '/bin/echo "$@" >> $LOG; /bin/cp /bin/true "$GOBIN/metrics-server"\n'
    )
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("LOG", str(nowhere / "log"))
    built = await binaries.metrics_server(Silent())
    assert built == await binaries.metrics_server(Silent(), compile=False)
    assert Path(built).is_relative_to(nowhere / "cache")
    (line,) = (nowhere / "log").read_text().splitlines()
    assert line.endswith("sigs.k8s.io/metrics-server/cmd/metrics-server@v0.9.0")


async def test_a_cache_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch, nowhere: Path) -> None:
    (nowhere / "file").write_text("")
    monkeypatch.setenv("FLOTILLA_CACHE", str(nowhere / "file" / "cache"))
    with pytest.raises(SandboxError, match="FLOTILLA_CACHE"):
        await find()
