"""Sandboxes that really come up, are damaged, and go away."""

import asyncio
import base64
import contextlib
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.api.kinds import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, SOURCES, TARGETS, Kind
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from agent.sandbox import Cluster, Sandbox, SandboxError, process
from agent.sandbox.objects import connect
from agent.sandbox.plan import identity
from tests.sandbox.machine import leftovers
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

JOBS = Kind("batch", "v1", "jobs", "Job")
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment")
LABELS = {"labels": {"app": "x"}}
POD = {"containers": [{"name": "main", "image": "example.com/image:1"}]}

root = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces take root")


@contextlib.asynccontextmanager
async def client_of(cluster: Cluster) -> AsyncIterator[Client]:
    client = connect(cluster.kubeconfig, name=cluster.name)
    async with client.session:
        yield client


@pytest_asyncio.fixture
async def directory(tmp_path: Path) -> AsyncIterator[Path]:
    directory = tmp_path / "sandbox"
    yield directory
    await Sandbox(directory).down()


async def test_a_deployment_runs_and_a_job_completes_in_a_cluster_without_root(directory: Path) -> None:
    sandbox = Sandbox(directory, ["one"], "kwok:2", agents=False, network="loopback", pods_per_node=7)
    assert await sandbox.up() == []
    assert sandbox["one"].address.startswith("127.")
    assert sandbox["one"].kubeconfig.stat().st_mode & 0o777 == 0o600
    async with client_of(sandbox["one"]) as client:
        assert [node["status"]["capacity"]["pods"] for node in await client.list(NODES)] == ["7", "7"]
        deployment = {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {"metadata": LABELS, "spec": POD},
        }
        await client.create(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": deployment}, "default")
        job = {"template": {"metadata": LABELS, "spec": {**POD, "restartPolicy": "Never"}}}
        await client.create(JOBS, {"metadata": {"name": "job"}, "spec": job}, "default")

        async def done() -> bool:
            web = await client.get(DEPLOYMENTS, "web", "default")
            job = await client.get(JOBS, "job", "default")
            return (web["status"].get("readyReplicas"), job["status"].get("succeeded")) == (3, 1)

        await until(done)
        pod = (await client.list(PODS, "default", fields="status.phase=Running"))[0]
        assert pod["status"]["podIP"].startswith("10.224.")
    assert {line.state for line in sandbox.status()} == {"running"}
    assert await sandbox.down()
    assert leftovers(directory) == []


@root
async def test_clusters_reach_each_other_until_a_link_is_cut(directory: Path) -> None:
    sandbox = Sandbox(directory, ["a", "b"], "kwok:0", agents=False, network="namespaces")
    await sandbox.up()
    addresses = [cluster.address for cluster in sandbox.clusters]
    assert len(set(addresses)) == 2

    async def reaches(cluster: Cluster, other: Cluster) -> bool:
        space = f"--net=/var/run/netns/{cluster.runner.cluster.namespace}"
        script = f"import socket; socket.create_connection(({other.address!r}, 6443), 1)"
        run = await asyncio.create_subprocess_exec(
            "nsenter", space, "python3", "-c", script, stderr=asyncio.subprocess.DEVNULL
        )
        return await run.wait() == 0

    a, b = sandbox.clusters
    assert await reaches(a, b)
    await sandbox.set_link("b", up=False)
    assert not await reaches(a, b)
    assert await reaches(b, b)
    await sandbox.set_link("b", up=True)
    await until(lambda: reaches(a, b))
    assert await sandbox.down()
    assert leftovers(directory) == []


async def test_what_died_is_started_again_by_another_up(directory: Path) -> None:
    first = Sandbox(directory, ["one"], "kwok:1", agents=False)
    await first.up()
    async with client_of(first["one"]) as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "kept"}}, "default")
    for name in ("etcd", "kube-apiserver", "kwok"):
        await first.kill("one", name)
    dead = {line.process for line in first.status() if line.state == "dead"}
    assert dead >= {"etcd", "kube-apiserver", "kwok"}
    second = Sandbox(directory, ["one"], "kwok:1", agents=False)
    assert {"one/etcd", "one/kube-apiserver", "one/kwok"} <= set(await second.up())
    async with client_of(second["one"]) as client:
        assert await client.get(SERVICE_ACCOUNTS, "kept", "default")
    assert await second.up() == []


