"""Real sandboxes that start, are damaged, and are taken down.

Two sandboxes serve several tests each. The last test of each takes it down.
"""

import asyncio
import base64
import contextlib
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from agent.api.kinds import NODES, PODS, SECRETS, SERVICE_ACCOUNTS, SOURCES, TARGETS, Kind
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from hack.lab.sandbox import Cluster, Sandbox, SandboxError, blackhole
from hack.lab.sandbox.objects import connect
from tests.cli.command import call
from tests.sandbox.machine import leftovers
from tests.waiting import gone, until

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


async def runs(client: Client, pod: str) -> bool:
    return bool((await client.get(PODS, pod, "default"))["status"]["phase"] == "Running")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def without_root(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Cluster `one` of a user without root; the first test starts it."""
    directory = tmp_path_factory.mktemp("loopback") / "sandbox"
    sandbox = Sandbox(
        directory, ["one"], "kwok:2", agents=False, network="loopback", pods_per_node=7, candidate_scheduler=True
    )
    yield sandbox
    await sandbox.down()


@pytest_asyncio.fixture
async def one(without_root: Sandbox) -> Sandbox:
    """Cluster `one`, repaired after a failed test."""
    await without_root.up()
    return without_root


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def two_clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Clusters `cd` and `us`, in network namespaces if permitted."""
    sandbox = Sandbox(tmp_path_factory.mktemp("two") / "sandbox", ["cd", "us"], "kwok:1", agents=False)
    yield sandbox
    await sandbox.down()


@pytest_asyncio.fixture
async def two(two_clusters: Sandbox) -> Sandbox:
    """Clusters `cd` and `us`, repaired after a failed test."""
    await two_clusters.up()
    return two_clusters


def typed(verb: str, sandbox: Sandbox) -> list[str]:
    """Run a command of `flotilla` for the cluster without root."""
    words = ["sandbox", verb, "--dir", str(sandbox.directory)]
    if verb == "up":
        words += ["--clusters", "one", "--nodes", "kwok:2", "--no-agents", "--candidate-scheduler"]
        words += ["--network", "loopback", "--pods-per-node", "7"]
    return words


def test_up_status_and_up_again_as_they_are_typed(without_root: Sandbox) -> None:
    # Its processes outlive the command.
    command = (sys.executable, "-m", "agent.cli", *typed("up", without_root))
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"one: export KUBECONFIG={without_root.directory}/one/kubeconfig\n"
    assert "cluster one: ready at https://" in ended.stderr
    code, output, _ = call(*typed("status", without_root))
    assert code == 0
    assert "candidate-scheduler" in output
    asyncio.run(Sandbox.open(without_root.directory).kill("one", "candidate-scheduler"))
    code, output, _ = call(*typed("status", without_root), "-o", "json")
    assert code == 1
    assert {line["process"] for line in json.loads(output) if line["state"] == "dead"} == {"candidate-scheduler"}
    assert call(*typed("up", without_root))[1].startswith("already up; started again: one/candidate-scheduler\n")
    assert call(*typed("up", without_root))[1].startswith("already up; everything runs\n")


async def test_a_deployment_runs_and_a_job_completes_in_a_cluster_without_root(without_root: Sandbox) -> None:
    assert await without_root.up() == []
    one = without_root["one"]
    assert one.address.startswith("127.")
    assert one.kubeconfig.stat().st_mode & 0o777 == 0o600
    async with client_of(one) as client:
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
    assert {line.state for line in without_root.status()} == {"running"}


async def test_annotations_say_how_long_fake_containers_run_whether_they_fail_and_how_long_they_take_to_end(
    one: Sandbox,
) -> None:
    async with client_of(one["one"]) as client:
        marks = {"sandbox.flotilla/runs-for": "1s", "sandbox.flotilla/fails": "true"}
        template = {"metadata": {**LABELS, "annotations": marks}, "spec": {**POD, "restartPolicy": "Never"}}
        await client.create(
            JOBS, {"metadata": {"name": "flop"}, "spec": {"backoffLimit": 0, "template": template}}, "default"
        )

        async def failed() -> bool:
            pods = await client.list(PODS, "default", labels="job-name=flop")
            return [pod["status"]["phase"] for pod in pods] == ["Failed"]

        await until(failed)
        for name, annotations in (("slow", {"sandbox.flotilla/ends-after": "1h"}), ("quick", {})):
            await client.create(PODS, {"metadata": {"name": name, "annotations": annotations}, "spec": POD}, "default")
            await until(functools.partial(runs, client, name))
            await client.delete(PODS, name, "default")
        await gone(lambda: client.get(PODS, "quick", "default"))
        assert "deletionTimestamp" in (await client.get(PODS, "slow", "default"))["metadata"]
        await client.delete(PODS, "slow", "default", grace=0)


async def test_a_taken_port_is_named(one: Sandbox) -> None:
    await one.kill("one", "kube-scheduler")
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind((one["one"].address, one["one"].ports["kube-scheduler"]))
        other.listen()
        with pytest.raises(SandboxError, match="kube-scheduler needs port 10259 of 127"):
            await one.start("one", "kube-scheduler")
    await one.start("one", "kube-scheduler")


async def test_a_sandbox_that_was_moved_says_where_it_belongs(one: Sandbox, tmp_path: Path) -> None:
    moved = Path(shutil.move(one.directory, tmp_path / "moved"))
    try:
        with pytest.raises(SandboxError, match=str(one.directory)):
            await Sandbox(moved).down()
        with pytest.raises(SandboxError, match="move its directory back"):
            Sandbox.open(moved)
    finally:
        shutil.move(moved, one.directory)


def test_down_as_it_is_typed_leaves_nothing(one: Sandbox) -> None:
    assert call(*typed("down", one))[:2] == (0, "down\n")
    assert leftovers(one.directory) == []
    assert os.listdir(one.directory.parent) == []
    assert call(*typed("down", one))[:2] == (0, f"there is no sandbox in {one.directory}\n")


async def test_other_clusters_than_those_that_are_up_are_refused(two: Sandbox) -> None:
    with pytest.raises(SandboxError, match="take it down first"):
        await Sandbox(two.directory, ["two"], agents=False).up()


async def test_joined_clusters_have_a_source_a_target_and_a_working_kubeconfig(two: Sandbox) -> None:
    await two.join(self_target=True)
    await two.join(self_target=True)
    async with client_of(two["cd"]) as source, client_of(two["us"]) as target:
        assert (await target.get(SOURCES, "cd", "default"))["spec"] == {"serviceAccountName": "cd"}
        specs = {item["metadata"]["name"]: item["spec"] for item in await source.list(TARGETS, "default")}
        assert specs == {"cd": {"self": True}, "us": {"kubeconfigSecret": {"name": "us"}}}
        secret = await source.get(SECRETS, "us", "default")
    connection = config.parse(base64.b64decode(secret["data"]["config"]))
    assert connection.server == two["us"].server
    async with Session(connection) as session:
        with pytest.raises(Forbidden, match="system:serviceaccount:default:cd"):
            await Client(session).list(PODS, "kube-system")


@root
async def test_clusters_reach_each_other_until_a_link_is_cut(two: Sandbox) -> None:
    cd, us = two.clusters
    assert cd.address != us.address
    assert await reaches(cd, us)
    await two.set_link("us", up=False)
    assert not await reaches(cd, us)
    assert await reaches(us, us)
    await two.set_link("us", up=True)
    await until(lambda: reaches(cd, us))


@root
@pytest.mark.parametrize("lost", ["requests", "replies"])
async def test_a_link_may_lose_what_one_other_cluster_sends_or_is_answered(two: Sandbox, lost: blackhole.Lost) -> None:
    cd, us = two.clusters
    ends = (us.runner.cluster, cd.runner.cluster, lost)
    await blackhole.swallow(*ends)
    try:
        assert not await reaches(cd, us)
        async with client_of(us) as client:
            assert await client.get(SERVICE_ACCOUNTS, "default", "default")
    finally:
        await blackhole.let_through(*ends)
    assert await reaches(cd, us)


async def reaches(cluster: Cluster, other: Cluster) -> bool:
    """Return whether one cluster can connect to the API server of another."""
    space = f"--net=/var/run/netns/{cluster.runner.cluster.namespace}"
    script = f"import socket; socket.create_connection(({other.address!r}, 6443), 1)"
    run = await asyncio.create_subprocess_exec(
        "nsenter", space, "python3", "-c", script, stderr=asyncio.subprocess.DEVNULL
    )
    return await run.wait() == 0


async def test_what_died_is_started_again_by_another_up(two: Sandbox) -> None:
    async with client_of(two["cd"]) as client:
        await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "kept"}}, "default")
    for name in ("etcd", "kube-apiserver", "kwok"):
        await two.kill("cd", name)
    dead = {line.process for line in two.status() if line.state == "dead"}
    assert dead >= {"etcd", "kube-apiserver", "kwok"}
    second = Sandbox(two.directory, ["cd", "us"], "kwok:1", agents=False)
    assert {"cd/etcd", "cd/kube-apiserver", "cd/kwok"} <= set(await second.up())
    async with client_of(second["cd"]) as client:
        assert await client.get(SERVICE_ACCOUNTS, "kept", "default")
        await client.create(PODS, {"metadata": {"name": "later"}, "spec": POD}, "default")
        await until(functools.partial(runs, client, "later"))
    assert await second.up() == []


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_processes_can_be_stopped_started_and_restarted(two: Sandbox) -> None:
    before = two["us"].pid("kube-apiserver")
    await two.restart("us", "kube-apiserver")
    after = two["us"].pid("kube-apiserver")
    assert after is not None
    assert after != before
    await two.stop("us", "kube-scheduler")
    with pytest.raises(SandboxError, match="does not run"):
        await two.kill("us", "kube-scheduler", signal.SIGSTOP)
    await two.start("us", "kube-scheduler")
    with pytest.raises(SandboxError, match="no process 'agent'"):
        await two.start("us", "agent")
    with pytest.raises(SandboxError, match="no cluster 'two'"):
        await two.kill("two", "etcd")


async def test_down_works_after_a_crash_that_lost_the_record(two: Sandbox) -> None:
    (two.directory / "sandbox.json").write_text("{")
    (two.directory / "us" / "etcd.pid").unlink()
    assert await Sandbox(two.directory).down()
    assert leftovers(two.directory) == []
    assert not await Sandbox(two.directory).down()
