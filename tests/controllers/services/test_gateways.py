"""Two clusters with gateways on real API servers, with the real Envoy; only the source's agent connects them."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.conditions import find_condition, is_true
from agent.api.kinds import (
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    ENDPOINT_SLICES,
    GATEWAY_PEERS,
    NODES,
    PODS,
    SECRETS,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
)
from agent.api.names.links import (
    ANNOTATION_GATEWAY,
    GATEWAY_SECRET,
    GATEWAY_SERVICE,
    GATEWAY_SLICE_MANAGER,
    GATEWAY_USABLE,
)
from agent.api.roles import CLUSTER_SUMMARY_VIEWER, EVERYTHING, rules
from agent.base.certificates import Pair as Certificate
from agent.base.certificates import names_of
from agent.base.metrics import RECONCILES
from agent.cli import links
from agent.cli.fleet.source_queries import Source
from agent.clusters.deps import Deps
from agent.drivers import handover
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import NotFound
from agent.model.gatewaypeer import identity
from agent.model.gatewaytold import read
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController, NetworkDriverController
from agent.services.gateways import GatewayPeersController, GatewaySlicesController, GatewayTrustController
from agent.services.imports import ServiceImportsController
from agent.services.links import ServiceLinksController
from agent.targets.summary import SummaryController
from hack.lab.sandbox.gateways import GatewayPod
from hack.lab.sandbox.objects import connect
from tests.controllers.limited import limited
from tests.controllers.mcsapi import Exported, published, served
from tests.controllers.pair import Pair
from tests.controllers.starting import running
from tests.controllers.target_links import by_gateway, condition
from tests.gateway.lab import address, ask, echo, serving
from tests.waiting import at_rest, until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

HOME = "kube-system"
SHARED = {"annotations": {"multicluster/global": "true"}, "labels": {names.LABEL_GLOBAL: "true"}}
PORTS = [{"name": "http", "port": 80, "targetPort": 8080}]
EVERYWHERE = (SummaryController, GatewayTrustController, GatewaySlicesController)


def own_address() -> str:
    """Return a non-loopback address of this machine, since EndpointSlices refuse loopback. Sends no packet."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected:
        unconnected.connect(("192.0.2.1", 9))
        found: str = unconnected.getsockname()[0]
        return found


async def pod_at(client: Client, namespace: str, name: str, address: str) -> None:
    """Create a running pod with this address, since gateways call addresses of pods only."""
    nodes = await client.list(NODES, labels=f"!{names.PROVIDER_KEY}")
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": nodes[0]["metadata"]["name"]}
    await client.create(PODS, {"metadata": {"name": name}, "spec": spec}, namespace)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}

    async def has_it() -> bool:
        # kwok plays the node, and first gives the pod an address of its own.
        found = (await client.get(PODS, name, namespace))["status"]
        if found.get("phase") == "Running" and found.get("podIP") != address:
            await client.patch(PODS, name, {"status": status}, namespace, sub="status")
        return bool(found.get("podIP") == address)

    await until(has_it, what="the pod has its address")


