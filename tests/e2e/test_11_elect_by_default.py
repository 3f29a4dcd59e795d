"""Promise 11: a stock chart, applied unchanged to a namespace that elects by default, runs across clusters."""

from collections.abc import AsyncIterator

import msgspec
import pytest
import pytest_asyncio

from agent.api.kinds import NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES, SOURCES, TARGETS
from agent.api.names import ANNOTATION_MANIFEST, LABEL_ELECT_BY_DEFAULT
from hack.lab.sandbox.errors import SandboxError
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition, on_virtual_node
from tests.e2e.manifests import DAEMONSETS, DEPLOYMENTS, JOBS, STATEFULSETS

ELECTS = {"metadata": {"annotations": {"multicluster/elect-by-default": "true"}}}
COUNTS = {"web": 4, "db": 2, "migrate": 2}


def stock(obj: Raw) -> Raw:
    """Remove the annotations that elect pods from a workload."""
    obj["spec"]["template"]["metadata"].pop("annotations")
    return obj


CHART = (
    (
        SERVICES,
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "db"},
            "spec": {"clusterIP": "None", "selector": {"app": "db"}},
        },
    ),
    (SERVICE_ACCOUNTS, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "web"}}),
    (DEPLOYMENTS, stock(manifests.deployment("web", COUNTS["web"], serviceAccountName="web"))),
    (STATEFULSETS, stock(manifests.stateful_set("db", COUNTS["db"]))),
    (DAEMONSETS, stock(manifests.workload(DAEMONSETS, "log", {}))),
    (JOBS, stock(manifests.job("migrate", COUNTS["migrate"]))),
)


@pytest_asyncio.fixture(loop_scope="session")
async def electing(fleet: Fleet, namespace: str) -> AsyncIterator[str]:
    """A namespace that elects by default, once the agent has labelled it."""
    await fleet.source.patch(NAMESPACES, namespace, ELECTS)
    await elects(fleet, namespace, True)
    yield namespace


async def elects(fleet: Fleet, namespace: str, want: bool) -> None:
    """Wait until the namespace has the label, or no longer has it, and the API server calls the webhook
    accordingly."""

    async def labelled() -> bool:
        labels = (await fleet.source.get(NAMESPACES, namespace))["metadata"]["labels"]
        return (LABEL_ELECT_BY_DEFAULT in labels) is want

    await fleet.until("the label follows the annotation", labelled, about=namespace)

    async def called() -> bool:
        pod = msgspec.json.encode(manifests.pod("probe", elect=None))
        made = await fleet.source.session.request("POST", PODS.path(namespace), params={"dryRun": "All"}, body=pod)
        return (b'"schedulerName":"admiralty-proxy"' in made) is want

    await fleet.until("the API server calls the webhook accordingly", called, about=namespace)


async def test_a_stock_chart_runs_unchanged(fleet: Fleet, electing: str) -> None:
    for kind, obj in CHART:
        await fleet.source.create(kind, obj, electing)
    web = await fleet.running(electing, "web", COUNTS["web"])
    db = await fleet.running(electing, "db", COUNTS["db"])

    async def complete() -> bool:
        job = await fleet.source.get(JOBS, "migrate", electing)
        return condition(job, "Complete").get("status") == "True"

    await fleet.until("the Job completes", complete, about=electing)
    for pod in (*web, *db, *await fleet.pods(electing, "migrate")):
        assert on_virtual_node(pod)
        assert "multicluster.admiralty.io/elect" not in pod["metadata"]["annotations"]
        assert ANNOTATION_MANIFEST in pod["metadata"]["annotations"]
    assert {pod["metadata"]["name"] for pod in db} == {"db-0", "db-1"}
    await fleet.agree(electing)
    assert len(await fleet.delegates(electing)) == sum(COUNTS.values())


