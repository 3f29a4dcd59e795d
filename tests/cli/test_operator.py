"""Daily work of an operator, on a real source that is also its own target, and a second real target."""

import asyncio
import base64
import contextlib
import json
import os
import pty
import secrets
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from agent import __version__
from agent.api import names
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.base import certificate_bundle
from agent.base.certificate_bundle import Lifetimes
from agent.base.clock import SystemClock
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.components import AGENT_KUBECONFIG
from hack.lab.sandbox.objects import apply, token
from tests.cli.command import allowed, flotilla, typed
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from webhook.configurations import Service, by_service, mutating

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

Raw = dict[str, Any]

SPACE = "default"
BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
REPLICAS = 4
SCRIPTS = Path(sys.executable).parent


class Operator:
    """A user who runs `flotilla` in the source."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig

    async def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return exit status, output and errors."""
        return await flotilla(*arguments, "--kubeconfig", str(self.kubeconfig))

    async def read(self, *arguments: str, code: int = 0) -> Any:
        """Return a command's JSON output."""
        ended, output, errors = await self.run(*arguments, "-o", "json")
        assert ended == code, errors or output
        return json.loads(output)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(two: Sandbox) -> AsyncIterator[Fleet]:
    """Source cd with targets us and cd itself, and a Deployment whose pods all run."""
    await two.join(self_target=True)
    fleet = Fleet(two)
    try:
        for name in ("us", "cd"):
            await fleet.ready(SPACE, name)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", REPLICAS), SPACE)
        await fleet.running(SPACE, "web", REPLICAS)
        yield fleet
    finally:
        await fleet.close()


@pytest.fixture
def operator(fleet: Fleet) -> Operator:
    """A user with all rights."""
    return Operator(fleet.sandbox["cd"].kubeconfig)


async def on(fleet: Fleet, target: str) -> list[str]:
    """Return the names of the pods bound to a target."""
    node = names.virtual_node(SPACE, target)
    pods = await fleet.pods(SPACE, "web")
    return sorted(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node)


async def test_targets_are_shown_with_state_room_and_version(fleet: Fleet, operator: Operator) -> None:
    document = await operator.read("targets")
    assert document["notes"] == []
    us = next(line for line in document["targets"] if line["name"] == "us")
    assert us["node"] == names.virtual_node(SPACE, "us")
    assert (us["ready"], us["last_answer"], us["agent"]) == ("True", "now", __version__)
    assert us["pods"] == len(await on(fleet, "us"))
    assert us["cpu"]["allocatable"] == "64"
    assert us["cpu"]["free"]
    code, output, errors = await operator.run("targets", "-o", "wide")
    assert (code, errors) == (0, "")
    head, *rows = output.splitlines()
    assert head.split()[:4] == ["NAME", "SERVES", "NODE", "READY"]
    assert [row.split()[0] for row in rows] == ["cd", "us"]


async def test_pods_are_shown_with_delegate_and_its_node(fleet: Fleet, operator: Operator) -> None:
    document = await operator.read("pods", "-A")
    assert document["notes"] == []
    delegates = await fleet.delegates(SPACE)
    shown = {line["name"]: (line["target"], line["delegate"], line["delegate_node"]) for line in document["pods"]}
    want = {
        pod["metadata"]["name"]: (cluster, delegate["metadata"]["name"], delegate["spec"]["nodeName"])
        for pod in await fleet.pods(SPACE, "web")
        for cluster, delegate in (delegates[pod["metadata"]["uid"]],)
    }
    assert shown == want
    only = await operator.read("pods", "--target", "us")
    assert sorted(line["name"] for line in only["pods"]) == await on(fleet, "us")


async def test_top_prints_once_where_there_is_no_terminal(operator: Operator) -> None:
    code, output, errors = await operator.run("top")
    assert (code, errors) == (0, "")
    assert [line.split()[0] for line in output.splitlines()] == ["TARGET", "cd", "us"]
    assert "Connected" in output


