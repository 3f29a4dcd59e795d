"""Control planes of other versions: the sources of their programs, and the processes of such a cluster."""

from pathlib import Path

import pytest

from agent.cli.progress import Silent
from hack.lab.sandbox import SandboxError, golang, older
from hack.lab.sandbox.components import APISERVER, ETCD, Context
from hack.lab.sandbox.plan import OLDEST, ClusterPlan, NodeShape, Plan

COMPONENTS = {"kube-apiserver", "kube-controller-manager", "kube-scheduler"}


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Machine with an empty cache, no releases and no Go."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("FLOTILLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FLOTILLA_KUBERNETES_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(golang, "_USUAL", str(tmp_path / "go"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return tmp_path


def fake_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a `go` that has one module and builds any package of it."""
    module = folder / "module"
    module.mkdir()
    staged = "".join(f"\tk8s.io/{name} => ./staging/src/k8s.io/{name}\n" for name in ("api", "kube-proxy"))
    (module / "go.mod").write_text(f"module k8s.io/kubernetes\nreplace (\n{staged})\n")
    (module / "go.sum").touch()
    tools = folder / "tools"
    tools.mkdir()
    (tools / "go").write_text(
        f"""#!/bin/bash
case "$1 $2" in
"env "*) echo go1.99; exit ;;
"mod download") printf '\\t"Dir": "%s",\\n' {module}; exit ;;
"mod edit") echo "$@" >> {folder}/edits; exit ;;
esac
cp go.mod {folder}/seen
while [ "$1" != -o ]; do shift; done
echo one >&2; echo program > "$2"; chmod +x "$2"
"""
    )
    (tools / "go").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")


async def test_a_build_takes_the_versions_that_kubernetes_was_released_with(
    offline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_go(offline, monkeypatch)
    found = await older.find(OLDEST, Silent())
    assert found.keys() == COMPONENTS
    assert "k8s.io/api => k8s.io/api v0.30.14" in (offline / "seen").read_text()
    # Programs that are not built are not required.
    assert "-replace=k8s.io/kube-proxy=./unused/kube-proxy" in (offline / "edits").read_text()
    assert {path.name for path in older.folder(OLDEST).iterdir()} == {*COMPONENTS, "kube-multicall"}


async def test_what_is_in_the_cache_is_taken() -> None:
    older.folder(OLDEST).mkdir(parents=True)
    for name in COMPONENTS:
        (older.folder(OLDEST) / name).touch(mode=0o755)
    assert await older.find(OLDEST, Silent(), compile=False) == older.paths(OLDEST)


async def test_when_nothing_works_it_says_what_was_tried() -> None:
    with pytest.raises(SandboxError) as caught:
        await older.find(OLDEST, Silent())
    for words in (
        "Kubernetes v1.30.14",
        "download: cannot connect to 127.0.0.1:1",
        "build: Go 1.26.0 or newer is missing",
    ):
        assert words in str(caught.value)


async def test_without_a_build_it_says_how_to_have_one() -> None:
    with pytest.raises(SandboxError, match=r"flotilla sandbox programs --kubernetes 1\.30\.14"):
        await older.find(OLDEST, Silent(), compile=False)


def test_a_cluster_runs_the_programs_of_its_version() -> None:
    programs = {"etcd": "/new/etcd", "kube-apiserver": "/new/kube-apiserver"}
    cluster = ClusterPlan("a", 0, "10.1.1.1", "a", NodeShape(), kubernetes="1.30", programs=older.paths(OLDEST))
    plan = Plan("/somewhere", "abcdef", "1.36", programs, (cluster,))
    context = Context(plan, cluster, Path("/somewhere/a"))
    assert APISERVER.argv(context)[0] == older.paths(OLDEST)["kube-apiserver"]
    assert ETCD.argv(context)[0] == "/new/etcd"