@pytest.mark.full("Controller tests cover each exception from election.")
async def test_who_applies_a_stock_workload_whose_account_cannot_follow_is_told_once_what_to_do(fleet: Fleet) -> None:
    async with fleet.namespace(()) as namespace:
        spec = {"serviceAccountName": "cd", "allow": ["services", "volumes"]}
        await fleet.clients["us"].create(SOURCES, manifests.ours("Source", "cd", namespace, spec))
        await fleet.join(namespace, "us")
        await fleet.source.create(SERVICE_ACCOUNTS, {"metadata": {"name": "web"}}, namespace)
        path = fleet.sandbox.directory / "stock.json"
        path.write_bytes(msgspec.json.encode(stock(manifests.deployment("web", 1, serviceAccountName="web"))))
        apply = ("-n", namespace, "apply", "--dry-run=server", "--warnings-as-errors", "-f", str(path))
        await fleet.source.patch(NAMESPACES, namespace, ELECTS)
        await elects(fleet, namespace, True)

        async def follows(want: bool) -> bool:
            found = (await fleet.source.get(TARGETS, "us", namespace))["status"].get("namespaces") or [{}]
            return ("serviceAccounts" not in found[0] and "persistentVolumeClaims" in found[0]) is want

        await fleet.until("what does not follow is missing", lambda: follows(False), about=namespace)

        async def told() -> str:
            try:
                await fleet.kubectl("cd", *apply)
            except SandboxError as error:
                return str(error)
            return ""

        said = await fleet.until("who applies it is warned", told, about=namespace)
        assert said.count("Warning: ") == 1
        assert f"service account web does not exist in namespace {namespace} of Target us" in said
        assert "where Sources allow accounts" in said
        # A removed right causes no event (tests/controllers/targets/test_inventory.py); a new right does.
        await fleet.clients["us"].patch(SOURCES, "cd", {"spec": {"allow": None}}, namespace)
        await fleet.until("what follows is not missing", lambda: follows(True), about=namespace)

        async def silent() -> bool:
            return not await told()

        await fleet.until("nobody is warned any more", silent, about=namespace)


@pytest.mark.full("Controller tests cover each exception from election.")
async def test_a_daemon_set_stays_on_the_nodes_here(fleet: Fleet, electing: str) -> None:
    kind, obj = next((kind, obj) for kind, obj in CHART if kind is DAEMONSETS)
    await fleet.source.create(kind, obj, electing)

    async def wanted() -> int:
        return int((await fleet.source.get(DAEMONSETS, "log", electing))["status"]["desiredNumberScheduled"])

    count = await fleet.until("the DaemonSet has its pods", wanted, about=electing)
    for pod in await fleet.running(electing, "log", count):
        assert not on_virtual_node(pod)
        assert pod["spec"]["nodeName"].startswith("cd-node-")
    assert not await fleet.delegates(electing)


@pytest.mark.full("Controller tests cover each exception from election.")
async def test_a_pod_that_opts_out_stays_here(fleet: Fleet, electing: str) -> None:
    opted_out = manifests.pod("stays", elect=None, annotations={"multicluster/elect": "false"})
    await fleet.source.create(PODS, opted_out, electing)
    (pod,) = await fleet.running(electing, "stays", 1)
    assert pod["spec"]["nodeName"].startswith("cd-node-")


@pytest.mark.full("Controller tests cover each exception from election.")
async def test_without_the_annotation_pods_stay_here_again(fleet: Fleet, electing: str) -> None:
    annotation = {"metadata": {"annotations": {"multicluster/elect-by-default": None}}}
    await fleet.source.patch(NAMESPACES, electing, annotation)
    await elects(fleet, electing, False)
    await fleet.source.create(PODS, manifests.pod("stays", elect=None), electing)
    (pod,) = await fleet.running(electing, "stays", 1)
    assert pod["spec"]["nodeName"].startswith("cd-node-")


@pytest.mark.full("Controller tests cover each exception from election.")
@pytest.mark.parametrize("key", ["multicluster/elect", "multicluster.admiralty.io/elect"])
async def test_an_annotated_pod_is_elected_as_everywhere(fleet: Fleet, electing: str, key: str) -> None:
    await fleet.source.create(PODS, manifests.pod("goes", elect=key), electing)
    (pod,) = await fleet.running(electing, "goes", 1)
    assert on_virtual_node(pod)