async def test_top_on_a_terminal_looks_again_and_again_until_ctrl_c(fleet: Fleet, operator: Operator) -> None:
    terminal, end = pty.openpty()
    os.set_blocking(terminal, False)
    words = ("top", "--interval", "0.5", "--kubeconfig", str(operator.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "agent.cli", *words),
        stdin=end,
        stdout=end,
        stderr=end,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200", "LINES": "30"},
    )
    os.close(end)
    shown = b""

    async def looked_twice() -> bool:
        nonlocal shown
        with contextlib.suppress(BlockingIOError):
            shown += os.read(terminal, 65536)
        return shown.count(b"Ctrl-C ends") > 1 and shown.count(b"Connected") > 1

    try:
        await fleet.until("top has looked twice", looked_twice)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):
            # Drain the terminal, since a full buffer would block the process.
            while process.returncode is None:
                await asyncio.sleep(0.05)
                with contextlib.suppress(BlockingIOError):
                    os.read(terminal, 65536)
        assert await process.wait() == 0
    finally:
        os.close(terminal)


async def test_versions_are_told_of_every_cluster(operator: Operator) -> None:
    document = await operator.read("version")
    assert [each["where"] for each in document["versions"]] == [
        "this command",
        "source cluster",
        "target default/cd",
        "target default/us",
    ]
    assert {each["flotilla"] for each in document["versions"]} == {__version__}
    assert all(each["kubernetes"].startswith("v1.") for each in document["versions"][1:])
    code, output, _ = await operator.run("version", "--client")
    assert (code, output.split()[-2:]) == (0, [__version__, "-"])


async def test_doctor_finds_nothing_where_all_is_well(operator: Operator) -> None:
    code, output, errors = await operator.run("doctor")
    assert (code, errors) == (0, ""), output
    assert output.splitlines()[-1].endswith("OK, 0 WARN, 0 FAIL")
    for what in ("Kubernetes v1.", "CRDs: all 8", "it answers", "token in Secret default/us", "network driver"):
        assert what in output


async def test_doctor_judges_what_is_installed_alone(operator: Operator) -> None:
    code, output, errors = await operator.run("doctor", "--installation")
    assert (code, errors) == (0, ""), output
    for what in ("CRDs: all 8", "its agent leads", "rights of service account", "a Target with a mistake is refused"):
        assert what in output
    assert "target " not in output


async def test_doctor_tells_what_is_wrong_and_what_helps(fleet: Fleet, operator: Operator) -> None:
    source = fleet.source
    await apply(source, NAMESPACES, manifests.namespace("unlabelled"))
    pod = manifests.pod("slipped")
    await fleet.until("its service account", lambda: source.get(SERVICE_ACCOUNTS, "default", "unlabelled"))
    await source.create(PODS, pod, "unlabelled")
    # An agent as the chart runs it, and a second installation whose webhook has no pods.
    labels = {"app.kubernetes.io/name": "flotilla", "app.kubernetes.io/component": "agent"}
    deployment = manifests.deployment("agent", 0, serviceAccountName="flotilla-agent")
    deployment["metadata"]["labels"] = labels
    await source.create(DEPLOYMENTS, deployment, "kube-system")
    await source.create(SERVICES, {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}, "unlabelled")
    authority = certificate_bundle.new("second", ["hook.unlabelled.svc"], SystemClock().now(), Lifetimes()).trusted
    second = mutating("second", by_service(Service("unlabelled", "hook")), authority)
    for entry in second["webhooks"]:
        entry["namespaceSelector"] = {"matchLabels": {"no": "namespace"}}
    await source.create(MUTATING_WEBHOOKS, second)
    role = (await source.get(CLUSTER_ROLES, "flotilla-agent"))["rules"]
    lacking = [rule for rule in role if rule["resources"] != ["nodes/status"]]
    assert lacking != role
    await source.patch(CLUSTER_ROLES, "flotilla-agent", {"rules": lacking})
    await fleet.sandbox.kill("cd", "webhook")

    async def knows() -> list[Raw]:
        found: list[Raw] = (await operator.read("doctor", "--quiet", code=1))["findings"]
        return found if any(each["about"].startswith("rights of ") for each in found) else []

    try:
        findings = await fleet.until("the API server knows of the right that is lost", knows)
    finally:
        await source.patch(CLUSTER_ROLES, "flotilla-agent", {"rules": role})
        await fleet.sandbox.start("cd", "webhook")
        await source.delete(MUTATING_WEBHOOKS, "second")
        await source.delete(DEPLOYMENTS, "agent", "kube-system")
        await source.delete(NAMESPACES, "unlabelled")
    told = [(each["about"], f"{each['what']} - {each['remedy']}") for each in findings]
    want = [
        ("rights of service account kube-system/flotilla-agent", "it may not patch nodes/status"),
        ("webhook", "several configurations elect pods: multicluster-scheduler, second"),
        ("webhook", "no endpoint of its Service unlabelled/hook is ready"),
        ("webhook", "the API server does not reach it"),
        ("namespace unlabelled", "kubectl label namespace unlabelled"),
    ]
    assert [about for about, _ in told] == [about for about, _ in want]
    assert [words for (_, says), (_, words) in zip(told, want, strict=True) if words not in says] == []


