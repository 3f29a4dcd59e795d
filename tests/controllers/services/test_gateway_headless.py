"""Hosts of headless Services through gateways, on two real API servers with the real Envoy. DNS and kube-proxy
do not run: tests read the slices that DNS answers from, and call the ports of Services."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.crds import crds
from agent.api.kinds import CRDS, ENDPOINT_SLICES, GATEWAY_PEERS, SERVICE_LINKS, SERVICES, TARGETS
from agent.api.names.derived import gateway_host
from agent.api.names.links import GATEWAY_SLICE_MANAGER, LABEL_GATEWAY_HOST, LABEL_HEADLESS_OF
from agent.clusters.deps import Deps
from agent.drivers import handover
from agent.kube.client import Client
from agent.services.links import ServiceLinksController
from tests.controllers.pair import Pair
from tests.controllers.services import test_gateways
from tests.controllers.services.test_gateways import (
    EVERYWHERE,
    SHARED,
    controllers,
    gateway_pod,
    gateways_known,
    own_address,
    started,
)
from tests.controllers.starting import running
from tests.gateway.lab import address, ask, saying, serving
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]

joined = test_gateways.joined
HEADLESS = {"clusterIP": "None", "ports": [{"name": "tcp", "port": 5432}]}


async def host(pair: Pair, client: Client, name: str, at: str, *, ready: bool = True) -> None:
    """Create or change the slice of `db` in a cluster, as the cluster publishes it for a StatefulSet's pod."""
    assert pair.deps is not None
    ip, _, port = at.rpartition(":")
    here = client is pair.here
    label = {names.LABEL_GLOBAL: "true"} if here else {names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}
    slice = {
        "metadata": {"name": f"db-{name}", "labels": {names.LABEL_SERVICE_NAME: "db", **label}},
        "addressType": "IPv4",
        "ports": [{"name": "tcp", "port": int(port)}],
        "endpoints": [{"addresses": [ip], "hostname": name, "conditions": {"ready": ready}}],
    }
    if ready:
        await client.create(ENDPOINT_SLICES, slice, pair.namespace)
    else:
        await client.patch(ENDPOINT_SLICES, f"db-{name}", {"endpoints": slice["endpoints"]}, pair.namespace)


async def listed(client: Client, namespace: str) -> dict[str, tuple[str, bool]]:
    """Return the address and readiness of remote hosts by name, as DNS reads them."""
    labels = f"{names.LABEL_SERVICE_NAME}=db,{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
    found = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
    every = [each for slice in found for each in slice.get("endpoints") or ()]
    return {each.get("hostname", ""): (each["addresses"][0], each["conditions"]["ready"]) for each in every}


async def become(client: Client, namespace: str, **ready: bool) -> dict[str, str]:
    """Wait until exactly these hosts are listed with this readiness; return their addresses."""
    wanted = {name.replace("_", "-"): each for name, each in ready.items()}

    async def probe() -> bool:
        last.clear()
        last.update(await listed(client, namespace))
        return {name: each for name, (_, each) in last.items()} == wanted

    last: dict[str, tuple[str, bool]] = {}
    try:
        await until(probe, what=f"hosts are {wanted}")
    except AssertionError as error:
        peers = [(each["spec"], each.get("status")) for each in await client.list(GATEWAY_PEERS, namespace)]
        raise AssertionError(f"{error}: {last}, {peers}") from None
    return {name: address for name, (address, _) in last.items()}


async def fronts(client: Client, namespace: str) -> dict[str, Raw]:
    """Return the Services that represent hosts, by host."""
    found = await client.list(SERVICES, namespace, labels=f"{LABEL_HEADLESS_OF}=db")
    return {each["metadata"]["labels"][LABEL_GATEWAY_HOST]: each for each in found}


