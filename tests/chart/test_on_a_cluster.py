"""The chart on a real API server: validation, Helm's operations, and leftovers of an uninstallation."""

import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.crds import ac3_crds, placement_crds
from agent.api.crds.addons import hub_crds
from agent.api.hubroles import hub_objects, kind_of
from agent.api.kinds import (
    CLUSTER_ROLES,
    CRDS,
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    PLACEMENTS,
    PODS,
    POLICIES,
    POLICY_BINDINGS,
    ROLES,
    SECRETS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.api.names.ocm import OURS
from agent.api.ownroles import WEBHOOK_SECRET
from agent.cli.uninstall import Policy, Refused, Uninstaller
from agent.kube.client import Client
from agent.kube.errors import NotFound, ServerError
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.manifests import empty_secret
from tests.chart import helm
from tests.chart.helm import CHART, NAMESPACE
from tests.chart.test_chart import CANDIDATES, EVERY
from tests.e2e import manifests
from tests.waiting import gone, until

pytestmark = [pytest.mark.full("Needs Helm."), pytest.mark.cluster, pytest.mark.timeout(240)]

FLAGS = (str(CHART), "-n", NAMESPACE)
OWNED = "app.kubernetes.io/part-of=flotilla"
RELEASED = {"meta.helm.sh/release-name": "another", "meta.helm.sh/release-namespace": "other"}
TAKEN: set[str] = set()
"""JSON of objects that the API server has accepted."""


async def call(cluster: Cluster, *arguments: str) -> str:
    return await asyncio.to_thread(helm.run, *arguments, kubeconfig=cluster.kubeconfig)


async def left(client: Client) -> list[str]:
    """Return the chart's objects in the cluster, except CRDs."""
    kinds = (CLUSTER_ROLES, DEPLOYMENTS, MUTATING_WEBHOOKS, POLICIES, POLICY_BINDINGS, ROLES, SECRETS, SERVICES)
    found = [await client.list(kind, labels=OWNED) for kind in kinds]
    return [f"{each['kind']} {each['metadata']['name']}" for objects in found for each in objects]


@EVERY
async def test_the_api_server_takes_every_object(cluster: Cluster, client: Client, settings: tuple[str, ...]) -> None:
    for obj in await asyncio.to_thread(helm.template, *settings):
        # Most objects do not depend on the values, so send each only once.
        if (text := json.dumps(obj, sort_keys=True)) in TAKEN:
            continue
        group, _, version = obj["apiVersion"].rpartition("/")
        kind = Kind(group, version, plural(obj["kind"]), obj["kind"], helm.is_namespaced(obj))
        if obj["kind"] == "Pod":
            # The pod's own account does not exist, since every request is a dry run.
            obj = {**obj, "spec": {**obj["spec"], "serviceAccountName": "default"}}
        path = kind.path(obj["metadata"].get("namespace"), obj["metadata"]["name"])
        await client.session.request(
            "PATCH",
            path,
            params={"dryRun": "All", "fieldManager": "test", "fieldValidation": "Strict", "force": "true"},
            body=json.dumps(obj).encode(),
            content_type="application/apply-patch+yaml",
        )
        TAKEN.add(text)


def plural(kind: str) -> str:
    """Return the plural of a kind, as in the API's paths."""
    name = kind.lower()
    return name[:-1] + "ies" if name.endswith("y") else name + "s"


async def test_installed_upgraded_and_uninstalled_it_leaves_the_crds_and_nothing_else(
    cluster: Cluster, client: Client
) -> None:
    text = await call(cluster, "install", "flotilla", *FLAGS, "--wait", "--set", "clusterName=cd")
    assert f"kubectl -n {NAMESPACE} rollout status deployment/flotilla-agent" in text
    assert "flotilla join --context cd --target-context TARGET_CONTEXT" in text
    assert "No registry has the image flotilla:" in text
    before = await uids(client)
    assert len(before) == 4

    with pytest.raises(helm.Failed, match=f"this cluster has one already: release {NAMESPACE}/flotilla"):
        await call(cluster, "install", "again", *FLAGS)

    # An upgrade must not overwrite the webhook's caBundle or restart a pod.
    await trust(client)
    await call(cluster, "upgrade", "flotilla", *FLAGS, "--reuse-values", "--set", "uninstall.policy=orphan", "--wait")
    assert await uids(client) == before
    found = await client.get(MUTATING_WEBHOOKS, "multicluster-scheduler")
    assert {each["clientConfig"]["caBundle"] for each in found["webhooks"]} == {"Q0E="}

    await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait")
    assert await left(client) == []
    assert len([crd for crd in await client.list(CRDS) if crd["spec"]["group"] == TARGETS.group]) == 6

    with pytest.raises(
        helm.Failed, match=r"(?s)belongs to release|is there and not of this release.*crds\.install=false"
    ):
        await call(cluster, "install", "other", *FLAGS)
    await call(cluster, "install", "flotilla", *FLAGS, "--set", "crds.keep=false")
    await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait")
    assert not [crd for crd in await client.list(CRDS) if crd["spec"]["group"] == TARGETS.group]


async def test_a_hub_is_switched_on_and_off(cluster: Cluster, client: Client) -> None:
    asked = ("--set", "agent.replicas=1,webhook.replicas=1,crds.keep=false", "--set")
    await call(cluster, "install", "flotilla", *FLAGS, *asked, "hub.enabled=false")
    objects = [obj for obj in hub_objects("") if kind_of(obj) is not NAMESPACES]
    try:
        await call(cluster, "upgrade", "flotilla", *FLAGS, "--reuse-values", "--set", "hub.enabled=true")
        for obj in objects:
            await client.get(kind_of(obj), obj["metadata"]["name"], obj["metadata"].get("namespace"))
        await call(cluster, "upgrade", "flotilla", *FLAGS, "--reuse-values", "--set", "hub.enabled=false")
        for obj in objects:
            metadata = obj["metadata"]
            await gone(functools.partial(client.get, kind_of(obj), metadata["name"], metadata.get("namespace")))
    finally:
        await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait")
        for crd in (*placement_crds(), *hub_crds()):
            await client.delete(CRDS, crd["metadata"]["name"])


async def test_the_webhooks_certificate_outlives_upgrades_whoever_created_its_secret(
    cluster: Cluster, client: Client
) -> None:
    no_crds_after = ("--set", "crds.keep=false")
    data = {"ca.crt": "Q0E=", "tls.key": "S0VZ"}

    async def found() -> dict[str, Any]:
        return await client.get(SECRETS, WEBHOOK_SECRET, NAMESPACE)

    # Webhooks of earlier versions created the Secret themselves, so it belongs to no release.
    earlier = empty_secret(WEBHOOK_SECRET, NAMESPACE) | {"data": data}
    earlier["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "flotilla-webhook"}
    await client.create(SECRETS, earlier, NAMESPACE)
    before = (await found())["metadata"]["resourceVersion"]
    await call(cluster, "install", "flotilla", *FLAGS, *no_crds_after)
    await call(cluster, "upgrade", "flotilla", *FLAGS, *no_crds_after, "--set", "uninstall.policy=orphan")
    assert (await found())["metadata"]["resourceVersion"] == before
    await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait")
    await client.delete(SECRETS, WEBHOOK_SECRET, NAMESPACE)

    await call(cluster, "install", "flotilla", *FLAGS, *no_crds_after)
    assert not (await found()).get("data")
    await client.patch(SECRETS, WEBHOOK_SECRET, {"data": data}, NAMESPACE)
    for orphan in ("orphan", "refuse", "orphan"):
        await call(cluster, "upgrade", "flotilla", *FLAGS, *no_crds_after, "--set", f"uninstall.policy={orphan}")
        assert (await found())["data"] == data
    await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait")
    with pytest.raises(NotFound):
        await found()


@pytest.mark.parametrize("chart", ["admiralty-0.17.0", "multicluster-scheduler"])
async def test_where_admiralty_is_installed_it_says_what_to_do(cluster: Cluster, client: Client, chart: str) -> None:
    rendered = await asyncio.to_thread(helm.template)
    crd = helm.of(rendered, "CustomResourceDefinition", "targets.multicluster.admiralty.io")
    metadata = {
        "name": crd["metadata"]["name"],
        "labels": {"helm.sh/chart": chart, "app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "admiralty", "meta.helm.sh/release-namespace": "admiralty"},
    }
    await client.create(CRDS, {**crd, "metadata": metadata})
    try:
        with pytest.raises(helm.Failed, match=rf"belongs to Admiralty \(chart {chart}, release admiralty\)"):
            await call(cluster, "install", "flotilla", *FLAGS)
    finally:
        await client.delete(CRDS, metadata["name"])
        await gone(functools.partial(client.get, CRDS, metadata["name"]))


async def test_notes_name_settings_that_are_for_experts_by_now(cluster: Cluster) -> None:
    given = "agent.settings.probe-interval=9,agent.settings.source-api=a:1,webhook.settings.overlap=20m"
    shown = await call(cluster, "install", "flotilla", *FLAGS, "--dry-run=server", f"--set={given}")
    moved = [line.partition(" is for experts")[0] for line in shown.splitlines() if " is for experts" in line]
    assert moved == ["agent.settings.probe-interval", "webhook.settings.overlap"]
    assert "set agent.tuning.probe-interval=9 instead" in shown


async def test_the_crds_of_a_hub_are_left_to_it(cluster: Cluster, client: Client) -> None:
    asked = ("--set", "agent.placement.crds=true")
    rendered = await asyncio.to_thread(helm.template, asked[1])
    crd = helm.of(rendered, "CustomResourceDefinition", str(PLACEMENTS))
    await client.create(CRDS, {**crd, "metadata": {"name": str(PLACEMENTS)}})
    try:
        with pytest.raises(
            helm.Failed, match=rf"{PLACEMENTS} is there and somebody else's.*crds=false, and pods follow"
        ):
            await call(cluster, "install", "flotilla", *FLAGS, *asked)
        # Another release has left the CRD after its uninstallation.
        await client.patch(CRDS, str(PLACEMENTS), {"metadata": {"labels": {OURS: "true"}}})
        with pytest.raises(helm.Failed, match=rf"{PLACEMENTS} is there and not of this release.*mode=serve"):
            await call(cluster, "install", "flotilla", *FLAGS, *asked)
        # The CRDs stay if the user no longer requests them, but the rights are removed.
        told = "nobody evaluates Placements.*agent.placement.crds=true again"
        dry = ("install", "flotilla", *FLAGS, "--dry-run=server")
        assert re.search(told, await call(cluster, *dry), re.DOTALL)
        assert not re.search(told, await call(cluster, *dry, "--set", "agent.placement.mode=serve"), re.DOTALL)
    finally:
        await client.delete(CRDS, str(PLACEMENTS))
        await gone(functools.partial(client.get, CRDS, str(PLACEMENTS)))


NETWORKS = ("--set=agent.ac3Networks.enabled=true,agent.replicas=1,webhook.replicas=1",)


async def test_ac3s_own_crd_is_left_alone_and_that_of_the_chart_stays_its_own(cluster: Cluster, client: Client) -> None:
    (crd,) = ac3_crds()
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["conditions"]
    crd["metadata"]["labels"] = {"olm.managed": "true"}
    name, removed = crd["metadata"]["name"], ("uninstall", "flotilla", "-n", NAMESPACE, "--wait", "--no-hooks")
    theirs = (await client.create(CRDS, crd))["spec"]

    async def found() -> Any:
        return await client.get(CRDS, name)

    try:
        await call(cluster, "install", "flotilla", *FLAGS, *NETWORKS)
        await call(cluster, "upgrade", "flotilla", *FLAGS, *NETWORKS, "--set", "commonLabels.team=a")
        await call(cluster, *removed)
        left = await found()
        assert left["spec"] == theirs
        assert left["metadata"]["labels"] == {"olm.managed": "true"}

        # If no CRD exists, the chart installs its own and owns it from then on.
        await client.delete(CRDS, name)
        await gone(found)
        await call(cluster, "install", "flotilla", *FLAGS, *NETWORKS)
        made = await found()
        await call(cluster, "upgrade", "flotilla", *FLAGS, *NETWORKS, "--set", "commonLabels.team=a")
        assert (await found())["metadata"]["labels"]["team"] == "a", "it is upgraded"
        # State after a user has replaced the chart's CRD with AC3's.
        metadata = {**dict.fromkeys(("labels", "annotations")), "finalizers": made["metadata"].get("finalizers")}
        await client.patch(CRDS, name, {"metadata": metadata})
        await call(cluster, "upgrade", "flotilla", *FLAGS, *NETWORKS, "--set", "commonLabels.team=b")
        assert (await found())["metadata"]["uid"] == made["metadata"]["uid"]
        await call(cluster, *removed)
        assert (await found())["metadata"]["uid"] == made["metadata"]["uid"]
        # The annotations assign the CRD to another release.
        await client.patch(
            CRDS, name, {"metadata": {"annotations": RELEASED, "labels": {"app.kubernetes.io/part-of": "flotilla"}}}
        )
        with pytest.raises(helm.Failed, match=rf"{name} is there and of release other/another.*let this release have"):
            await call(cluster, "install", "flotilla", *FLAGS, *NETWORKS)
    finally:
        await client.delete(CRDS, name)
        await gone(found)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def release(chart_sandbox: Sandbox) -> AsyncIterator[None]:
    """Release for the tests below. The last of them stops its processes."""
    cluster = chart_sandbox["chart"]
    settings = (*CANDIDATES, "agent.replicas=1", "webhook.replicas=1")
    await call(cluster, "install", "flotilla", *FLAGS, "--wait", *(f"--set={setting}" for setting in settings))
    yield
    await call(cluster, "uninstall", "flotilla", "-n", NAMESPACE, "--wait", "--no-hooks")


@pytest.mark.usefixtures("release")
async def test_its_pods_come_back_without_a_webhook_in_a_namespace_that_elects_by_default(client: Client) -> None:
    electing = {names.LABEL_ENABLED: names.ENABLED_VALUE, names.LABEL_ELECT_BY_DEFAULT: "true"}
    await client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": electing}})
    try:
        # Fake nodes run no containers, so no webhook answers.
        await until(functools.partial(refused, client, "ordinary"), 60)
        before = await uids(client)
        for pod in await client.list(PODS, NAMESPACE):
            await client.delete(PODS, pod["metadata"]["name"], NAMESPACE)

        async def replaced() -> bool:
            now = await uids(client)
            return len(now) == len(before) and not now & before

        await until(replaced, 60)
    finally:
        await client.patch(NAMESPACES, NAMESPACE, {"metadata": {"labels": dict.fromkeys(electing)}})


@pytest.mark.usefixtures("release")
async def test_what_its_hook_runs_stops_the_processes_first(client: Client) -> None:
    for name in (names.LEASE_CONTROLLERS, names.LEASE_CANDIDATES):
        await client.create(LEASES, {"metadata": {"name": name}}, NAMESPACE)
    annotated: Any = {"metadata": {"annotations": {"multicluster/uninstall-policy": "perhaps"}}}
    await client.patch(DEPLOYMENTS, "flotilla-agent", annotated, NAMESPACE)
    said: list[str] = []
    with pytest.raises(Refused, match="uninstall-policy=perhaps is none of refuse, delete, orphan"):
        await Uninstaller(client, Policy.ORPHAN, NAMESPACE, "flotilla").run()
    annotated["metadata"]["annotations"]["multicluster/uninstall-policy"] = None
    await client.patch(DEPLOYMENTS, "flotilla-agent", annotated, NAMESPACE)
    await Uninstaller(client, Policy.REFUSE, NAMESPACE, "flotilla", say=said.append).run()
    assert said[:3] == [f"stopping flotilla-{each}" for each in ("webhook", "agent", "candidates")]
    assert await client.list(PODS, NAMESPACE, labels="app.kubernetes.io/name=flotilla") == []
    assert await client.list(LEASES, NAMESPACE) == []


async def refused(client: Client, name: str) -> bool:
    """Return True if creating a plain pod fails because the webhook is unavailable."""
    body = json.dumps(manifests.pod(name, elect=None)).encode()
    try:
        await client.session.request("POST", PODS.path(NAMESPACE), params={"dryRun": "All"}, body=body, timeout=15.0)
    except ServerError as error:
        return "by-default.multicluster-scheduler.multicluster.admiralty.io" in error.message
    return False


async def uids(client: Client) -> set[str]:
    """Return the UIDs of the pods of agent and webhook."""
    pods = await client.list(PODS, NAMESPACE, labels="app.kubernetes.io/component in (agent,webhook)")
    return {pod["metadata"]["uid"] for pod in pods}


async def trust(client: Client) -> None:
    """Write caBundle as the webhook does."""
    found = await client.get(MUTATING_WEBHOOKS, "multicluster-scheduler")
    webhooks = [{"name": each["name"], "clientConfig": {"caBundle": "Q0E="}} for each in found["webhooks"]]
    await client.patch(MUTATING_WEBHOOKS, "multicluster-scheduler", {"webhooks": webhooks}, style="strategic")