async def offer(client: Client, namespace: str, label: dict[str, str], at: str) -> None:
    """Create a ready pod of the Service `web`."""
    host, _, port = at.rpartition(":")
    await pod_at(client, namespace, "web-own", host)
    slice = {
        "metadata": {"name": "web-own", "labels": {names.LABEL_SERVICE_NAME: "web", **label}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": int(port)}],
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
    }
    await client.create(ENDPOINT_SLICES, slice, namespace)


async def gateway_pod(client: Client, name: str) -> None:
    """Create the slice of the gateways' Service for one gateway pod."""
    slice = {
        "metadata": {"name": GATEWAY_SERVICE, "labels": {names.LABEL_SERVICE_NAME: GATEWAY_SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "gateway", "port": 15443}],
        "endpoints": [
            {
                "addresses": ["192.0.2.10"],
                "conditions": {"ready": True},
                "targetRef": {"kind": "Pod", "name": name, "namespace": HOME},
            }
        ],
    }
    await client.create(ENDPOINT_SLICES, slice, HOME)


async def certificate(client: Client) -> Certificate:
    """Return the certificate in the Secret that gateways mount."""
    secret = await until(lambda: client.get(SECRETS, GATEWAY_SECRET, HOME))
    data = {key: base64.b64decode(value) for key, value in secret["data"].items()}
    return Certificate(data["tls.crt"], data["tls.key"])


async def led(client: Client, namespace: str, *, ready: bool) -> int:
    """Return the local port for the other cluster's Service `web`, once its readiness is as wanted."""

    async def probe() -> int | None:
        made = await client.list(
            ENDPOINT_SLICES, namespace, labels=f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        )
        told = [(each["endpoints"][0]["conditions"]["ready"], each["ports"][0]["port"]) for each in made]
        last[:] = told
        return told[0][1] if [at for at, _ in told] == [ready] else None

    last: list[Any] = []
    try:
        return await until(probe) or 0
    except AssertionError as error:
        peers = [each.get("status") for each in await client.list(GATEWAY_PEERS, namespace)]
        raise AssertionError(f"{error}: {last}, {peers}") from None


async def says(pair: Pair, reason: str) -> None:
    async def probe() -> bool:
        link = await pair.here.get(SERVICE_LINKS, "web", pair.namespace)
        rows = (link.get("status") or {}).get("clusters") or ()
        last[:] = [(row["cluster"], row["from"], row["driver"], row["reason"], row["message"]) for row in rows]
        return ("here", ["eu"], "gateway", reason) in [each[:4] for each in last]

    last: list[Any] = []
    try:
        await until(probe, what=f"the link says {reason}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None


@pytest_asyncio.fixture
async def shared(joined: Pair) -> Pair:
    """A Service that both clusters share through gateways."""
    await joined.create(SERVICES, "web", metadata=SHARED, spec={"ports": PORTS})
    return joined


@pytest_asyncio.fixture
async def joined(pair: Pair) -> AsyncIterator[Pair]:
    """A target that is reached through gateways."""
    await pair.here.create(TARGETS, by_gateway("eu", pair.namespace))
    try:
        yield pair
    finally:
        await pair.here.delete(TARGETS, "eu", pair.namespace)
        for client in (pair.here, pair.there):
            for kind, name, namespace in (
                (CLUSTER_SUMMARIES, names.SUMMARY_NAME, None),
                (SECRETS, GATEWAY_SECRET, HOME),
                (ENDPOINT_SLICES, GATEWAY_SERVICE, HOME),
            ):
                with contextlib.suppress(NotFound):
                    await client.delete(kind, name, namespace)


async def controllers(
    stack: contextlib.AsyncExitStack, pair: Pair, mine: str, theirs: str, *more: Any, **given: Any
) -> Deps:
    """Run all controllers in both clusters, without gateways; return the dependencies of the remote agent."""
    start, there = stack.enter_async_context, pair.clusters[1]
    far = await start(running(there, *EVERYWHERE, gateway=True, gateway_address=(f"{theirs}:15443",)))
    source = (NetworkDriverController, EndpointsController, GatewayPeersController, GlobalServices, *more)
    settings: Raw = {"gateway": True, "gateway_address": (f"{mine}:15443",), **given}
    await start(pair.at_work(*EVERYWHERE, *source, **settings))
    return far


async def agents(stack: contextlib.AsyncExitStack, pair: Pair, mine: str, theirs: str) -> Deps:
    """Run all controllers in both clusters and a ready remote pod of `web`; return the remote agent's
    dependencies."""
    far = await controllers(stack, pair, mine, theirs, ServiceLinksController, service_links=True)
    assert pair.deps is not None
    await pair.copy(SERVICES, "web")
    start = stack.enter_async_context
    backend = await start(serving(echo, own_address()))
    await offer(pair.there, pair.namespace, {names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}, backend)
    return far


async def gateways_known(pair: Pair) -> None:
    """Wait until our agent has observed the gateways of both clusters: until then the driver routes no traffic."""
    await condition(pair.here, pair.namespace, "eu", GATEWAY_USABLE, "True")
    assert pair.deps is not None
    summaries = pair.deps.local.informer(CLUSTER_SUMMARIES, fields=f"metadata.name={names.SUMMARY_NAME}")

    def knows() -> bool:
        found = summaries.store.get(("", names.SUMMARY_NAME))
        return found is not None and ANNOTATION_GATEWAY in found.annotations

    await until(knows, what="our agent knows of our gateways")


async def started(
    stack: contextlib.AsyncExitStack, pair: Pair, far: Deps, mine: str, theirs: str
) -> tuple[GatewayPod, GatewayPod]:
    """Start the gateways of both clusters."""
    assert pair.deps is not None
    found = []
    for client, cluster, at, deps in zip(
        (pair.here, pair.there), pair.clusters, (mine, theirs), (pair.deps, far), strict=True
    ):
        shown = await certificate(client)
        assert identity(deps.cluster_uid) in names_of(shown.certificate)
        gateway = GatewayPod(deps.cluster_uid, at, kubeconfig=str(cluster.kubeconfig), drain_seconds=1)
        gateway.bundle = type(gateway.bundle)(gateway.bundle.ca, shown)
        found.append(await stack.enter_async_context(gateway))
        await gateway_pod(client, at)
    return found[0], found[1]


async def test_a_service_is_called_in_another_cluster_through_both_gateways(shared: Pair) -> None:
    pair, mine, theirs = shared, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        far = await agents(stack, pair, mine, theirs)
        assert pair.deps is not None
        uid = pair.deps.cluster_uid

        async def told() -> bool:
            found = [await client.list(GATEWAY_PEERS, pair.namespace) for client in (pair.here, pair.there)]
            specs = [each["spec"] for peers in found for each in peers]
            ready = [service["ready"] for spec in specs for service in spec["services"]]
            return [each["uid"] for each in specs] == [far.cluster_uid, uid] and ready == [1, 0]

        await until(told, what="each cluster is told of the other")

        gateways = await started(stack, pair, far, mine, theirs)
        port = await led(pair.here, pair.namespace, ready=True)
        assert await ask(mine, port, b"hello") == b"hello"
        await says(pair, "Connected")
        (service,) = (await pair.here.list(GATEWAY_PEERS, pair.namespace))[0]["status"]["services"]
        assert service["ports"] == [{"port": 80, "locals": [port]}]

        # The peer is cut off: traffic is routed elsewhere, and back.
        await gateways[1].stop("envoy")
        await led(pair.here, pair.namespace, ready=False)
        await says(pair, "PeerUnreachable")
        await gateways[1].start_envoy()
        assert await led(pair.here, pair.namespace, ready=True) == port
        assert await ask(mine, port, b"hello") == b"hello"

        # The local Envoy ends, whatever status the kubelet has reported for its pod.
        await gateways[0].stop("envoy")
        await led(pair.here, pair.namespace, ready=False)
        await gateways[0].start_envoy()
        assert await led(pair.here, pair.namespace, ready=True) == port
        assert await ask(mine, port, b"hello") == b"hello"

        # A link that allows only callers of the other cluster.
        await pair.here.patch(SERVICE_LINKS, "web", {"spec": {"from": ["here"]}}, pair.namespace)

        async def narrowed() -> bool:
            (mine,), (other,) = [await client.list(GATEWAY_PEERS, pair.namespace) for client in (pair.here, pair.there)]
            fields = ((mine, "services"), (mine, "offered"), (other, "services"), (other, "offered"))
            told = [[each["name"] for each in peer["spec"][field]] for peer, field in fields]
            return told == [[], ["web"], ["web"], []]

        await until(narrowed, what="gateways are told of one direction")
        await until(lambda: _none(pair.here, ENDPOINT_SLICES, pair.namespace), what="nothing leads there any more")

        # The Service is no longer shared.
        nothing = {"metadata": {"annotations": {"multicluster/global": None}, "labels": {names.LABEL_GLOBAL: None}}}
        await pair.here.patch(SERVICES, "web", nothing, pair.namespace)
        for client in (pair.here, pair.there):
            await until(lambda client=client: _none(client, GATEWAY_PEERS, pair.namespace))  # type: ignore[misc]
        await until(lambda: _refused(mine, port), what="its port is closed")


def reconciled(controller: str) -> float:
    """Return how often a controller has reconciled any key."""
    samples = (each for family in RECONCILES.collect() for each in family.samples if each.name.endswith("_total"))
    return sum(each.value for each in samples if each.labels["controller"] == controller)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_target_that_has_gateways_and_does_not_allow_them_is_not_asked_again_and_again(
    shared: Pair, tmp_path: Path
) -> None:
    allowed = [
        rule for rule in rules([*EVERYTHING, *CLUSTER_SUMMARY_VIEWER]) if GATEWAY_PEERS.plural not in rule["resources"]
    ]
    async with contextlib.AsyncExitStack() as stack:
        poor = await stack.enter_async_context(
            limited(shared.clusters[1], shared.there, shared.namespace, tmp_path, allowed)
        )
        await controllers(stack, shared, address(), address(), connection=load(str(poor.kubeconfig)))
        await condition(shared.here, shared.namespace, "eu", GATEWAY_USABLE, "False", "Forbidden")
        await shared.copy(SERVICES, "web")
        before = await at_rest(lambda: reconciled(GatewayPeersController.name))
        await asyncio.sleep(4.0)
        assert reconciled(GatewayPeersController.name) - before < 4


async def test_without_service_links_flotilla_links_tells_how_gateways_are_to_whoever_may_list_them(
    shared: Pair, tmp_path: Path
) -> None:
    pair, kinds = shared, (TARGETS, CLUSTER_TARGETS, NODES, SERVICES, ENDPOINT_SLICES, SERVICE_LINKS)
    rules = [{"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["list"]} for kind in kinds]
    async with contextlib.AsyncExitStack() as stack:
        await controllers(stack, pair, address(), address())
        poor = await stack.enter_async_context(limited(pair.clusters[0], pair.here, pair.namespace, tmp_path, rules))
        client = connect(Path(poor.kubeconfig), name="poor")
        stack.push_async_callback(client.session.close)

        async def told(client: Client) -> tuple[str, str, str, int | None]:
            (line,) = (found := await links.look(Source(client, pair.namespace), "web")).lines
            notes[:] = found.notes
            return line.link.driver, line.link.ready, line.link.reason, line.endpoints

        async def says(client: Client, *want: Any) -> bool:
            return await told(client) == want

        notes: list[str] = []
        await until(lambda: says(pair.here, "gateway", "False", "NoGateway", 0), what="no gateway runs")
        assert notes == []
        await until(lambda: says(client, "gateway", "True", "Unverified", None))
        assert ["gatewaypeers" in each for each in notes] == [True]


async def ways(client: Client, namespace: str) -> dict[str, bool]:
    """Return by managing controller whether the slices of `web` have a ready endpoint."""
    labels = f"{names.LABEL_SERVICE_NAME}=web"
    found = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
    return {
        each["metadata"]["labels"][names.LABEL_SLICE_MANAGED_BY]: any(
            endpoint["conditions"]["ready"] for endpoint in each.get("endpoints") or ()
        )
        for each in found
    }


@contextlib.asynccontextmanager
async def always_led(client: Client, namespace: str) -> AsyncIterator[None]:
    """Assert that `web` has a ready endpoint throughout the context."""
    seen: list[dict[str, bool]] = []

    async def look() -> None:
        while True:
            seen.append(await ways(client, namespace))
            await asyncio.sleep(0.02)

    looking = asyncio.create_task(look())
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    assert [each for each in seen if not any(each.values())] == []
    assert len(seen) > 10


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_from_addresses_to_gateways_and_back_there_is_always_a_way(
    shared: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two Envoys start meanwhile.
    monkeypatch.setattr(handover, "KEEP_SECONDS", 60.0)
    pair, mine, theirs = shared, address(), address()
    mirrored, by_gateways = {names.SLICE_MANAGER: True}, {GATEWAY_SLICE_MANAGER: True}

    async def choose(driver: str) -> None:
        annotations = {"multicluster/network-driver": driver}
        await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)

    async def become(*wanted: dict[str, bool]) -> None:
        for each in wanted:
            await until(lambda each=each: _is(each), what=f"there is {each}")  # type: ignore[misc]

    async def _is(wanted: dict[str, bool]) -> bool:
        return await ways(pair.here, pair.namespace) == wanted

    async with contextlib.AsyncExitStack() as stack:
        await choose("endpointslices")
        far = await agents(stack, pair, mine, theirs)
        await become(mirrored)
        await gateways_known(pair)
        async with always_led(pair.here, pair.namespace):
            await choose("gateway")
            await until(lambda: _some(pair.here, GATEWAY_PEERS, pair.namespace), what="gateways are told")
            await started(stack, pair, far, mine, theirs)
            await become(mirrored | by_gateways, by_gateways)
            monkeypatch.setattr(handover, "KEEP_SECONDS", 8.0)
            await choose("endpointslices")
            # Existing callers of gateways continue, and no new traffic is routed to them.
            await become(by_gateways | mirrored, {GATEWAY_SLICE_MANAGER: False} | mirrored, mirrored)
        await until(lambda: _none(pair.here, GATEWAY_PEERS, pair.namespace))
        await until(lambda: _none(pair.there, GATEWAY_PEERS, pair.namespace))


async def test_gateways_that_do_not_lead_anywhere_keep_addresses_only_for_a_while(
    shared: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 60.0)
    pair = shared
    annotations = {"multicluster/network-driver": "endpointslices"}
    await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)
    async with contextlib.AsyncExitStack() as stack:
        await agents(stack, pair, address(), address())
        await until(lambda: _some(pair.here, ENDPOINT_SLICES, pair.namespace), what="addresses are told")
        await gateways_known(pair)
        await pair.here.patch(
            TARGETS,
            "eu",
            {"metadata": {"annotations": {**annotations, "multicluster/network-driver": "gateway"}}},
            pair.namespace,
        )
        await until(lambda: _some(pair.here, GATEWAY_PEERS, pair.namespace), what="gateways are told")
        assert await ways(pair.here, pair.namespace) == {names.SLICE_MANAGER: True}
        monkeypatch.setattr(handover, "KEEP_SECONDS", 4.0)
        await until(lambda: _none(pair.here, ENDPOINT_SLICES, pair.namespace), what="addresses are told no more")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_gateways_make_way_for_a_driver_that_tells_nothing_in_two_steps_and_for_none_at_once(
    shared: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handover, "KEEP_SECONDS", 9.0)
    pair = shared

    async def choose(driver: str) -> None:
        annotations = {"multicluster/network-driver": driver}
        await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)

    async def offered() -> list[int]:
        peers = await pair.here.list(GATEWAY_PEERS, pair.namespace)
        return [each["ready"] for peer in peers for each in peer["spec"]["services"]]

    async def is_offered(*ready: int) -> bool:
        return await offered() == list(ready)

    await choose("gateway")
    async with contextlib.AsyncExitStack() as stack:
        await agents(stack, pair, address(), address())
        await until(lambda: is_offered(1), what="gateways are told")
        await choose("external/sdwan")
        await until(lambda: is_offered(0), what="nobody is sent to gateways any more")
        await until(lambda: _none(pair.here, GATEWAY_PEERS, pair.namespace), what="gateways are told no more")
        await choose("gateway")
        await until(lambda: is_offered(1), what="gateways are told again")
        monkeypatch.setattr(handover, "KEEP_SECONDS", 600.0)
        await choose("none")
        await until(lambda: _none(pair.here, GATEWAY_PEERS, pair.namespace), what="gateways are told no more")


async def _some(client: Client, kind: Any, namespace: str) -> bool:
    return bool(await client.list(kind, namespace))


async def _none(client: Client, kind: Any, namespace: str) -> bool:
    return not await client.list(kind, namespace)


async def _refused(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(host, port)
    except ConnectionError:
        return True
    writer.close()
    return False


async def test_a_new_ca_is_told_beside_the_old_one(pair: Pair) -> None:
    async with running(pair.clusters[0], *EVERYWHERE, gateway=True, gateway_address=("gw.example.org:443",)):

        async def told() -> Raw | None:
            summary = await pair.here.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
            found = read(summary["metadata"]["annotations"])
            return {"ca": found.ca, "addresses": found.addresses} if found is not None else None

        first = await until(told) or {}
        assert first["addresses"] == ("gw.example.org:443",)
        await pair.here.delete(SECRETS, GATEWAY_SECRET, HOME)

        async def both() -> bool:
            now = await told()
            return now is not None and now["ca"] != first["ca"] and now["ca"].endswith(first["ca"])

        await until(both, what="both CAs are told")
        second = await told() or {}
    # A new leader, which has never read the deleted Secret, continues to trust its CA.
    await pair.here.delete(SECRETS, GATEWAY_SECRET, HOME)
    async with running(pair.clusters[0], *EVERYWHERE, gateway=True, gateway_address=("gw.example.org:443",)):

        async def still() -> bool:
            now = await told()
            return now is not None and now["ca"] != second["ca"] and now["ca"].endswith(second["ca"])

        await until(still, what="the CA of the lost Secret is told, too")
    # Without gateways the summary does not mention them.
    async with running(pair.clusters[0], SummaryController):

        async def silent() -> bool:
            summary = await pair.here.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
            return ANNOTATION_GATEWAY not in summary["metadata"]["annotations"]

        await until(silent)
    await pair.here.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    await pair.here.delete(SECRETS, GATEWAY_SECRET, HOME)


async def test_services_of_others_are_left_alone(pair: Pair) -> None:
    async with running(pair.clusters[0], GatewaySlicesController, gateway=True):
        await gateway_pod(pair.here, "gw")
        await pair.create(SERVICES, "web", spec={"ports": PORTS})
        services = [{"name": "web", "ports": [{"name": "http", "port": 80}], "ready": 1}]
        labels = {names.LABEL_PARENT_CLUSTER_UID: "another-source"}
        await pair.create(
            GATEWAY_PEERS, "us", metadata={"labels": labels}, spec={"uid": "u", "ca": "c", "services": services}
        )

        async def status() -> Raw | None:
            found = await pair.here.get(GATEWAY_PEERS, "us", pair.namespace)
            return find_condition((found.get("status") or {}).get("conditions"), "Programmed")  # type: ignore[return-value]

        said = await until(status) or {}
        assert (said["status"], said["reason"]) == ("False", "NoService")
        assert "web (it is not shared by who has written this object)" in said["message"]
        made = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        assert await pair.here.list(ENDPOINT_SLICES, pair.namespace, labels=made) == []
        # As soon as the Service is a copy of that source.
        await pair.here.patch(SERVICES, "web", {"metadata": {"labels": labels}}, pair.namespace)
        port = await led(pair.here, pair.namespace, ready=False)

        # A recreated peer of the same name gets another port: pods may still report the old one.
        await pair.here.delete(GATEWAY_PEERS, "us", pair.namespace)
        await pair.create(
            GATEWAY_PEERS, "us", metadata={"labels": labels}, spec={"uid": "u", "ca": "c", "services": services}
        )

        async def another() -> bool:
            return await led(pair.here, pair.namespace, ready=False) not in (0, port)

        await until(another, what="another port stands for the Service")
    await pair.here.delete(ENDPOINT_SLICES, GATEWAY_SERVICE, HOME)


async def runs_at(client: Client, namespace: str, host: str) -> None:
    """Give the pod of the Service `hello`, once it is ready, an address that answers."""

    async def is_ready() -> bool:
        return is_true((await client.get(PODS, "hello", namespace))["status"].get("conditions"), "Ready")

    await until(is_ready)
    status = {"podIP": host, "podIPs": [{"ip": host}]}
    await client.patch(PODS, "hello", {"status": status}, namespace, sub="status")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_a_cluster_exports_is_called_through_both_gateways(joined: Pair, tmp_path: Path) -> None:
    """Our implementation of the Multi-Cluster Services API exports it, without knowledge of gateways."""
    pair, mine, theirs = joined, address(), address()
    hello = Exported(pair)
    async with served(hello.clients, await published(tmp_path)), contextlib.AsyncExitStack() as stack:
        far = await controllers(stack, pair, mine, theirs, ServiceImportsController, mcs=True, discovery_interval=1.0)
        host, _, port = (await stack.enter_async_context(serving(echo, own_address()))).rpartition(":")
        await hello.deploy(pair.there, ports=[{"name": "tcp", "port": 42, "targetPort": int(port)}])
        await hello.run(pair.there)
        await runs_at(pair.there, pair.namespace, host)
        await hello.export(pair.there)
        for client in hello.clients:
            assert (await hello.imported(client))["spec"]["ips"]
        await started(stack, pair, far, mine, theirs)
        local = await led(pair.here, pair.namespace, ready=True)
        assert await ask(mine, local, b"hello") == b"hello"
        await hello.unexport(pair.there)
        for client in hello.clients:
            await hello.gone(client)
        await until(lambda: _refused(mine, local), what="its port is closed")


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_gateways_lead_to_the_ports_that_a_cluster_exports_and_to_no_others(joined: Pair, tmp_path: Path) -> None:
    """Other ports would not be answered, even if the port has another number in that cluster."""
    pair, hello = joined, Exported(joined)
    async with served(hello.clients, await published(tmp_path)), contextlib.AsyncExitStack() as stack:
        await controllers(stack, pair, address(), address(), ServiceImportsController, mcs=True, discovery_interval=1.0)
        await hello.deploy(pair.there, ports=[{"name": "tcp", "port": 42}])
        await hello.export(pair.there)
        await hello.imported(pair.here)
        # Creation timestamps have whole seconds.
        await asyncio.sleep(1.1)
        await hello.deploy(pair.here, ports=[{"name": "tcp", "port": 43}, {"name": "more", "port": 44}])
        await hello.export(pair.here)

        async def told() -> bool:
            found = [each for client in hello.clients for each in await client.list(GATEWAY_PEERS, pair.namespace)]
            last[:] = [[_numbers(peer["spec"][field]) for field in ("services", "offered")] for peer in found]
            return last == [[[42], [44]], [[44], [42]]]

        last: list[Any] = []
        try:
            await until(told)
        except AssertionError as error:
            raise AssertionError(f"{error}: {last}") from None


def _numbers(services: list[Raw]) -> list[int]:
    return [port["port"] for service in services for port in service["ports"]]