@contextlib.asynccontextmanager
async def budget(fleet: Fleet, available: int) -> AsyncIterator[None]:
    """A disruption budget that requires this many available pods of the Deployment."""
    spec = {"minAvailable": available, "selector": {"matchLabels": {"app": "web"}}}
    body = {"apiVersion": BUDGETS.api_version, "kind": BUDGETS.name, "metadata": {"name": "web"}, "spec": spec}
    await fleet.source.create(BUDGETS, body, SPACE)

    async def counted() -> bool:
        status = (await fleet.source.get(BUDGETS, "web", SPACE)).get("status", {})
        return bool(status.get("currentHealthy") == REPLICAS)

    try:
        await fleet.until("the budget has counted the pods", counted, about=SPACE)
        yield
    finally:
        await fleet.source.delete(BUDGETS, "web", SPACE)


async def cordoned(fleet: Fleet) -> bool:
    node = await fleet.source.get(NODES, names.virtual_node(SPACE, "us"))
    return bool(node["spec"].get("unschedulable"))


async def test_a_drain_asks_for_what_would_be_lost_and_changes_nothing(fleet: Fleet, operator: Operator) -> None:
    alone = manifests.pod("alone", nodeSelector={names.LABEL_TARGET_NAME: "us"})
    alone["metadata"]["annotations"][names.PREFIX + names.USE_CONSTRAINTS] = ""
    await fleet.source.create(PODS, alone, SPACE)
    await fleet.running(SPACE, "alone", 1)
    code, _, errors = await operator.run("drain", "us")
    assert code == 1
    why = "pods that nothing makes again (--force evicts them all the same): default/alone"
    assert errors == f"flotilla: in the way are {why}\n"
    assert not await cordoned(fleet)
    await fleet.source.delete(PODS, "alone", SPACE)
    await fleet.gone(PODS, "alone", SPACE)


async def test_a_drain_waits_for_disruption_budgets(fleet: Fleet, operator: Operator) -> None:
    before = await on(fleet, "us")
    assert before
    async with budget(fleet, REPLICAS):
        code, output, _ = await operator.run("drain", "us", "--dry-run")
        assert code == 0
        assert f"default/{before[0]} would wait: Cannot evict pod as it would violate" in output
        assert not await cordoned(fleet)
        code, output, errors = await operator.run("drain", "us", "--timeout", "2")
    assert code == 1
    assert "disruption budget" in errors
    assert f"default/{before[0]} waits: " in output
    assert await on(fleet, "us") == before
    assert await cordoned(fleet)


async def test_a_drain_moves_all_pods_to_other_targets_and_an_undrain_lets_them_back(
    fleet: Fleet, operator: Operator
) -> None:
    count = len(await on(fleet, "us"))
    code, output, errors = await operator.run("drain", "us")
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == f"target default/us drained: {count} {'pod' if count == 1 else 'pods'} moved out"
    assert await on(fleet, "us") == []
    await fleet.running(SPACE, "web", REPLICAS)
    assert len(await on(fleet, "cd")) == REPLICAS
    code, output, _ = await operator.run("doctor", "-q")
    assert code == 1
    assert "it is cordoned: it gets no new pods. Remedy: `flotilla undrain us`" in output
    code, output, errors = await operator.run("undrain", "us")
    assert (code, output, errors) == (0, "target default/us takes pods again\n", "")
    assert not await cordoned(fleet)


