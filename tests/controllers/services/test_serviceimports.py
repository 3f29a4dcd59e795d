"""Our implementation of the Multi-Cluster Services API: requirements of its conformance suite, and cases that
the suite leaves open. docs/guides/links.md lists the tests that represent requirements."""

import asyncio
import datetime
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.conditions import is_true
from agent.api.kinds import (
    CHAPERONS,
    ENDPOINT_SLICES,
    EVENTS,
    PODS,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICES,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.names import mcs
from agent.api.roles import EVERYTHING, FEATURES, rules
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.objects import connect
from tests.controllers.counting import counting_writes
from tests.controllers.limited import limited
from tests.controllers.mcsapi import CONTROLLERS, NAME, PORTS, SETTINGS, Exported, implemented, published, served
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import target
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

TIMEOUT = {"clientIP": {"timeoutSeconds": 10}}
AFFINITY = {"sessionAffinity": "ClientIP", "sessionAffinityConfig": TIMEOUT}
NO_LONGER = 2.0
"""Seconds after which an unwanted event would have happened."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kinds(two_clusters: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """Serve the kinds of the API in both clusters."""
    here, there = (connect(two_clusters[name].kubeconfig, name=name) for name in ("here", "there"))
    async with here.session, there.session, served((here, there), await published(tmp_path_factory.mktemp("mcs"))):
        yield


@pytest_asyncio.fixture
async def hello(kinds: None, pair: Pair) -> AsyncIterator[Exported]:
    """A Service that can be exported."""
    async with implemented(pair) as found:
        yield found


def ports(found: Raw) -> list[tuple[str, int, str]]:
    return sorted((each.get("name", ""), each["port"], each["protocol"]) for each in found["spec"]["ports"])


def clusters_of(found: Raw) -> list[Raw]:
    """Return the clusters in a ServiceImport's status, none without a status."""
    clusters: list[Raw] = (found.get("status") or {}).get("clusters") or []
    return clusters


async def test_an_import_is_there_as_long_as_one_cluster_exports(hello: Exported, pair: Pair) -> None:
    for client in (pair.there, pair.here):
        await hello.deploy(client)
        await hello.export(client)
    want = [{"cluster": "eu"}, {"cluster": "here"}]
    for client in hello.clients:
        await hello.imported(client, lambda found: clusters_of(found) == want)
    await hello.unexport(pair.here)
    found = await hello.imported(pair.here, lambda found: clusters_of(found) == want[:1])
    assert is_true(found["status"]["conditions"], "Ready")
    await hello.unexport(pair.there)
    for client in hello.clients:
        await hello.gone(client)


async def test_an_import_goes_before_the_address_that_it_tells(
    kinds: None, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted, delete = list[tuple[Session, str]](), Client.delete

    async def noted(self: Client, kind: Kind, *words: Any, **more: Any) -> Any:
        deleted.append((self.session, kind.name))
        return await delete(self, kind, *words, **more)

    monkeypatch.setattr(Client, "delete", noted)
    async with implemented(pair) as hello:
        await hello.deploy(pair.here)
        await hello.export(pair.here)
        await hello.imported(pair.here)
        await hello.unexport(pair.here)
        await hello.gone(pair.here)
        assert pair.deps is not None
        own = pair.deps.local.client.session
        await until(lambda: (own, SERVICES.name) in deleted)
        assert [kind for session, kind in deleted if session is own] == [SERVICE_IMPORTS.name, SERVICES.name]


async def test_a_service_that_may_not_be_made_at_first_is_made_before_long(
    hello: Exported, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quota may be used up for a moment."""
    create, refused = Client.create_raw, list[str]()

    async def refusing(self: Client, kind: Kind, *words: Any, **more: Any) -> Any:
        if kind is SERVICES and not refused:
            refused.append(kind.name)
            raise Forbidden(403, "Forbidden", "exceeded quota")
        return await create(self, kind, *words, **more)

    await hello.deploy(pair.here)
    monkeypatch.setattr(Client, "create_raw", refusing)
    await hello.export(pair.here)
    await hello.imported(pair.here)
    assert refused


@pytest.mark.parametrize("exporter", [0, 1], ids=["the source", "a target"])
async def test_what_a_cluster_exports_is_imported_in_each(hello: Exported, exporter: int) -> None:
    """Its type, ports, session affinity, traffic policy and distribution, an address, and the deletion of all
    of them."""
    client = hello.clients[exporter]
    spec = {**AFFINITY, "internalTrafficPolicy": "Cluster", "trafficDistribution": "PreferClose"}
    await hello.deploy(client, **spec)
    await hello.export(client)
    await hello.told(client, "Valid", "True", "Valid")
    for each in hello.clients:
        found = (await hello.imported(each))["spec"]
        assert found["type"] == "ClusterSetIP"
        assert {field: found[field] for field in spec} == spec
        derived = await hello.derived(each)
        assert found["ips"] == derived["spec"]["clusterIPs"]
        assert {field: derived["spec"][field] for field in spec} == spec
        assert ports({"spec": found}) == ports({"spec": {"ports": PORTS}})
    await hello.told(client, "Ready", "True", "Exported")
    await hello.told(client, "Conflict", "False", "NoConflicts")
    await hello.unexport(client)
    for each in hello.clients:
        await hello.gone(each)


async def test_ports_of_two_clusters_are_united(hello: Exported, pair: Pair) -> None:
    sctp = {"name": "sctp", "port": 142, "protocol": "SCTP"}
    await hello.deploy(pair.there)
    await hello.export(pair.there)
    await hello.imported(pair.here)
    await hello.deploy(pair.here, ports=[PORTS[0], sctp])
    await hello.export(pair.here)
    want = ports({"spec": {"ports": [*PORTS, sctp]}})
    for client in hello.clients:
        await hello.imported(client, lambda found: ports(found) == want)
        await hello.told(client, "Conflict", "True", "PortConflict")


@pytest.mark.parametrize(
    ("younger", "reason"),
    [({"ports": [{**PORTS[0], "port": 43}]}, "PortConflict"), ({"clusterIP": "None"}, "TypeConflict")],
)
async def test_of_exports_in_conflict_the_oldest_decides_and_all_are_told(
    hello: Exported, pair: Pair, younger: Raw, reason: str
) -> None:
    await hello.deploy(pair.there)
    await hello.export(pair.there)
    before = (await hello.imported(pair.here))["spec"]
    # Creation timestamps have whole seconds.
    await asyncio.sleep(1.1)
    await hello.deploy(pair.here, **younger)
    await hello.export(pair.here)
    for client in hello.clients:
        message = await hello.told(client, "Conflict", "True", reason)
        assert "here has" in message
        assert "eu, the oldest export, has" in message
        assert (await hello.imported(client))["spec"]["type"] == "ClusterSetIP"
    assert (await hello.imported(pair.here))["spec"] == before
    # Only the younger export is left.
    await hello.unexport(pair.there)
    want = {"PortConflict": "ClusterSetIP", "TypeConflict": "Headless"}[reason]
    for client in hello.clients:
        await hello.imported(client, lambda found: found["spec"]["type"] == want and ports(found) != [])
    await hello.told(pair.here, "Conflict", "False", "NoConflicts")


async def test_a_headless_service_is_imported_without_an_address(hello: Exported, pair: Pair) -> None:
    await hello.deploy(pair.there, clusterIP="None")
    await hello.export(pair.there)
    for client in hello.clients:
        assert (await hello.imported(client))["spec"]["type"] == "Headless"
    await asyncio.sleep(NO_LONGER)
    for client in hello.clients:
        assert not (await hello.imported(client))["spec"].get("ips")
    await hello.unexport(pair.there)
    for client in hello.clients:
        await hello.gone(client)


async def test_pods_of_a_stateful_set_have_names_in_each_cluster(hello: Exported, pair: Pair) -> None:
    """DNS makes HOST.CLUSTER.SERVICE.NAMESPACE.svc.clusterset.local of a slice's label and an endpoint's host name."""
    for client in hello.clients:
        await hello.deploy(client, clusterIP="None", ports=PORTS[:1])
        await hello.export(client)
        # The StatefulSet controller writes these fields.
        await hello.run(client, f"{NAME}-0", hostname=f"{NAME}-0", subdomain=NAME)
    for client in hello.clients:
        found = await until(functools.partial(named_hosts, client, pair.namespace))
        assert sorted((cluster, host) for cluster, host, _ in found or ()) == [("eu", "hello-0"), ("here", "hello-0")]
    addresses = {
        (cluster, (await client.get(PODS, f"{NAME}-0", pair.namespace))["status"]["podIP"])
        for cluster, client in zip(("here", "eu"), hello.clients, strict=True)
    }
    for client in hello.clients:
        found = await named_hosts(client, pair.namespace)
        assert {(cluster, address) for cluster, _, address in found} == addresses
    # A cluster that exports no longer has no names, and the other one keeps its own.
    await pair.there.delete(SERVICE_EXPORTS, NAME, pair.namespace)

    async def own_alone() -> bool:
        found = [await named_hosts(client, pair.namespace, 1) for client in hello.clients]
        return all([cluster for cluster, *_ in each] == ["here"] for each in found)

    await until(own_alone)


async def named_hosts(client: Client, namespace: str, count: int = 2) -> list[tuple[str, str, str]]:
    """Return cluster, host name and address of endpoints with the API's labels; nothing unless there are `count`."""
    slices = await client.list(ENDPOINT_SLICES, namespace, labels=f"{mcs.LABEL_MCS_SERVICE}={NAME}")
    found = [
        (slice["metadata"]["labels"][mcs.LABEL_SOURCE_CLUSTER], each.get("hostname", ""), each["addresses"][0])
        for slice in slices
        for each in slice.get("endpoints") or ()
    ]
    return found if len(found) == count else []


async def test_an_external_name_is_not_exported(hello: Exported, pair: Pair) -> None:
    await hello.deploy(pair.there, type="ExternalName", externalName="example.com", selector=None, ports=None)
    await hello.export(pair.there)
    assert "ExternalName" in await hello.told(pair.there, "Valid", "False", "InvalidServiceType")
    await asyncio.sleep(NO_LONGER)
    assert not await hello.is_imported(pair.here)


async def test_only_labels_and_annotations_that_are_exported_come_along(hello: Exported, pair: Pair) -> None:
    await hello.deploy(pair.there)
    patch = {"metadata": {"labels": {"own": "yes"}, "annotations": {"own": "yes"}}}
    await pair.there.patch(SERVICES, NAME, patch, pair.namespace)
    await hello.export(pair.there, exportedLabels={"a": "1"}, exportedAnnotations={"b": "2"})
    found = (await hello.imported(pair.here))["metadata"]
    assert (found["labels"]["a"], found["annotations"]["b"]) == ("1", "2")
    assert "own" not in {**found["labels"], **found["annotations"]}
    await asyncio.sleep(1.1)
    await hello.deploy(pair.here)
    await hello.export(pair.here, exportedLabels={"a": "3"}, exportedAnnotations={"b": "4"})
    for client in hello.clients:
        await hello.told(client, "Conflict", "True", "LabelsConflict,AnnotationsConflict")
    assert (await hello.imported(pair.here))["metadata"]["labels"]["a"] == "1"
    # Labels that the oldest export no longer has are removed.
    await pair.there.patch(SERVICE_EXPORTS, NAME, {"spec": {"exportedLabels": None}}, pair.namespace)
    await hello.imported(pair.here, lambda found: "a" not in found["metadata"]["labels"])


async def test_slices_say_which_service_they_are_of_and_from_where(hello: Exported, pair: Pair) -> None:
    """Their endpoints are those of the exporting cluster, even if pods have another port number there."""
    for client, port in ((pair.here, 8080), (pair.there, 9090)):
        await hello.deploy(client, ports=[{**PORTS[0], "targetPort": port}])
        await hello.run(client)
    await hello.export(pair.there)
    for client in hello.clients:
        (slice,) = await hello.slices(client, "eu")
        assert slice["metadata"]["labels"]["kubernetes.io/service-name"] == mcs.derived(NAME)
        assert [each["port"] for each in slice["ports"]] == [9090]
    await hello.export(pair.here)
    for client in hello.clients:
        found = {
            each["metadata"]["labels"][mcs.LABEL_SOURCE_CLUSTER]: (each["ports"][0]["port"], each["endpoints"])
            for each in await hello.slices(client, "eu", "here")
        }
        assert {cluster: port for cluster, (port, _) in found.items()} == {"here": 8080, "eu": 9090}
        addresses = {cluster: endpoints[0]["addresses"] for cluster, (_, endpoints) in found.items()}
        assert addresses["here"] != addresses["eu"]
    await hello.unexport(pair.there)
    for client in hello.clients:
        await hello.slices(client, "here")
    await hello.unexport(pair.here)
    for client in hello.clients:
        await hello.slices(client)


async def test_an_address_is_told_when_kube_proxies_know_it(hello: Exported, pair: Pair) -> None:
    await hello.deploy(pair.there)
    await hello.export(pair.there)
    for client in hello.clients:
        times = [
            datetime.datetime.fromisoformat(found["metadata"]["creationTimestamp"])
            for found in (await hello.derived(client), await hello.imported(client))
        ]
        assert (times[1] - times[0]).total_seconds() >= 1.0


async def test_a_port_that_lost_a_conflict_has_no_callers(hello: Exported, pair: Pair) -> None:
    """Callers use the port of the oldest export: another number may belong to another application."""
    await hello.deploy(pair.there, ports=[{**PORTS[0], "targetPort": 9090}])
    await hello.run(pair.there)
    await hello.export(pair.there)
    for client in hello.clients:
        await hello.slices(client, "eu")
    await asyncio.sleep(1.1)
    more = {"name": "more", "port": 44, "targetPort": 8081}
    await hello.deploy(pair.here, ports=[{**PORTS[0], "port": 43, "targetPort": 8080}, more])
    await hello.run(pair.here)
    await hello.export(pair.here)
    await hello.told(pair.here, "Conflict", "True", "PortConflict")
    for client in hello.clients:
        found = {
            each["metadata"]["labels"][mcs.LABEL_SOURCE_CLUSTER]: [port["port"] for port in each["ports"]]
            for each in await hello.slices(client, "eu", "here")
        }
        assert found == {"eu": [9090], "here": [8081]}


async def test_what_is_not_exported_is_nowhere_and_what_is_missing_is_told(hello: Exported, pair: Pair) -> None:
    await hello.export(pair.there)
    assert "create it" in await hello.told(pair.there, "Valid", "False", "NoService")
    service = await hello.deploy(pair.there, selector=None)
    await hello.told(pair.there, "Valid", "True")
    assert "no selector" in await hello.told(pair.there, "Ready", "False", "Failed")
    assert not await hello.is_imported(pair.here)
    patch = {
        "spec": {"selector": {"app": NAME}},
        "metadata": {"resourceVersion": service["metadata"]["resourceVersion"]},
    }
    await pair.there.patch(SERVICES, NAME, patch, pair.namespace)
    await hello.told(pair.there, "Ready", "True", "Exported")
    await pair.there.delete(SERVICES, NAME, pair.namespace)
    await hello.told(pair.there, "Valid", "False", "NoService")
    await hello.gone(pair.here)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_service_that_is_not_exported_has_nothing_to_answer_with_anywhere(hello: Exported, pair: Pair) -> None:
    """The Service gets neither an address nor an import, from which DNS derives names under `clusterset.local`."""
    for client in hello.clients:
        await hello.deploy(client)
        await hello.deploy(client, name="other")
    await hello.export(pair.there, name="other")
    await hello.told(pair.there, "Ready", "True", "Exported", name="other")
    await asyncio.sleep(NO_LONGER)
    for client in hello.clients:
        assert not await hello.is_imported(client)
        found = {each["metadata"]["name"] for each in await client.list(SERVICES, pair.namespace)}
        assert found == {NAME, "other", mcs.derived("other")}


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_the_import_of_another_implementation_stays(hello: Exported, pair: Pair) -> None:
    head = {"apiVersion": SERVICE_IMPORTS.api_version, "kind": SERVICE_IMPORTS.name}
    spec = {"type": "Headless", "ports": [{"port": 1}]}
    await pair.here.create(SERVICE_IMPORTS, {**head, "metadata": {"name": NAME}, "spec": spec}, pair.namespace)
    await hello.deploy(pair.here)
    await hello.export(pair.here)
    assert "another implementation" in await hello.told(pair.here, "Ready", "False", "Pending")
    assert (await hello.imported(pair.there))["spec"]["type"] == "ClusterSetIP"
    found = await hello.imported(pair.here)
    assert found["spec"]["type"] == "Headless"
    assert names.LABEL_PARENT_CLUSTER_UID not in found["metadata"].get("labels", {})
    await pair.here.delete(SERVICE_IMPORTS, NAME, pair.namespace)
    await hello.imported(pair.here, lambda found: found["spec"]["type"] == "ClusterSetIP")
    await hello.told(pair.here, "Ready", "True", "Exported")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_cluster_that_two_targets_lead_to_exports_once(hello: Exported, pair: Pair) -> None:
    await pair.here.create(TARGETS, target("us", pair.namespace))
    try:
        await pair.connect("us")
        await hello.deploy(pair.there, ports=[{**PORTS[0], "targetPort": 9090}])
        await hello.run(pair.there)
        await hello.export(pair.there)
        for client in hello.clients:
            await hello.slices(client, "eu")
            await hello.imported(client, lambda found: clusters_of(found) == [{"cluster": "eu"}])
        before = (await hello.derived(pair.there))["metadata"]["resourceVersion"]
        await asyncio.sleep(NO_LONGER)
        # The derived Service must be the same for every Target.
        assert (await hello.derived(pair.there))["metadata"]["resourceVersion"] == before
        await hello.unexport(pair.there)
        for client in hello.clients:
            await hello.gone(client)
    finally:
        await pair.here.delete(TARGETS, "us", pair.namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_cluster_that_is_but_a_target_leaves_it_to_its_source(kinds: None, pair: Pair) -> None:
    """Two agents with this flag would conflict."""
    hello, asks = Exported(pair), {"spec": {"userName": "somebody", "allow": ["services", "mcs"]}}
    head = {"apiVersion": SOURCES.api_version, "kind": SOURCES.name, "metadata": {"name": "cd"}}
    await pair.here.create(SOURCES, {**head, **asks}, pair.namespace)
    async with running(pair.clusters[0], *CONTROLLERS, **SETTINGS):
        await hello.deploy(pair.here)
        await hello.export(pair.here)
        await asyncio.sleep(NO_LONGER)
        assert not await hello.is_imported(pair.here)
        assert "status" not in await pair.here.get(SERVICE_EXPORTS, NAME, pair.namespace)
        # A source without that right leaves the work to the local agent.
        await pair.here.patch(SOURCES, "cd", {"spec": {"allow": ["services"]}}, pair.namespace)
        await hello.imported(pair.here)
        await hello.unexport(pair.here)
        await hello.gone(pair.here)
    await pair.here.delete(SOURCES, "cd", pair.namespace)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_look_at_what_is_in_line_writes_nothing(
    kinds: None, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = counting_writes(monkeypatch)
    async with implemented(pair) as hello:
        for client in hello.clients:
            await hello.deploy(client, ports=[{**PORTS[0], "targetPort": 8080}])
            await hello.run(client)
            await hello.export(client)
        for client in hello.clients:
            await hello.slices(client, "eu", "here")
            await hello.told(client, "Ready", "True", "Exported")
            await hello.imported(client, lambda found: len(clusters_of(found)) == 2)
        await asyncio.sleep(NO_LONGER)
        writes.clear()
        for client in hello.clients:
            for kind in (SERVICE_EXPORTS, SERVICES):
                touched = {"metadata": {"annotations": {"touched": "yes"}}}
                await client.patch(kind, NAME, touched, pair.namespace)
        await asyncio.sleep(NO_LONGER)
        assert sorted(writes) == sorted(2 * [("patch_raw", kind.name) for kind in (SERVICE_EXPORTS, SERVICES)])


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_a_target_exported_stays_until_it_is_heard_again(kinds: None, pair: Pair) -> None:
    """A new agent does not know the exports of a silent target, and therefore withdraws nothing."""
    async with implemented(pair) as hello:
        await hello.deploy(pair.there)
        await hello.export(pair.there)
        for client in hello.clients:
            await hello.imported(client)
        before = await hello.derived(pair.here)
        async with hello.away():
            await hello.deploy(pair.here)
            await hello.export(pair.here)
            await hello.deploy(pair.here, name="other")
            await hello.export(pair.here, name="other")
            # Services that the target does not export are not delayed.
            await hello.told(pair.here, "Ready", "True", "Exported", name="other")
            await asyncio.sleep(NO_LONGER)
            assert (await hello.derived(pair.here))["metadata"]["uid"] == before["metadata"]["uid"]
            found = await hello.imported(pair.here)
            assert found["status"]["clusters"] == [{"cluster": "eu"}]
        want = [{"cluster": "eu"}, {"cluster": "here"}]
        for client in hello.clients:
            await hello.imported(client, lambda found: clusters_of(found) == want)


async def test_a_target_that_allows_no_imports_is_named_in_an_event(kinds: None, pair: Pair, tmp_path: Path) -> None:
    few = [grant for grant in EVERYTHING if grant not in FEATURES["mcs"]]
    agents = {"apiGroups": [CHAPERONS.group], "resources": ["*"], "verbs": ["*"]}
    async with (
        limited(pair.clusters[1], pair.there, pair.namespace, tmp_path, [*rules(few), agents]) as weak,
        implemented(pair, connection=load(str(weak.kubeconfig))) as hello,
    ):
        await hello.deploy(pair.here)
        await hello.export(pair.here)
        await hello.imported(pair.here)
        await hello.told(pair.here, "Ready", "True", "Exported")

        async def told() -> str:
            events = await pair.here.list(EVENTS, pair.namespace, fields="reason=ImportBlocked")
            return "".join(each["message"] for each in events)

        message = await until(told)
        assert "is not imported in target eu" in message
        assert "serviceimports" in message
        assert "--allow services,mcs" in message
        assert not await hello.is_imported(pair.there)