async def port_of(client: Client, namespace: str, service: Raw) -> int:
    """Return the port on which the gateways listen for a Service."""
    labels = f"{names.LABEL_SERVICE_NAME}={service['metadata']['name']}"
    (slice,) = await client.list(ENDPOINT_SLICES, namespace, labels=labels)
    return int(slice["ports"][0]["port"])


async def link_says(pair: Pair, reason: str, part: str = "", *, consumer: str = "here", source: str = "eu") -> None:
    """Wait until the ServiceLink of `db` has this reason and these words for callers in one cluster."""

    async def probe() -> bool:
        link = await pair.here.get(SERVICE_LINKS, "db", pair.namespace)
        last[:] = (link.get("status") or {}).get("clusters") or ()
        fits = (row for row in last if (row["cluster"], row["from"], row["reason"]) == (consumer, [source], reason))
        return any(part in row.get("message", "") for row in fits)

    last: list[Raw] = []
    try:
        await until(probe, what=f"the link says {reason}: {part}")
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None


async def at_work(stack: contextlib.AsyncExitStack, pair: Pair, mine: str, theirs: str, **given: Any) -> Deps:
    await pair.create(SERVICES, "db", metadata=SHARED, spec=HEADLESS)
    far = await controllers(stack, pair, mine, theirs, ServiceLinksController, service_links=True, **given)
    await pair.copy(SERVICES, "db")
    return far


async def none(client: Client, kind: Any, namespace: str, labels: str) -> bool:
    return not await client.list(kind, namespace, labels=labels)