async def test_where_the_agent_moves_nothing_a_move_says_so_and_waits_for_nothing(
    fleet: Fleet, operator: Operator
) -> None:
    before = await on(fleet, "us")
    code, output, errors = await operator.run("move", "deployment/web", "--to", "us", "--wait")
    assert (code, output) == (1, "")
    assert "the agent of this cluster moves no running pods: remove its setting --no-moves" in errors
    assert "nothing counts that Deployment web says of targets. Nothing was changed" in errors
    code, output, errors = await operator.run("move", "deployment/web", "--to", "us")
    assert code == 0
    assert output.startswith("multicluster/targets of Deployment web is 'us' (was not there)")
    assert "Note: the agent of this cluster moves no running pods" in errors
    code, output, errors = await operator.run("moves")
    assert (code, output) == (0, "")
    assert "no pod moves, or should" in errors
    assert "remove its setting --no-moves" in errors
    assert await on(fleet, "us") == before
    patch = {"metadata": {"annotations": {"multicluster/targets": None}}}
    await fleet.source.patch(DEPLOYMENTS, "web", patch, SPACE)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("move", "deployment/mars", "--to", "us"), 1, "there is no Deployment mars in namespace default"),
        (("move", "service/web", "--to", "us"), 2, "is none of what says where pods may be"),
        (("move", "deployment/web"), 2, "say where to by --to, or --anywhere"),
        (("moves", "-w", "-o", "json"), 2, "--watch writes lines of a table only"),
        (("drain", "mars"), 1, "no target mars serves namespace default of this cluster (there is: cd, us)"),
        (("drain",), 2, "Missing argument"),
        (("pods", "--target", "mars"), 1, "no target mars serves this namespace (there is: cd, us)"),
        (("targets", "mars"), 1, "no target mars serves this namespace (there is: cd, us)"),
        (("targets", "-o", "xml"), 2, "'xml'"),
        (("clusters",), 1, "does not serve managedclusters.cluster.open-cluster-management.io: install Flotilla in it"),
        (("bind", "default"), 1, "with `--set agent.placement.crds=true`, or choose another cluster by --context"),
        (("explain", "placement"), 2, "name a Placement, or a file with one by -f"),
        (("targets", "--context", "mars"), 1, "no context named 'mars'"),
    ],
)
async def test_what_cannot_be_done_ends_with_a_reason(
    operator: Operator, words: tuple[str, ...], code: int, says: str
) -> None:
    ended, output, errors = await operator.run(*words)
    assert (ended, output) == (code, "")
    assert says in errors


@pytest.mark.full("Starts a dozen processes of the command.")
async def test_as_a_process_it_says_the_same_and_ends_the_same_way(operator: Operator) -> None:
    script, module = (str(SCRIPTS / "flotilla"),), (sys.executable, "-m", "agent.cli")
    for program, code, words in ((module, 1, ("drain", "mars")), (script, 2, ("drain",))):
        ended = await typed(*program, *words, "--kubeconfig", str(operator.kubeconfig))
        assert ended[0] == code
        assert ended == await operator.run(*words)


@pytest_asyncio.fixture(loop_scope="module")
async def reader(fleet: Fleet, tmp_path: Path) -> Operator:
    """A user with the rights to read pods, nodes and targets, but not Secrets."""
    rules = [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list"]},
        {"apiGroups": [names.GROUP], "resources": ["targets", "clustertargets"], "verbs": ["get", "list"]},
    ]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader", "namespace": SPACE}}
    head = {"apiVersion": CLUSTER_ROLES.api_version, "metadata": {"name": "reader"}}
    subjects = [{"kind": "ServiceAccount", "name": "reader", "namespace": SPACE}]
    reference = {"apiGroup": CLUSTER_ROLES.group, "kind": "ClusterRole", "name": "reader"}
    await apply(fleet.source, SERVICE_ACCOUNTS, account)
    await apply(fleet.source, CLUSTER_ROLES, {**head, "kind": "ClusterRole", "rules": rules})
    binding = {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects}
    await apply(fleet.source, CLUSTER_ROLE_BINDINGS, binding)
    reader = await somebody(fleet, tmp_path, SPACE, "reader")
    await allowed(reader.kubeconfig)
    return reader


@pytest_asyncio.fixture(loop_scope="module")
async def stranger(fleet: Fleet, tmp_path: Path) -> Operator:
    """A user without rights."""
    return await somebody(fleet, tmp_path, SPACE, "default")


async def somebody(fleet: Fleet, folder: Path, namespace: str, account: str) -> Operator:
    """Return a user with the rights of a service account."""
    document = yaml.safe_load(fleet.sandbox["cd"].kubeconfig.read_text())
    document["users"][0]["user"] = {"token": await token(fleet.source, namespace, account)}
    file = folder / f"{account}.kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return Operator(file)


