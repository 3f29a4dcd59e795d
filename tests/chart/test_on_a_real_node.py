"""The chart as users run it: agents, webhooks and candidate schedulers as pods, from installation to removal.

Two clusters with one real node each exercise the rights of both sides. They start with the previous commit's
chart and image. Each is upgraded in turn, so both versions meet in both directions."""

import asyncio
import functools
import os
import re
import shlex
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLES,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    TARGETS,
    VALIDATING_WEBHOOKS,
)
from agent.api.names import LABEL_PARENT_UID, LEASE_CONTROLLERS, virtual_node
from agent.kube.client import Client
from agent.kube.errors import NotFound, Unauthorized
from agent.model.podstate import PROXY_PODS
from hack.lab.sandbox import Cluster, Sandbox, SandboxError, ownimage
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.sandbox.realnode.images import BUSYBOX_IMAGE
from tests.chart import helm, previous
from tests.chart.conftest import clear
from tests.chart.helm import NAMESPACE, Raw
from tests.cli import command
from tests.docs.pages import DOCS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.sandbox import ownbase
from tests.sandbox.realnode.conftest import kubectl, why_not
from tests.waiting import until
from webhook.configurations import PATH_VALIDATE

pytestmark = [
    pytest.mark.full("Needs Helm."),
    pytest.mark.cluster,
    pytest.mark.e2e,
    pytest.mark.story,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
]

IMAGE = "flotilla.local/flotilla"
SCHEDULER = "flotilla.local/kube-scheduler"
TEST = ("test", "flotilla", "-n", NAMESPACE, "--timeout=4m")
FLAGS = ("-n", NAMESPACE, "--wait", "--timeout=4m")
VALUES = {
    "image.repository": IMAGE,
    "candidateScheduler.enabled": "true",
    "candidateScheduler.image.repository": SCHEDULER,
    "candidateScheduler.image.tag": "v1",
    "agent.settings.release-after": "3",
}
OF = {"one": {"clusterName": "one"}, "two": {"clusterName": "two", "agent.replicas": "1", "webhook.replicas": "1"}}
LATER: dict[str, dict[str, str]] = {"one": {}, "two": {"metrics.authentication": "true"}}
"""Additional values for the upgrade, by cluster."""
SCRIPT = "echo hello; trap exit TERM; while :; do sleep 1; done"
PLACES = {"default": ("one", "one"), "there": ("one", "two"), "back": ("two", "one")}
"""Source and target by namespace."""
PATIENCE_SECONDS = 150.0


@dataclass(frozen=True)
class Release:
    """A version to install: a checkout and its image's tag."""

    source: Path
    tag: str

    async def apply(self, fleet: Fleet, verb: str, cluster: str, **more: str) -> None:
        """Run `helm install` or `helm upgrade`."""
        values = VALUES | OF[cluster] | {"image.tag": self.tag} | more
        settings = [flag for name, value in values.items() for flag in ("--set", f"{name}={value}")]
        await call(fleet, cluster, verb, "flotilla", str(self.source / "charts" / "flotilla"), *FLAGS, *settings)


@dataclass(frozen=True)
class Releases:
    """The releases of the previous commit and of this tree."""

    old: Release
    new: Release


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sandbox]:
    """Two clusters with a real node each and without any object of Flotilla."""
    if reason := why_not():
        pytest.skip(reason)
    async with Sandbox(tmp_path_factory.mktemp("real") / "two", list(OF), "real:1", agents=False) as sandbox:
        await asyncio.gather(*(clear(cluster) for cluster in sandbox.clusters))
        yield sandbox


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def releases(sandbox: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Releases:
    """Both releases, with their images loaded on the nodes."""
    found = Releases(
        Release(await asyncio.to_thread(previous.checkout, sandbox.directory / "previous"), "old"),
        Release(REPOSITORY, "new"),
    )
    own = {f"{IMAGE}:{release.tag}": release.source for release in (found.old, found.new)}
    file, scheduler = sandbox.directory / "images.tar", Path(sandbox.plan.programs["kube-scheduler"])
    base = await asyncio.to_thread(ownbase.shared, tmp_path_factory)
    await sandbox.load(await asyncio.to_thread(ownimage.build_all, file, own, base))
    await sandbox.load(await asyncio.to_thread(ownimage.build_program, scheduler, file, f"{SCHEDULER}:v1"))
    file.unlink()
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(sandbox: Sandbox) -> AsyncIterator[Fleet]:
    """Clients with all rights in both clusters."""
    fleet = Fleet(sandbox)
    yield fleet
    await fleet.close()


async def call(fleet: Fleet, cluster: str, *arguments: str) -> str:
    return await asyncio.to_thread(helm.run, *arguments, kubeconfig=fleet.sandbox[cluster].kubeconfig)


def deployment(name: str, **annotations: str) -> Raw:
    """Return a Deployment with one elected pod that runs until SIGTERM."""
    containers = [{"name": "main", "image": BUSYBOX_IMAGE, "command": ["sh", "-c", SCRIPT]}]
    labels = {"app": name}
    metadata = {"labels": labels, "annotations": {"multicluster.admiralty.io/elect": "", **annotations}}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": metadata, "spec": {"containers": containers}},
        },
    }