async def test_processes_can_be_stopped_started_and_restarted(directory: Path) -> None:
    async with Sandbox(directory, ["one"], "kwok:0", agents=False) as sandbox:
        before = sandbox["one"].pid("kube-apiserver")
        await sandbox.restart("one", "kube-apiserver")
        after = sandbox["one"].pid("kube-apiserver")
        assert after is not None
        assert after != before
        await sandbox.stop("one", "kube-scheduler")
        with pytest.raises(SandboxError, match="does not run"):
            await sandbox.kill("one", "kube-scheduler", signal.SIGSTOP)
        await sandbox.start("one", "kube-scheduler")
        with pytest.raises(SandboxError, match="no process 'agent'"):
            await sandbox.start("one", "agent")
        with pytest.raises(SandboxError, match="no cluster 'two'"):
            await sandbox.kill("two", "etcd")


async def test_other_clusters_than_those_that_are_up_are_refused(directory: Path) -> None:
    async with Sandbox(directory, ["one"], "kwok:0", agents=False):
        with pytest.raises(SandboxError, match="take it down first"):
            await Sandbox(directory, ["two"], agents=False).up()


async def test_down_works_after_a_crash_that_lost_the_record(directory: Path) -> None:
    await Sandbox(directory, ["one"], "kwok:0", agents=False).up()
    (directory / "sandbox.json").write_text("{")
    (directory / "one" / "etcd.pid").unlink()
    assert await Sandbox(directory).down()
    assert leftovers(directory) == []
    assert not await Sandbox(directory).down()


async def test_a_cancelled_up_leaves_nothing(directory: Path) -> None:
    task = asyncio.ensure_future(Sandbox(directory, ["one", "two"], "kwok:0", agents=False).up())
    await until(lambda: len(process.find_all(identity(directory))) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leftovers(directory) == []


async def test_a_process_that_dies_at_start_is_named_with_its_last_words_and_nothing_is_left(directory: Path) -> None:
    with pytest.raises(SandboxError, match=r"cluster one: webhook ended; the end of its log:\n(.*\n)*.*--no-such-flag"):
        await Sandbox(directory, ["one"], "kwok:0", webhook_flags=["--no-such-flag"]).up()
    assert leftovers(directory) == []


async def test_a_taken_port_is_named(directory: Path) -> None:
    async with Sandbox(directory, ["one"], "kwok:0", agents=False, network="loopback") as sandbox:
        await sandbox.kill("one", "kube-scheduler")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((sandbox["one"].address, sandbox["one"].ports["kube-scheduler"]))
            other.listen()
            with pytest.raises(SandboxError, match="kube-scheduler needs port 10259 of 127"):
                await sandbox.start("one", "kube-scheduler")
        await sandbox.start("one", "kube-scheduler")


async def test_a_program_that_is_none_is_named_and_nothing_is_left(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Sandbox(directory, ["one"], "kwok:0", agents=False) as sandbox:
        programs = dict(sandbox.plan.programs)
    assets = tmp_path / "assets"
    assets.mkdir()
    for name, path in programs.items():
        (assets / name).symlink_to(path)
    (assets / "kwok").unlink()
    (assets / "kwok").write_text("exit 3")
    (assets / "kwok").chmod(0o755)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    with pytest.raises(SandboxError, match="kwok"):
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
    monkeypatch.setattr("agent.sandbox.store.BYTES_PER_CLUSTER", 0)
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


async def test_a_sandbox_that_was_moved_says_where_it_belongs(directory: Path, tmp_path: Path) -> None:
    await Sandbox(directory, ["one"], "kwok:0", agents=False).up()
    moved = Path(shutil.move(directory, tmp_path / "moved"))
    try:
        with pytest.raises(SandboxError, match=str(directory)):
            await Sandbox(moved).down()
        with pytest.raises(SandboxError, match="move its directory back"):
            Sandbox.open(moved)
    finally:
        shutil.move(moved, directory)


async def test_joined_clusters_have_a_source_a_target_and_a_working_kubeconfig(directory: Path) -> None:
    async with Sandbox(directory, ["cd", "us"], "kwok:0", agents=False) as sandbox:
        await sandbox.join(self_target=True)
        await sandbox.join(self_target=True)
        async with client_of(sandbox["cd"]) as source, client_of(sandbox["us"]) as target:
            assert (await target.get(SOURCES, "cd", "default"))["spec"] == {"serviceAccountName": "cd"}
            specs = {item["metadata"]["name"]: item["spec"] for item in await source.list(TARGETS, "default")}
            assert specs == {"cd": {"self": True}, "us": {"kubeconfigSecret": {"name": "us"}}}
            secret = await source.get(SECRETS, "us", "default")
        connection = config.parse(base64.b64decode(secret["data"]["config"]))
        assert connection.server == sandbox["us"].server
        async with Session(connection) as session:
            with pytest.raises(Forbidden, match="system:serviceaccount:default:cd"):
                await Client(session).list(PODS, "kube-system")
