"""`flotilla explain pod` on a real cluster that is source and target, with running controllers."""

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.api import names
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICE_ACCOUNTS,
    TARGETS,
)
from agent.kube.client import Client
from agent.model.proxypod import proxy_pod
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.scheduler.controller import ProxyScheduler
from agent.targets.summary import SummaryController
from agent.targets.target import TargetController
from agent.targets.virtual_node import VirtualNodeController
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.objects import token
from tests.cli.command import allowed, flotilla
from tests.controllers.proxies import elected, enable, pod_where
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, target, tear_away
from tests.nodes import takes_pods
from tests.scheduler.test_untaken import GATE, gating, told
from tests.waiting import gone, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

CONTROLLERS = (
    TargetController,
    VirtualNodeController,
    SummaryController,
    Chaperon,
    Feedback,
    OrphanFinalizersController,
    ProxyScheduler,
)
READER = [
    {"apiGroups": [""], "resources": ["pods", "nodes", "namespaces"], "verbs": ["get", "list"]},
    {"apiGroups": [names.GROUP], "resources": ["targets", "clustertargets"], "verbs": ["get", "list"]},
]


class Command:
    """`flotilla explain pod` in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.kubeconfig = kubeconfig
        self.namespace = namespace

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit status, output and errors."""
        where = ("-n", self.namespace, "--kubeconfig", str(self.kubeconfig))
        return await flotilla("explain", "pod", *where, *arguments)

    async def read(self, name: str) -> Raw:
        """Return the explanation of a pod."""
        code, output, errors = await self.run(name, "-o", "json")
        assert (code, errors) == (0, "")
        account: Raw = json.loads(output)
        return account

    async def refused(self, name: str) -> str:
        """Return the error for a pod that cannot be explained."""
        code, output, errors = await self.run(name)
        assert (code, output) == (1, "")
        assert len(errors.splitlines()) == 1
        return errors


def untold(pod: Raw) -> Raw:
    """Return a pod without the fields that agents and schedulers keep updating."""
    metadata = {key: pod["metadata"].get(key) for key in ("name", "uid", "labels", "annotations", "finalizers")}
    return {"metadata": metadata, "spec": pod["spec"]}


@contextlib.asynccontextmanager
async def fleet(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Command]:
    """Targets `me`, the cluster itself, and `far`, the same cluster by its kubeconfig. Both are Ready."""
    await enable(client, namespace)
    async with running(cluster, *CONTROLLERS):
        try:
            await client.create(TARGETS, target("me", namespace, self=True))
            await add(client, namespace, "far", kubeconfig(cluster))
            for name in ("me", "far"):
                await condition(client, namespace, name, "Ready", "True")
                await until(lambda name=name: _has_node(client, names.virtual_node(namespace, name)))
            yield Command(cluster.kubeconfig, namespace)
        finally:
            await tear_away(client, namespace)
            for name in ("me", "far"):
                await gone(lambda name=name: client.get(NODES, names.virtual_node(namespace, name)))


async def _has_node(client: Client, node: str) -> bool:
    return takes_pods(await client.get(NODES, node))


async def create(client: Client, pod: Raw) -> None:
    """Create a proxy pod as the webhook would."""
    namespace = pod["metadata"]["namespace"]
    finalizers = [names.finalizer(namespace, name) for name in ("me", "far")]
    await client.create(PODS, proxy_pod(pod, finalizers))