async def proxies(client: Client, namespace: str | None = None) -> list[Raw]:
    return await client.list(PODS, namespace, fields=PROXY_PODS)


async def delegates(fleet: Fleet) -> dict[str, int]:
    """Return restart counts of the delegates in all clusters by UID."""
    listed = [await client.list(PODS, labels=LABEL_PARENT_UID) for client in fleet.clients.values()]
    return {
        pod["metadata"]["uid"]: sum(each["restartCount"] for each in pod["status"].get("containerStatuses", ()))
        for pods in listed
        for pod in pods
    }


async def all_run(fleet: Fleet, want: dict[str, int]) -> None:
    """Wait until each namespace has exactly this many proxy pods and all of them run in its target."""

    async def probe() -> bool:
        for namespace, count in want.items():
            source, target = PLACES[namespace]
            found = await proxies(fleet.clients[source], namespace)
            places = {(pod["status"]["phase"], pod["spec"].get("nodeName")) for pod in found}
            if len(found) != count or places - {("Running", virtual_node(namespace, target))}:
                return False
        return True

    await fleet.until(f"pods run: {want}", probe, about="there", seconds=PATIENCE_SECONDS)


async def scale(fleet: Fleet, replicas: int) -> None:
    """Set the replicas of the Deployment in every namespace."""
    for namespace, (source, _) in PLACES.items():
        await fleet.clients[source].patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace)


FORBIDDEN = re.compile(r" cannot \w+ resource ")
"""Phrase in an API server's message if a role lacks a verb."""


async def refused(fleet: Fleet, cluster: str, component: str) -> list[str]:
    """Return a component's log lines about requests that its role forbids."""
    selector = f"app.kubernetes.io/component={component}"
    flags = ("-n", NAMESPACE, "-l", selector, "--all-containers", "--tail=-1", "--prefix")
    lines = (await kubectl(fleet.sandbox[cluster], "logs", *flags)).splitlines()
    return [line for line in lines if f"flotilla-{component}" in line and FORBIDDEN.search(line)]


async def flotilla(fleet: Fleet, *arguments: str) -> str:
    """Run the command with the contexts of both clusters and return its output."""
    code, output, errors = await run_flotilla(fleet, *arguments)
    assert code == 0, errors or output
    return output


async def run_flotilla(fleet: Fleet, *arguments: str) -> tuple[int, str, str]:
    files = os.pathsep.join(str(cluster.kubeconfig) for cluster in fleet.sandbox.clusters)
    return await command.flotilla(*arguments, KUBECONFIG=files)


async def doctor(fleet: Fleet, cluster: str) -> str:
    """Return doctor's output once it finds no problem; a target may answer slowly on a busy machine."""

    async def probe() -> str:
        code, output, errors = await run_flotilla(fleet, "doctor", "--context", cluster)
        print(output, errors)
        return output if code == 0 else ""

    return await until(probe, what=f"nothing is the matter in {cluster}")


async def join(fleet: Fleet) -> None:
    """Create the namespaces in both clusters and a target for each."""
    for namespace, (source, target) in PLACES.items():
        for name, client in fleet.clients.items():
            enabled = manifests.namespace(namespace, enabled=name == source)
            await client.patch(NAMESPACES, namespace, enabled, style="apply")
        if source != target:
            pair = ("--context", source, "--target-context", target)
            await flotilla(fleet, "join", *pair, "-n", namespace, "--timeout=120", "--allow=services,volumes,accounts")
        else:
            await fleet.clients[source].create(
                TARGETS, manifests.ours("Target", target, None, {"self": True}), namespace
            )
            await fleet.ready(namespace, target, source=source)