async def test_who_may_read_no_secrets_sees_what_the_source_knows_and_is_told_what_is_missing(
    fleet: Fleet, reader: Operator, stranger: Operator
) -> None:
    document = await reader.read("targets")
    us = next(line for line in document["targets"] if line["name"] == "us")
    assert (us["ready"], us["agent"], us["cpu"]["allocatable"]) == ("True", "", "64")
    assert any("target us was not asked itself" in note and "secrets" in note for note in document["notes"])
    assert (await reader.read("targets", "--local"))["notes"] == []
    assert len((await reader.read("pods"))["pods"]) == REPLICAS
    code, output, _ = await reader.run("doctor")
    assert code == 1
    assert "WARN  CRDs: it cannot be checked" in output
    code, _, errors = await reader.run("drain", "us")
    assert code == 1
    assert 'cannot patch resource "nodes"' in errors
    code, _, errors = await reader.run("move", "namespace/default", "--anywhere")
    assert code == 1
    assert 'cannot get resource "namespaces"' in errors
    code, _, errors = await stranger.run("drain", "us")
    assert code == 1
    assert "cannot see target us: targets are left out" in errors
    assert "ask for this right" in errors


async def test_no_secret_appears_in_any_log_not_even_at_debug(fleet: Fleet) -> None:
    source, password = fleet.source, f"password-{secrets.token_hex(8)}"
    broken = f"token-{secrets.token_hex(8)}"
    kubeconfig = (await source.get(SECRETS, "us", SPACE))["data"]["config"]
    document = yaml.safe_load(base64.b64decode(kubeconfig))
    tokens = [user["user"]["token"] for user in document["users"]]
    document["users"][0]["user"]["token"] = f"{broken}\nX-Header: {broken}"
    await source.create(SECRETS, {"metadata": {"name": "mine"}, "stringData": {"word": password}}, SPACE)
    await source.create(SECRETS, manifests.secret("broken", SPACE, yaml.safe_dump(document)), SPACE)
    await source.create(TARGETS, manifests.ours("Target", "broken", SPACE, {"kubeconfigSecret": {"name": "broken"}}))
    pod = manifests.pod("reads")
    pod["spec"]["containers"][0]["envFrom"] = [{"secretRef": {"name": "mine"}}]
    await source.create(PODS, pod, SPACE)
    await fleet.running(SPACE, "reads", 1)

    async def refused() -> bool:
        return condition(await source.get(TARGETS, "broken", SPACE), "Ready").get("reason") == "InvalidKubeconfig"

    await fleet.until("the broken kubeconfig is refused", refused, about=SPACE)
    await source.delete(PODS, "reads", SPACE)
    await source.delete(TARGETS, "broken", SPACE)
    for name in ("broken", "mine"):
        await source.delete(SECRETS, name, SPACE)
    await fleet.gone(PODS, "reads", SPACE)
    for cluster in fleet.sandbox.clusters:
        own = yaml.safe_load((cluster.directory / AGENT_KUBECONFIG).read_text())["users"][0]["user"]["token"]
        for process in ("agent", "webhook"):
            text = cluster.log(process).read_text()
            assert text
            for secret in (password, broken, own, *tokens):
                # Only a token's signature is secret.
                for form in (secret.split(".")[-1], base64.b64encode(secret.encode()).decode()):
                    assert form not in text, f"log of {process} in {cluster.name} has a secret"
    lines = [json.loads(line) for line in fleet.sandbox["cd"].log("agent").read_text().splitlines()]
    assert {line.get("cluster") for line in lines} == {"cd"}
    assert any({"controller", "key"} <= line.keys() for line in lines)


@pytest.mark.full("Starts a dozen processes of the command.")
async def test_it_is_a_plugin_of_kubectl_with_completion(fleet: Fleet, operator: Operator) -> None:
    path = f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
    kubectl = str(fleet.sandbox.plan.programs["kubectl"])
    words = ("version", "-o", "json", "--kubeconfig", str(operator.kubeconfig))
    assert await typed(kubectl, "flotilla", *words, PATH=path) == await flotilla(*words)
    where = {"PATH": path, "KUBECONFIG": str(operator.kubeconfig)}
    code, output, _ = await typed(kubectl, "__complete", "flotilla", "drain", "u", **where)
    assert (code, output.splitlines()) == (0, ["us", ":4"])