def huge(name: str, namespace: str, **spec: Any) -> Raw:
    """Return a pod that fits on no node."""
    containers = [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1000"}}}]
    return elected(name, namespace, containers=containers, **spec)


async def waits(client: Client, namespace: str, name: str) -> None:
    """Wait until the pod's only candidate has been refused and its condition reports it."""

    async def probe() -> bool:
        conditions = (await client.get(PODS, name, namespace))["status"].get("conditions", [])
        return any("nodes are available" in each.get("message", "") for each in conditions)

    await until(probe)


async def test_pods_in_every_state_are_explained(cluster: Cluster, client: Client, namespace: str) -> None:
    async with fleet(cluster, client, namespace) as command:
        await create(client, elected("web", namespace))
        await create(client, huge("huge", namespace))
        gates = [{"name": "flotilla.test/gate"}]
        await create(client, elected("gated", namespace, schedulingGates=gates))
        await _claim_with_a_volume_in(client, namespace, "far")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await create(client, elected("keeper", namespace, schedulingGates=gates, volumes=[volume]))
        web = await pod_where(client, namespace, "web", phase="Running")
        await waits(client, namespace, "huge")
        before = [untold(pod) for pod in await client.list(PODS, namespace)]

        account = await command.read("web")
        where = account["bound"]
        assert (account["phase"], where["node"]) == ("Running", web["spec"]["nodeName"])
        assert (where["delegate_node"], where["delegate_phase"]) == ("test-node-0", "Running")
        assert where["delegate"].startswith("web-")
        assert [line["verdict"] for line in account["targets"]] == ["", ""]

        account = await command.read("huge")
        assert account["mode"] == "ranked"
        assert "one candidate is left in" in account["waits_for"]
        assert account["claim"] in ("me", "far")
        assert {line["target"]: line["reason"] for line in account["targets"]} == {"me": "TooBig", "far": "TooBig"}
        assert all(line["verdict"].startswith("insufficient cpu on every node") for line in account["targets"])
        (claimed,) = [line for line in account["targets"] if line["target"] == account["claim"]]
        assert claimed["candidate"].startswith("unschedulable: 0/")
        assert claimed["total"] is not None
        assert account["told"].startswith("0/2 targets are available")

        account = await command.read("gated")
        assert account["waits_for"] == "its scheduling gates to be removed: flotilla.test/gate"
        assert [line["verdict"] for line in account["targets"]] == ["", ""]
        assert all(line["scores"].keys() >= {"capacity"} for line in account["targets"])

        code, text, _ = await command.run("huge")
        assert code == 0
        assert text.splitlines()[0] == f"Pod {namespace}/huge"
        assert "TARGET  MAY TAKE IT" in text
        assert "\x1b" not in text
        flags = ("--placement-strategy=most", "--extra-score=1:nothing.v1.example.com:a:b")
        code, text, _ = await command.run("gated", "-o", "yaml", *(f"--agent-flag={flag}" for flag in flags))
        found = yaml.safe_load(text)
        assert found["phase"] == "Pending"
        assert (
            "no target has the score a:b: see that there are nothing.example.com that have not expired"
            in found["notes"]
        )

        account = await command.read("keeper")
        assert {line["target"]: line["reason"] for line in account["targets"]} == {"far": "", "me": "VolumeElsewhere"}

        delegate = where["delegate"]
        assert "is a delegate" in await command.refused(delegate)
        assert before == [untold(pod) for pod in await client.list(PODS, namespace)]


async def test_a_delegate_that_a_queue_of_its_target_gates_is_explained_as_its_pod_says_it(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with fleet(cluster, client, namespace) as command, gating(client, namespace):
        await create(client, elected("queued", namespace))
        message = await told(client, namespace, "queued", GATE)
        account = await command.read("queued")
        assert account["waits_for"].startswith(f"a controller in {account['claim']}: its delegate has scheduling gates")
        (claimed,) = [line for line in account["targets"] if line["target"] == account["claim"]]
        assert claimed["candidate"].startswith("gated: ")
        assert claimed["candidate"].endswith(GATE)
        assert account["told"] == message


async def _claim_with_a_volume_in(client: Client, namespace: str, target: str) -> None:
    """Create a claim that is its own copy, since source and target are the same cluster, with a volume in the
    target."""
    bound = {
        "pv.kubernetes.io/bind-completed": "yes",
        names.ANNOTATION_VOLUME_IN: names.virtual_node(namespace, target),
    }
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "",
        "volumeName": f"{namespace}-data",
    }
    claim = {"metadata": {"name": "data", "annotations": bound}, "spec": spec}
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
    body = {"status": {"phase": "Lost"}}
    await client.patch_raw(PERSISTENT_VOLUME_CLAIMS, "data", body, namespace, sub="status")


async def test_pods_that_are_not_ours_get_the_remedy(cluster: Cluster, client: Client, namespace: str) -> None:
    command = Command(cluster.kubeconfig, namespace)
    plain = elected("plain", namespace)
    plain["metadata"]["annotations"] = {}
    await client.create(PODS, plain)
    await client.create(PODS, elected("early", namespace))
    told = await command.refused("plain")
    assert f"kubectl label namespace {namespace} multicluster-scheduler=enabled" in told
    assert "annotate it multicluster.admiralty.io/elect" in told
    assert "its namespace was not enabled when it was created" in await command.refused("early")
    assert await command.refused("none") == f"flotilla: there is no pod {namespace}/none in this cluster\n"


async def test_a_user_who_may_not_read_secrets_is_told_what_that_leaves_out(
    cluster: Cluster, client: Client, namespace: str, tmp_path: Path
) -> None:
    async with fleet(cluster, client, namespace) as command:
        await create(client, huge("huge", namespace))
        await waits(client, namespace, "huge")
        await _allow_to_read(client, namespace)
        user = {"token": await token(client, namespace, "reader")}
        command.kubeconfig = tmp_path / "kubeconfig"
        command.kubeconfig.write_text(kubeconfig(cluster, user=user))
        try:
            await allowed(command.kubeconfig)
            account = await command.read("huge")
        finally:
            for kind in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
                await client.delete(kind, namespace)
        notes = "\n".join(account["notes"])
        assert "target far was not asked itself" in notes
        assert "secrets" in notes
        assert {line["target"]: line["reason"] for line in account["targets"]} == {"me": "TooBig", "far": "TooBig"}
        assert {line["candidate"] for line in account["targets"]} == {"?"}


async def _allow_to_read(client: Client, namespace: str) -> None:
    """Create an account that may read the required kinds except Secrets and PodChaperons, and may write none."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "reader"}}, namespace)
    await client.create(CLUSTER_ROLES, {"metadata": {"name": namespace}, "rules": READER})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    await client.create(
        CLUSTER_ROLE_BINDINGS, {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]}
    )


async def test_without_an_agent_the_account_says_that_none_leads(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(TARGETS, target("me", namespace, self=True))
    await create(client, elected("web", namespace))
    try:
        account = await Command(cluster.kubeconfig, namespace).read("web")
    finally:
        await tear_away(client, namespace)
    (line,) = account["targets"]
    assert "no agent of this cluster has said anything about this Target" in line["verdict"]
    assert any("no agent has ever led" in note or "silent since" in note for note in account["notes"])
    assert not await client.list(CHAPERONS, namespace)


@pytest.mark.parametrize(
    ("arguments", "want_code", "want_message"),
    [
        ((), 2, "Missing argument"),
        (("web", "-o", "xml"), 2, "xml"),
        (("web", "--agent-flag=--dwell=0"), 2, "--dwell"),
        (("web", "--context", "nowhere"), 1, "nowhere"),
        (("web", "--kubeconfig", "/no/such/file"), 1, "/no/such/file"),
    ],
)
async def test_mistakes_are_told(
    cluster: Cluster, arguments: tuple[str, ...], want_code: int, want_message: str
) -> None:
    code, output, errors = await Command(cluster.kubeconfig, "default").run(*arguments)
    assert (code, output) == (want_code, "")
    assert want_message in errors