async def test_two_clusters_from_installation_through_an_upgrade(fleet: Fleet, releases: Releases) -> None:
    await asyncio.gather(*(releases.old.apply(fleet, "install", cluster) for cluster in OF))
    await join(fleet)
    for namespace, (source, _) in PLACES.items():
        await fleet.clients[source].create(DEPLOYMENTS, deployment("web"), namespace)
    held = deployment("held", **{"multicluster/scheduling": "reserve"})
    await fleet.clients["one"].create(DEPLOYMENTS, held, "default")
    await all_run(fleet, {"default": 2, "there": 1, "back": 1})
    before = await delegates(fleet)
    assert list(before.values()) == [0] * 4

    # An upgrade replaces every process and no pod. After the first one, the clusters run different versions.
    for number, cluster in enumerate(OF, 2):
        await releases.new.apply(fleet, "upgrade", cluster, **LATER[cluster])
        assert {uid: count for uid, count in (await delegates(fleet)).items() if uid in before} == before
        await scale(fleet, number)
        await all_run(fleet, {"default": number + 1, "there": number, "back": number})
        assert before.items() <= (await delegates(fleet)).items()
    for cluster in OF:
        for component in ("agent", "webhook", "candidates"):
            assert await refused(fleet, cluster, component) == []


async def test_pods_of_either_are_debugged_through_the_other(fleet: Fleet) -> None:
    for namespace in ("there", "back"):
        source, _ = PLACES[namespace]
        pod = (await proxies(fleet.clients[source], namespace))[0]["metadata"]["name"]
        for words in (("logs", pod), ("exec", pod, "--", "echo", "hello")):
            await until(functools.partial(says_hello, fleet.sandbox[source], "-n", namespace, *words), 60)


async def test_who_looks_sees_pods_and_targets_and_that_all_is_well(fleet: Fleet) -> None:
    for namespace in ("there", "back"):
        source, target = PLACES[namespace]
        where = ("--context", source, "-n", namespace)
        shown = [line.split() for line in (await flotilla(fleet, "pods", *where)).splitlines()[1:]]
        assert len(shown) == len(await proxies(fleet.clients[source], namespace))
        assert {(status, name) for _, status, name, *_ in shown} == {("Running", target)}
        assert (await flotilla(fleet, "targets", *where)).splitlines()[1].split()[:2] == [target, namespace]
        pod = shown[0][0]
        assert "Running" in await flotilla(fleet, "explain", "pod", pod, *where)
    for cluster in OF:
        found = await doctor(fleet, cluster)
        assert f"rights of service account {NAMESPACE}/flotilla-agent: the agent may do all that it needs" in found
        assert "it answers: an elected pod in namespace" in found


async def test_the_charts_own_test_says_that_it_works_and_leaves_nothing(fleet: Fleet) -> None:
    assert re.search(r"TEST SUITE: +flotilla-test\n(.*\n)*Phase: +Succeeded", await call(fleet, "one", *TEST))
    assert await fleet.clients["one"].list(PODS, NAMESPACE, labels="app.kubernetes.io/component=test") == []
    await no_rights_of_the_test(fleet)


@pytest.mark.seldom
async def test_the_charts_own_test_fails_and_tells_why_where_api_servers_do_not_reach_the_webhook(fleet: Fleet) -> None:
    # Port 8080 serves metrics without TLS. A changed Service would not help: its open connections persist.
    await reach(fleet, 8080)
    try:
        with pytest.raises(helm.Failed, match="pod flotilla-test failed"):
            await call(fleet, "one", *TEST)
        said = await kubectl(fleet.sandbox["one"], "-n", NAMESPACE, "logs", "flotilla-test")
        assert "FAIL  webhook: the API server does not reach it: a Target with a mistake passed" in said
        await no_rights_of_the_test(fleet)
        await fleet.clients["one"].delete(PODS, "flotilla-test", NAMESPACE)
    finally:
        await reach(fleet, 443)


async def reach(fleet: Fleet, port: int) -> None:
    """Make the API server call the validating webhook at another port of its Service."""
    client, name = fleet.clients["one"], "multicluster-scheduler"
    entries = (await client.get(VALIDATING_WEBHOOKS, name))["webhooks"]
    webhook = next(entry for entry in entries if entry["clientConfig"]["service"]["path"] == PATH_VALIDATE)
    found = {"name": webhook["name"], "clientConfig": {"service": {**webhook["clientConfig"]["service"], "port": port}}}
    await client.patch(VALIDATING_WEBHOOKS, name, {"webhooks": [found]}, style="strategic")


async def no_rights_of_the_test(fleet: Fleet) -> None:
    roles = {role["metadata"]["name"] for role in await fleet.clients["one"].list(CLUSTER_ROLES)}
    assert "flotilla-agent" in roles
    assert "flotilla-test" not in roles