MADE = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_each_host_is_called_by_its_own_address_through_both_gateways(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        far = await at_work(stack, pair, mine, theirs, gateway_headless=True)
        pods = [await stack.enter_async_context(serving(saying(f"db-{each}"), own_address())) for each in range(2)]
        await test_gateways.pod_at(pair.there, pair.namespace, "db", own_address())
        for number, at in enumerate(pods):
            await host(pair, pair.there, f"db-{number}", at)
        gateways = await started(stack, pair, far, mine, theirs)

        first = await become(pair.here, pair.namespace, db_0=True, db_1=True)
        made = await fronts(pair.here, pair.namespace)
        assert first == {name: each["spec"]["clusterIP"] for name, each in made.items()}
        ports = {name: await port_of(pair.here, pair.namespace, each) for name, each in made.items()}
        for number, at in enumerate(pods):
            name = f"db-{number}"
            # The Service of a host has the pod's port.
            assert [each["port"] for each in made[name]["spec"]["ports"]] == [int(at.rpartition(":")[2])]
            assert await ask(mine, ports[name], b"who is there") == name.encode()
        await link_says(pair, "Connected")

        # The peer is cut off, and returns: addresses stay.
        await gateways[1].stop("envoy")
        assert await become(pair.here, pair.namespace, db_0=False, db_1=False) == first
        await gateways[1].start_envoy()
        assert await become(pair.here, pair.namespace, db_0=True, db_1=True) == first

        # An unready pod keeps its address, a deleted one does not.
        await host(pair, pair.there, "db-1", pods[1], ready=False)
        assert await become(pair.here, pair.namespace, db_0=True, db_1=False) == first
        await pair.there.delete(ENDPOINT_SLICES, "db-db-1", pair.namespace)
        await become(pair.here, pair.namespace, db_0=True)
        assert list(await fronts(pair.here, pair.namespace)) == ["db-0"]
        assert await ask(mine, ports["db-0"], b"who is there") == b"db-0"

        # A Service that a user deletes is recreated.
        await pair.here.delete(SERVICES, made["db-0"]["metadata"]["name"], pair.namespace)

        async def again() -> bool:
            found = (await fronts(pair.here, pair.namespace)).get("db-0")
            return found is not None and (await listed(pair.here, pair.namespace)) == {
                "db-0": (found["spec"]["clusterIP"], True)
            }

        await until(again, what="it has another address")

        nothing = {"metadata": {"annotations": {"multicluster/global": None}, "labels": {names.LABEL_GLOBAL: None}}}
        await pair.here.patch(SERVICES, "db", nothing, pair.namespace)
        for kind, labels in ((SERVICES, LABEL_HEADLESS_OF), (ENDPOINT_SLICES, MADE), (GATEWAY_PEERS, "")):
            await until(lambda kind=kind, labels=labels: none(pair.here, kind, pair.namespace, labels))  # type: ignore[misc]


async def test_without_the_flag_nothing_is_made_and_the_link_names_it(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        await at_work(stack, pair, mine, theirs)
        await host(pair, pair.there, "db-0", "203.0.113.5:5432")
        await link_says(pair, "NoService", "set --gateway-headless of the agent here")
        for client in (pair.here, pair.there):
            assert await client.list(GATEWAY_PEERS, pair.namespace) == []


async def test_where_callers_have_not_switched_it_on_their_gatewaypeer_and_the_link_name_the_flag(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        far = await at_work(stack, pair, mine, theirs, gateway_headless=True)
        await host(pair, pair.here, "db-0", "203.0.113.5:5432")
        await started(stack, pair, far, mine, theirs)
        wanted = "db (it is headless: set --gateway-headless of the agent where its callers are)"

        async def told() -> bool:
            (peer,) = await pair.there.list(GATEWAY_PEERS, pair.namespace)
            found = find_condition((peer.get("status") or {}).get("conditions"), "Programmed") or {}
            # Other Services of the peer are unaffected.
            return found.get("status") == "True" and wanted in found.get("message", "")

        await until(told, what="the GatewayPeer names the flag")
        await link_says(pair, "NoService", wanted, consumer="eu", source="here")
        assert await fronts(pair.there, pair.namespace) == {}
        assert await listed(pair.there, pair.namespace) == {}


async def test_addresses_stay_when_agents_start_again(joined: Pair) -> None:
    pair, mine, theirs = joined, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        await at_work(stack, pair, mine, theirs, gateway_headless=True)
        await gateway_pod(pair.here, mine)
        await host(pair, pair.there, "db-0", "203.0.113.5:5432")
        await become(pair.here, pair.namespace, db_0=False)
        before = (await fronts(pair.here, pair.namespace))["db-0"]["metadata"]["uid"]
    async with contextlib.AsyncExitStack() as stack:
        await controllers(stack, pair, mine, theirs, gateway_headless=True)
        await host(pair, pair.there, "db-1", "203.0.113.6:5432")
        await become(pair.here, pair.namespace, db_0=False, db_1=False)
        assert (await fronts(pair.here, pair.namespace))["db-0"]["metadata"]["uid"] == before


async def ready_by(client: Client, namespace: str) -> dict[str, bool]:
    """Return by managing controller whether the slices of `db` with a host are ready."""
    found = await client.list(ENDPOINT_SLICES, namespace, labels=f"{names.LABEL_SERVICE_NAME}=db")
    ours = {each["metadata"]["labels"].get(names.LABEL_SLICE_MANAGED_BY): each for each in found}
    return {
        manager: any(endpoint["conditions"]["ready"] for endpoint in each.get("endpoints") or ())
        for manager, each in ours.items()
        if manager in (names.SLICE_MANAGER, GATEWAY_SLICE_MANAGER)
    }


@pytest.mark.seldom
async def test_from_addresses_to_gateways_and_back_a_host_always_has_an_address(
    joined: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two Envoys start meanwhile.
    monkeypatch.setattr(handover, "KEEP_SECONDS", 60.0)
    pair, mine, theirs = joined, address(), address()
    seen: list[dict[str, bool]] = []

    async def choose(driver: str) -> None:
        annotations = {"multicluster/network-driver": driver}
        await pair.here.patch(TARGETS, "eu", {"metadata": {"annotations": annotations}}, pair.namespace)

    async def become(**wanted: bool) -> None:
        managers = {"mirrored": names.SLICE_MANAGER, "by_gateways": GATEWAY_SLICE_MANAGER}

        async def probe() -> bool:
            seen.append(await ready_by(pair.here, pair.namespace))
            return seen[-1] == {managers[each]: ready for each, ready in wanted.items()}

        await until(probe, what=f"there is {wanted}")

    async with contextlib.AsyncExitStack() as stack:
        await choose("endpointslices")
        far = await at_work(stack, pair, mine, theirs, gateway_headless=True)
        await host(pair, pair.there, "db-0", "203.0.113.5:5432")
        await become(mirrored=True)
        await gateways_known(pair)
        seen.clear()
        await choose("gateway")
        await until(lambda: _some(pair.here, GATEWAY_PEERS, pair.namespace), what="gateways are told")
        await started(stack, pair, far, mine, theirs)
        await become(mirrored=True, by_gateways=True)
        await become(by_gateways=True)
        monkeypatch.setattr(handover, "KEEP_SECONDS", 8.0)
        await choose("endpointslices")
        await become(mirrored=True, by_gateways=True)
        await become(mirrored=True, by_gateways=False)
        await become(mirrored=True)
        assert [each for each in seen if not any(each.values())] == []
        await until(lambda: none(pair.here, SERVICES, pair.namespace, LABEL_HEADLESS_OF), what="its Service is gone")


async def _some(client: Client, kind: Any, namespace: str) -> bool:
    return bool(await client.list(kind, namespace))


@contextlib.asynccontextmanager
async def old_crd(client: Client) -> AsyncIterator[None]:
    """Install a CRD of GatewayPeers without hosts, as earlier versions had it."""
    (crd,) = (each for each in crds() if each["metadata"]["name"] == str(GATEWAY_PEERS))
    versions = crd["spec"]["versions"]
    try:
        await client.patch(CRDS, str(GATEWAY_PEERS), {"spec": {"versions": without_hosts(versions)}})
        await settled(client, knows=False)
        yield
    finally:
        await client.patch(CRDS, str(GATEWAY_PEERS), {"spec": {"versions": versions}})
        await settled(client, knows=True)


def without_hosts(versions: list[Raw]) -> list[Raw]:
    """Return the versions of the CRD without their fields for hosts."""

    def clean(field: Raw) -> Raw:
        kept = {key: value for key, value in field["properties"].items() if "eadless" not in key}
        return {**field, "properties": kept}

    schemas = [each["schema"]["openAPIV3Schema"] for each in versions]
    cleaned = [
        {
            **each,
            "properties": each["properties"] | {part: clean(each["properties"][part]) for part in ("spec", "status")},
        }
        for each in schemas
    ]
    return [{**version, "schema": {"openAPIV3Schema": each}} for version, each in zip(versions, cleaned, strict=True)]


async def settled(client: Client, *, knows: bool) -> None:
    """Wait until the API server keeps the fields, or drops them."""

    async def probe() -> bool:
        spec = {"uid": "u", "ca": "c", "headless": [{"name": "x", "ports": [{"port": 1}], "hosts": [{"name": "x"}]}]}
        head = {"apiVersion": GATEWAY_PEERS.api_version, "kind": GATEWAY_PEERS.name, "metadata": {"name": "probe"}}
        made = await client.create(GATEWAY_PEERS, {**head, "spec": spec}, "default")
        await client.delete(GATEWAY_PEERS, "probe", "default")
        return ("headless" in made["spec"]) is knows

    await until(probe)


@pytest.mark.full("Definitions of the version before; the first tier keeps the present ones.")
@pytest.mark.parametrize("old", ["callers", "provider"])
async def test_a_crd_from_before_drops_all_of_it(joined: Pair, old: str) -> None:
    pair, mine, theirs = joined, address(), address()
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(old_crd(pair.here if old == "callers" else pair.there))
        far = await at_work(stack, pair, mine, theirs, gateway_headless=True)
        await host(pair, pair.there, "db-0", "203.0.113.5:5432")
        await started(stack, pair, far, mine, theirs)
        await link_says(pair, "Pending", "upgrade the chart there")
        (peer,) = await pair.here.list(GATEWAY_PEERS, pair.namespace) or [{"spec": {}}]
        assert "headless" not in peer["spec"]
        assert await fronts(pair.here, pair.namespace) == {}


@pytest_asyncio.fixture
async def told(pair: Pair) -> AsyncIterator[Callable[..., Any]]:
    """Yield a function that writes GatewayPeers of a source, in a cluster with one gateway pod."""
    labels = {names.LABEL_PARENT_CLUSTER_UID: "a-source"}
    await gateway_pod(pair.here, "gw")
    await pair.create(SERVICES, "db", metadata={"labels": labels}, spec=HEADLESS)

    async def write(*hosts: str, **more: Any) -> None:
        entry = {"name": "db", "ports": [{"name": "tcp", "port": 5432}], "hosts": [{"name": each} for each in hosts]}
        spec = {"uid": "u", "ca": "c", "headless": [{**entry, **more}]}
        await pair.create(GATEWAY_PEERS, "us", metadata={"labels": labels}, spec=spec)

    yield write
    await pair.here.delete(ENDPOINT_SLICES, test_gateways.GATEWAY_SERVICE, test_gateways.HOME)


async def message(pair: Pair, part: str) -> None:
    async def probe() -> bool:
        found = await pair.here.get(GATEWAY_PEERS, "us", pair.namespace)
        said = find_condition((found.get("status") or {}).get("conditions"), "Programmed") or {}
        last[:] = [said.get("message")]
        return said.get("status") == "True" and part in said.get("message", "")

    last: list[Any] = []
    try:
        await until(probe)
    except AssertionError as error:
        raise AssertionError(f"{error}: {last}") from None


async def test_a_service_that_is_in_the_way_is_left_alone_and_named(pair: Pair, told: Callable[..., Any]) -> None:
    name = gateway_host("db", "db-0", "us")
    await pair.create(SERVICES, name, spec={"ports": [{"port": 80}]})
    async with running(pair.clusters[0], *EVERYWHERE[-1:], gateway=True, gateway_headless=True):
        await told("db-0", "db-1", leftOut=7)
        await message(pair, f"db-0 (Service {name} cannot be made: another one of that name is in the way: delete it)")
        await message(pair, "db (7 of its hosts: 100 are told of)")
        await become(pair.here, pair.namespace, db_1=False)
        assert [each["port"] for each in (await pair.here.get(SERVICES, name, pair.namespace))["spec"]["ports"]] == [80]
        await pair.here.delete(SERVICES, name, pair.namespace)
        await become(pair.here, pair.namespace, db_0=False, db_1=False)


async def test_services_of_hosts_go_with_their_gatewaypeer(pair: Pair, told: Callable[..., Any]) -> None:
    async with running(pair.clusters[0], *EVERYWHERE[-1:], gateway=True, gateway_headless=True):
        await told("db-0", "")
        await become(pair.here, pair.namespace, db_0=False, **{"": False})
        await pair.here.patch(
            SERVICES, "db", {"metadata": {"labels": {names.LABEL_PARENT_CLUSTER_UID: "b"}}}, pair.namespace
        )
        await message(pair, "db (it is not shared by who has written this object)")
        assert await fronts(pair.here, pair.namespace) == {}
        await pair.here.patch(
            SERVICES, "db", {"metadata": {"labels": {names.LABEL_PARENT_CLUSTER_UID: "a-source"}}}, pair.namespace
        )
        await become(pair.here, pair.namespace, db_0=False, **{"": False})
        await pair.here.delete(GATEWAY_PEERS, "us", pair.namespace)
        for kind, labels in ((SERVICES, LABEL_HEADLESS_OF), (ENDPOINT_SLICES, MADE)):
            await until(lambda kind=kind, labels=labels: none(pair.here, kind, pair.namespace, labels))  # type: ignore[misc]