async def test_the_log_of_the_agent_that_leads_tells_more_as_documented(fleet: Fleet) -> None:
    one, lease = fleet.sandbox["one"], await fleet.clients["one"].get(LEASES, LEASE_CONTROLLERS, NAMESPACE)
    leader = lease["spec"]["holderIdentity"]
    (command,) = re.findall(r"`kubectl ([^`]*SIGUSR1[^`]*)`", (DOCS / "guides/troubleshooting.md").read_text())
    await kubectl(one, *shlex.split(command.replace("POD", leader)))

    async def told() -> bool:
        log = await kubectl(one, "-n", NAMESPACE, "logs", leader, "-c", "agent", "--tail=-1")
        return "log level is DEBUG from now on" in log

    await until(told, 30)


async def test_a_target_is_drained_and_gets_its_pods_back(fleet: Fleet) -> None:
    where, client = ("two", "--context", "one", "-n", "there"), fleet.clients["one"]
    count = len(await proxies(client, "there"))
    said = await flotilla(fleet, "drain", *where, "--evict")
    assert said.splitlines()[-1] == f"target there/two drained: {count} pods moved out"
    assert [pod for pod in await proxies(client, "there") if pod["spec"].get("nodeName")] == []
    await flotilla(fleet, "undrain", *where)
    await all_run(fleet, {"there": count})


async def says_hello(cluster: Cluster, *arguments: str) -> bool:
    """Return True if kubectl prints `hello`; the node's address takes a while to follow the leader."""
    try:
        return (await kubectl(cluster, *arguments)).strip() == "hello"
    except SandboxError:
        return False


async def test_metrics_with_authentication_are_for_nobody_without_a_token(fleet: Fleet) -> None:
    client = fleet.clients["two"]
    pods = [pod for pod in await client.list(PODS, NAMESPACE) if "deletionTimestamp" not in pod["metadata"]]
    components = {pod["metadata"]["labels"]["app.kubernetes.io/component"] for pod in pods}
    assert components == {"agent", "webhook", "candidates"}
    for pod in pods:
        name = pod["metadata"]["name"]
        health = PODS.path(NAMESPACE, f"{name}:8080", "proxy")
        assert await client.session.request("GET", f"{health}/healthz") == b"ok\n"
        with pytest.raises(NotFound):
            await client.session.request("GET", f"{health}/metrics")
        # The API server's proxy does not forward the client's token.
        with pytest.raises(Unauthorized):
            await client.session.request("GET", f"{PODS.path(NAMESPACE, f'https:{name}:8443', 'proxy')}/metrics")


@pytest.mark.seldom
async def test_a_cluster_leaves(fleet: Fleet) -> None:
    for namespace in ("there", "back"):
        source, target = PLACES[namespace]
        await fleet.clients[source].delete(DEPLOYMENTS, "web", namespace)
        await flotilla(fleet, "leave", "--context", source, "--target-context", target, "-n", namespace)
        await fleet.gone(TARGETS, target, namespace, source=source)
    await call(fleet, "two", "uninstall", "flotilla", "-n", NAMESPACE, "--wait", "--timeout=4m")
    assert await fleet.clients["two"].list(PODS, NAMESPACE) == []


@pytest.mark.seldom
async def test_the_end_comes_when_somebody_says_what_becomes_of_the_pods(fleet: Fleet) -> None:
    one, client = fleet.sandbox["one"], fleet.clients["one"]
    before = await delegates(fleet)
    count = len(before)
    with pytest.raises(helm.Failed, match="job flotilla-uninstall failed"):
        await call(fleet, "one", "uninstall", "flotilla", "-n", NAMESPACE)
    why = await kubectl(one, "-n", NAMESPACE, "logs", "job/flotilla-uninstall")
    assert f"nothing was changed: {count} proxy pods of this cluster" in why
    await all_run(fleet, {"default": count})
    assert await delegates(fleet) == before

    # After a failed uninstallation Helm refuses upgrades until a rollback, so set the policy by annotation.
    await kubectl(
        one, "-n", NAMESPACE, "annotate", "deployment", "flotilla-agent", "multicluster/uninstall-policy=delete"
    )
    await call(fleet, "one", "uninstall", "flotilla", "-n", NAMESPACE, "--wait", "--timeout=5m")
    assert await proxies(client) == []
    assert await delegates(fleet) == {}
    assert await client.list(CHAPERONS) == []
    assert [node["metadata"]["name"] for node in await client.list(NODES, labels="virtual-kubelet.io/provider")] == []
    assert "finalizers" not in (await client.get(TARGETS, "one", "default"))["metadata"]
    assert [pod["metadata"]["name"] for pod in await client.list(PODS, NAMESPACE)] == []

    async def at_home() -> bool:
        pods = await client.list(PODS, "default")
        running = [
            pod for pod in pods if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return len(running) == count

    await until(at_home, 120)
