"""Two clusters on real nodes with overlapping pod addresses: Services route through gateways, never to a wrong
pod.

Helm installs the chart with `gateway.enabled`. A pod in cd with the address of a pod in us answers `stranger`.
"""

import asyncio
import contextlib
import functools
import os
import re
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CLUSTER_SUMMARIES, ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES, PODS, SERVICES
from agent.api.names import LABEL_SERVICE_NAME, LABEL_SLICE_MANAGED_BY, SHORT_PREFIX, SUMMARY_NAME
from agent.api.names.links import AFFINITY, BY_GATEWAY, GATEWAY_SLICE_MANAGER, LABEL_HEADLESS_OF
from agent.model import gatewaytold, hostport
from agent.model.gatewaypeer import server_name
from hack.lab.sandbox import SandboxError
from hack.lab.sandbox.gateways import GatewayPod
from tests.chart.helm import NAMESPACE
from tests.e2e import shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.gateway import conntrack, failing, lab, realnodes
from tests.gateway.kubeproxy import settled
from tests.gateway.realnodes import CLUSTERS, asking, endpoints, gateway_pods, led, pids
from tests.processes import frozen
from tests.sandbox.realnode.conftest import why_not

pytestmark = realnodes.MARKS

Raw = dict[str, Any]

STRANGER = "stranger"
BACKENDS = 2
STREAM_GIB, BACK_GIB = 10, 2
REQUESTS = 1000
GATEWAYS = "flotilla-gateway"
"""Service at which peers call a cluster's gateways."""
FORGET_SECONDS = 5.0
"""Seconds until kube-proxy has cleared the kernel's UDP entries of a client, after it has written its rules."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Fleet]:
    if reason := why_not():
        pytest.skip(reason)
    values = ("gateway.udp=true", "gateway.headless=true")
    async with realnodes.fleet_of_two(tmp_path_factory.mktemp("gateways"), "same", *values) as fleet:
        yield fleet


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """Namespace with the Services `web` (pods in us), `home` (pods in cd) and `both`."""
    async with realnodes.allowed(fleet) as namespace:
        marks = {SHORT_PREFIX + "global": "true"}
        for name, annotations in {"web": {}, "home": marks, "both": marks}.items():
            await fleet.source.create(SERVICES, shared.service(name, annotations), namespace)
        await fleet.source.create(DEPLOYMENTS, realnodes.serving("web", BACKENDS, elect=True), namespace)
        await fleet.source.create(DEPLOYMENTS, realnodes.serving("home", 1), namespace)
        for cluster in CLUSTERS:
            await fleet.clients[cluster].create(DEPLOYMENTS, realnodes.serving("both", 1, cluster), namespace)
        await realnodes.by_driver(fleet, namespace, BY_GATEWAY)
        await led(fleet, "cd", namespace, "web", 2)
        await led(fleet, "us", namespace, "home", 2)
        for cluster in CLUSTERS:
            await led(fleet, cluster, namespace, "both", 2)
        yield namespace


async def backends(fleet: Fleet, namespace: str) -> dict[str, str]:
    """Return the addresses in us of the pods of `web` by host name (the proxy pod's name), once all are ready."""

    async def probe() -> dict[str, str]:
        found = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web")}
        delegates = await fleet.delegates(namespace)
        ready = {uid: pod for uid, (cluster, pod) in delegates.items() if cluster == "us" and shared.is_ready(pod)}
        full = len(found) == BACKENDS and found.keys() <= ready.keys()
        return {name: ready[uid]["status"]["podIP"] for uid, name in found.items()} if full else {}

    return await fleet.until("the backends are ready", probe, about=namespace, seconds=realnodes.PATIENCE_SECONDS)


async def passed(seconds: float) -> None:
    """Let clients ask for a while."""
    await asyncio.sleep(seconds)


def number(address: str) -> tuple[int, ...]:
    return tuple(map(int, address.split(".")))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def doubled(fleet: Fleet, place: str) -> str:
    """Return the address of a backend in us that a pod in cd has, too. Both clusters assign addresses in order."""
    strangers: dict[str, str] = {}
    for turn in range(40):
        there = await backends(fleet, place)
        if common := set(there.values()) & strangers.keys():
            return common.pop()
        if max(map(number, strangers), default=()) < min(map(number, there.values())):
            name = f"{STRANGER}-{turn}"
            made = realnodes.serving(name, 1, STRANGER)["spec"]["template"]["spec"]
            await fleet.source.create(PODS, {"metadata": {"name": name}, "spec": made}, place)
            strangers[(await realnodes.running(fleet, place, "cd", name))["status"]["podIP"]] = name
        else:
            await fleet.source.delete(PODS, (await fleet.pods(place, "web"))[0]["metadata"]["name"], place)
    raise AssertionError(f"no pod here has the address of one there: {strangers}, {there}")


async def test_a_frontend_calls_backends_in_the_other_cluster_by_the_services_own_name(
    fleet: Fleet, place: str, doubled: str
) -> None:
    assert await realnodes.ask(fleet, place, "cd", f"{doubled}:8080") == STRANGER
    wanted = set(await backends(fleet, place))
    async with asking(fleet, place, "web") as asked:
        await passed(10)
    asked.none_failed(10)
    assert realnodes.answers(asked) == wanted
    # Address as a container reads it, from the Service variables that the kubelet sets.
    await fleet.source.create(PODS, realnodes.pod("later", realnodes.SLEEP), place)
    await realnodes.running(fleet, place, "cd", "later")
    assert await realnodes.ask(fleet, place, "cd", "$WEB_SERVICE_HOST:$WEB_SERVICE_PORT", "later") in wanted
    (home,) = await fleet.source.list(PODS, place, labels="app=home")
    address = (await fleet.clients["us"].get(SERVICES, "home", place))["spec"]["clusterIP"]
    assert await realnodes.ask(fleet, place, "us", f"{address}:80") == home["metadata"]["name"]
    for cluster in CLUSTERS:
        (peer,) = await fleet.clients[cluster].list(GATEWAY_PEERS, place)
        assert condition(peer, "Programmed")["status"] == condition(peer, "Connected")["status"] == "True"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def dns(fleet: Fleet, place: str) -> AsyncIterator[str]:
    """Service with a UDP port, whose pod in us answers."""
    ports = [{"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"}]
    await fleet.source.create(SERVICES, shared.service("dns", ports=ports), place)
    await fleet.source.create(DEPLOYMENTS, realnodes.serving("dns", 1, elect=True), place)
    pod = await realnodes.delegate(fleet, place, "dns")
    process = pids(fleet, "us", "httpd", pod["metadata"]["uid"])[0]
    async with realnodes.answering(process, 5353, "us"):
        await led(fleet, "cd", place, "dns", 2)
        await settled(fleet, "cd", place, "dns")
        yield "dns"


async def test_datagrams_are_answered_by_the_other_cluster(fleet: Fleet, place: str, dns: str) -> None:
    one = await realnodes.ask_by_udp(fleet, place, dns, 200)
    many = await realnodes.ask_by_udp(fleet, place, dns, 2, clients=100)
    print(f"200 datagrams: {one}; 100 clients: {many}")
    assert (one["answered"], one["lost"]) == ({"us": 200}, 0)
    assert (many["answered"], many["lost"]) == ({"us": 200}, 0)


async def test_a_client_that_keeps_its_port_is_answered_after_both_gateways_have_been_replaced(
    fleet: Fleet, place: str, dns: str
) -> None:
    async with realnodes.asking_by_udp(fleet, place, dns) as told:
        await passed(2)
        for pod in await gateway_pods(fleet, "cd"):
            await fleet.clients["cd"].delete(PODS, pod["metadata"]["name"], NAMESPACE)
            await fleet.gone(PODS, pod["metadata"]["name"], NAMESPACE, source="cd")
            await gateway_pods(fleet, "cd")
            await led(fleet, "cd", place, dns, 2)
        await settled(fleet, "cd", place, dns)
        await passed(FORGET_SECONDS)
        replaced = time.time()
        await passed(10)
    lost = [round(at - told[0][0], 1) for at, answered in told if not answered]
    print(f"both gateways of cd replaced: {len(lost)} of {len(told)} datagrams lost: {lost}")
    after = [answered for at, answered in told if at > replaced]
    assert len(after) > 10
    assert all(after)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tcp(fleet: Fleet, place: str) -> AsyncIterator[str]:
    """Service whose pod in us answers over kept connections, and accepts long streams."""
    async with realnodes.keeper_and_streamer(fleet, place) as name:
        await led(fleet, "cd", place, name, 2)
        await settled(fleet, "cd", place, name)
        yield name


async def test_long_streams_pass_without_a_wrong_byte_both_ways(fleet: Fleet, place: str, tcp: str) -> None:
    found = await realnodes.send(fleet, place, tcp, STREAM_GIB * 1024, BACK_GIB * 1024)
    print(f"long streams: {found}")
    for gib, way in ((STREAM_GIB, "there"), (BACK_GIB, "back")):
        assert found[way]["bytes"] == gib << 30
        assert found[way]["heard"] == found[way]["said"]


async def addresses(fleet: Fleet, namespace: str) -> dict[str, str]:
    """Return the addresses of the host names of the Service `db`, from EndpointSlices, since cd has no DNS."""
    labels = f"{LABEL_SERVICE_NAME}=db,{LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
    found = await fleet.source.list(ENDPOINT_SLICES, namespace, labels=labels)
    every = [each for slice in found for each in slice.get("endpoints") or ()]
    return {each["hostname"]: each["addresses"][0] for each in every if each["conditions"]["ready"]}


async def test_pods_of_a_statefulset_in_the_other_cluster_are_called_by_their_host_names(
    fleet: Fleet, place: str
) -> None:
    await fleet.source.create(SERVICES, shared.service("db", clusterIP="None"), place)
    db = realnodes.serving("db", 2, elect=True)
    db["spec"] |= {"serviceName": "db", "podManagementPolicy": "Parallel"}
    await fleet.source.create(STATEFULSETS, db, place)

    async def known() -> dict[str, str]:
        found = await addresses(fleet, place)
        return found if found.keys() == {"db-0", "db-1"} else {}

    async def answers(told: dict[str, str]) -> bool:
        # The port is that of the pods, since a headless Service has none; kube-proxy observes it a moment later.
        with contextlib.suppress(SandboxError):
            said = {name: await realnodes.ask(fleet, place, "cd", f"{at}:8080") for name, at in told.items()}
            return said == {name: name for name in told}
        return False

    told = await fleet.until("hosts have addresses", known, about=place, seconds=realnodes.PATIENCE_SECONDS)
    await fleet.until("each host answers at its own", functools.partial(answers, told), about=place)

    # A recreated pod may have another address, the other pod keeps its own.
    before = (await fleet.source.get(PODS, "db-0", place))["metadata"]["uid"]
    await fleet.source.delete(PODS, "db-0", place)

    async def again() -> dict[str, str]:
        pod = await fleet.source.get(PODS, "db-0", place)
        return await known() if pod["metadata"]["uid"] != before and shared.is_ready(pod) else {}

    later = await fleet.until("db-0 is back", again, about=place, seconds=realnodes.PATIENCE_SECONDS)
    assert later["db-1"] == told["db-1"]
    await fleet.until("each host answers at its own", functools.partial(answers, later), about=place)

    await fleet.source.delete(STATEFULSETS, "db", place)

    async def nothing() -> bool:
        made = await fleet.source.list(SERVICES, place, labels=LABEL_HEADLESS_OF)
        return not made and not await addresses(fleet, place)

    await fleet.until("no Service is left of any host", nothing, about=place, seconds=realnodes.PATIENCE_SECONDS)
    await fleet.source.delete(SERVICES, "db", place)


async def test_callers_stay_in_a_cluster_that_has_pods_of_its_own_where_affinity_is_local(
    fleet: Fleet, place: str
) -> None:
    async def prefer(affinity: str | None) -> None:
        annotations = {SHORT_PREFIX + AFFINITY: affinity}
        await fleet.source.patch(SERVICES, "both", {"metadata": {"annotations": annotations}}, place)

    async def answers(seconds: float = 10) -> set[str]:
        await settled(fleet, "cd", place, "both")
        async with asking(fleet, place, "both") as asked:
            await passed(seconds)
        asked.none_failed(seconds)
        return realnodes.answers(asked)

    async def scale(replicas: int, gateways: int) -> None:
        await fleet.source.patch(DEPLOYMENTS, "both", {"spec": {"replicas": replicas}}, place)
        await led(fleet, "cd", place, "both", gateways)

    try:
        assert await answers() == set(CLUSTERS)
        await prefer("local")
        for cluster in CLUSTERS:
            await led(fleet, cluster, place, "both", 0)
        assert await answers() == {"cd"}
        async with asking(fleet, place, "both") as asked:
            ended = time.time()
            await scale(0, 2)
            await settled(fleet, "cd", place, "both")
            noticed = time.time() - ended
            assert await answers() == {"us"}
            await scale(1, 0)
            assert await answers() == {"cd"}
        failed = realnodes.failed_since(asked, ended)
        print(f"no pod of its own any more: {len(failed)} requests failed in {noticed:.1f} s: {failed}")
        assert max(failed, default=0) <= round(noticed, 1), "requests fail after callers are led elsewhere"
    finally:
        await prefer(None)
        await scale(1, 2)
    await led(fleet, "us", place, "both", 2)
    assert await answers() == set(CLUSTERS)


async def refused(fleet: Fleet) -> Counter[str]:
    """Return the number of connections that the gateways of us have refused, by reason."""
    found = Counter[str]()
    for pod in await gateway_pods(fleet, "us"):
        path = PODS.path(NAMESPACE, f"{pod['metadata']['name']}:8080", "proxy")
        text = (await fleet.clients["us"].session.request("GET", f"{path}/metrics")).decode()
        for reason, count in re.findall(r'^flotilla_gateway_refused_connections{reason="(\w+)"} (\S+)$', text, re.M):
            found[reason] += int(float(count))
    return found


async def test_whoever_is_not_linked_is_refused_where_peers_call_and_counted(fleet: Fleet, place: str) -> None:
    uids = {each: (await fleet.clients[each].get(NAMESPACES, "kube-system"))["metadata"]["uid"] for each in CLUSTERS}
    summary = await fleet.clients["us"].get(CLUSTER_SUMMARIES, SUMMARY_NAME)
    told = gatewaytold.read(summary["metadata"]["annotations"])
    assert told is not None
    host, port = hostport.split(told.addresses[0])
    another_ca, third = GatewayPod(uids["cd"], "127.0.0.1"), GatewayPod("uid-c", "127.0.0.1")
    name = server_name(place, "web", 80, uids["cd"], uids["us"])
    shown = {
        "CertificateRefused": (name, another_ca.issue()),
        "NoCertificate": (name, None),
        "UnknownPeer": (server_name(place, "web", 80, third.uid, uids["us"]), third.issue()),
    }
    for reason, (called, pair) in shown.items():
        before = (await refused(fleet))[reason]
        assert await lab.ask(host, port, b"GET / HTTP/1.0\r\n\r\n", lab.stranger(pair), called) == b""

        async def counted(reason: str = reason, before: int = before) -> bool:
            return (await refused(fleet))[reason] > before

        await fleet.until(f"the refusal is counted: {reason}", counted, about=place)


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_gateway_pod_that_ends_in_an_orderly_way_loses_no_request(
    fleet: Fleet, place: str, doubled: str, tcp: str, cluster: str
) -> None:
    wanted = set(await backends(fleet, place))
    before = await gateway_pods(fleet, cluster)
    name, began = before[0]["metadata"]["name"], time.monotonic()
    async with asking(fleet, place, "web") as asked, realnodes.keeping(fleet, place, tcp) as kept:
        await fleet.clients[cluster].delete(PODS, name, NAMESPACE)
        await fleet.gone(PODS, name, NAMESPACE, source=cluster)
        await gateway_pods(fleet, cluster)
        await led(fleet, "cd", place, "web", 2)
    print(f"a gateway of {cluster} has ended: {realnodes.longest(asked)}; over connections that are kept: {kept}")
    asked.none_failed(time.monotonic() - began)
    assert realnodes.answers(asked) == wanted
    realnodes.went_on(kept)


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_requests_go_on_once_a_gateway_that_was_killed_is_back(
    fleet: Fleet, place: str, doubled: str, cluster: str
) -> None:
    wanted = set(await backends(fleet, place))
    async with (
        asking(fleet, place, "web") as asked,
        failing.found_well_again(fleet, "cd", place) as well_again,
    ):
        killed, back = await kill_one(fleet, place, cluster)
        await passed(10)
    failed = realnodes.failed_since(asked, killed)
    over = [round(each - killed, 1) for each in (back, *well_again)]
    print(f"a gateway of {cluster} killed, back and found well again after {over} s: {len(failed)} of", end=" ")
    print(f"{asked.results['frontend']['asked']} failed: {failed}; {realnodes.longest(asked)}")
    # A caller that meets the dead gateway twice excludes the peer for a second.
    assert max(failed, default=0) <= max(over), "requests fail after it is back"
    assert realnodes.answers(asked) == wanted


async def envoys_started_anew(fleet: Fleet, cluster: str) -> dict[str, int]:
    """Return the number of Envoy restarts by pod, once all are ready."""
    return {
        pod["metadata"]["name"]: each["restartCount"]
        for pod in await gateway_pods(fleet, cluster)
        for each in pod["status"]["containerStatuses"]
        if each["name"] == "envoy"
    }


async def test_an_envoy_that_hangs_is_left_out_and_started_anew(fleet: Fleet, place: str, doubled: str) -> None:
    victim, other = (each["metadata"] for each in await gateway_pods(fleet, "cd"))
    before = await envoys_started_anew(fleet, "cd")
    hung = time.time()
    for pid in pids(fleet, "cd", "envoy", victim["uid"]):
        os.kill(pid, signal.SIGSTOP)
    await led(fleet, "cd", place, "web", 1)
    print(f"left out after {time.time() - hung:.1f} s")

    async def anew() -> bool:
        return (await envoys_started_anew(fleet, "cd"))[victim["name"]] > before[victim["name"]]

    await fleet.until("the kubelet starts it anew", anew, about=NAMESPACE, seconds=realnodes.PATIENCE_SECONDS)
    print(f"started anew after {time.time() - hung:.1f} s")
    await led(fleet, "cd", place, "web", 2)
    assert (await envoys_started_anew(fleet, "cd"))[other["name"]] == before[other["name"]]


async def called_through_gateways(fleet: Fleet, namespace: str) -> None:
    """Wait until callers in cd reach `both` and `web` through both of its gateways."""
    for service in ("both", "web"):
        await led(fleet, "cd", namespace, service, 2)
        await settled(fleet, "cd", namespace, service)


async def kill_one(fleet: Fleet, namespace: str, cluster: str) -> tuple[float, float]:
    """Kill an Envoy of a cluster. Return the time of that, and the time when its pod was ready again."""
    victim, killed = (await gateway_pods(fleet, cluster))[0], time.time()
    realnodes.signal_all(pids(fleet, cluster, "envoy", victim["metadata"]["uid"]), signal.SIGKILL)
    await realnodes.restarted(fleet, cluster, victim)
    await called_through_gateways(fleet, namespace)
    return killed, time.time()


async def test_a_thousand_requests_while_a_gateway_is_killed_and_then_all_of_a_target_are_cut(
    fleet: Fleet, place: str, doubled: str
) -> None:
    wanted, who = set(await backends(fleet, place)), realnodes.FRONTEND
    async with asking(fleet, place, "both") as both, asking(fleet, place, "web") as web:
        for each in (both, web):
            await each.asked(who, REQUESTS // 5)
        killed, back = await kill_one(fleet, place, "cd")
        for each in (both, web):
            await each.asked(who, REQUESTS // 2)
        cut = time.time()
        # Their input is accepted, and never answered.
        async with frozen(*pids(fleet, "us", "envoy")):
            noticed = await failing.noticed(fleet, "cd", place, "both", cut)
            print(f"noticed {time.time() - cut:.1f} s after the cut: {noticed}")
            await settled(fleet, "cd", place, "both")
            over = time.time()
            print(f"kube-proxy leads elsewhere {over - cut:.1f} s after the cut")
            async with asking(fleet, place, "both") as later:
                await passed(10)
            after = await endpoints(fleet, "cd", place, "both")
            print(f"asked then: {realnodes.failed_since(later, cut)} failed; endpoints: {after}")
            later.enough_asked(10)
            assert realnodes.answers(later) == {"cd"}
        await called_through_gateways(fleet, place)
        mended = time.time()
        for each in (both, web):
            await each.asked(who, REQUESTS)
        await passed(10)
    for name, asked in {"both": both, "web": web}.items():
        counts = asked.results[who]["answers"]
        failed = realnodes.failed_since(asked, cut)
        print(f"{name}: {asked.results[who]['asked']} asked, {counts}, {len(failed)} failed: {failed}", end="; ")
        print(realnodes.longest(asked))
    print(f"killed {killed - cut:.1f} s, back {back - cut:.1f} s, mended {mended - cut:.1f} s after the cut")
    assert min(each.results[who]["asked"] for each in (both, web)) >= REQUESTS
    # No request has reached a pod in cd with the address of a pod in us.
    assert realnodes.answers(both) == set(CLUSTERS)
    assert realnodes.answers(web) == wanted
    # Measured in Envoy's time: no additional check is made, and agents finish before the second next one.
    for gateway in noticed:
        assert gateway.checks <= failing.threshold()
        assert gateway.checks_then <= failing.threshold() + 1
    of_both = [*realnodes.failures(both), *realnodes.failures(later)]
    as_before = conntrack.led_as_before(of_both)
    print(f"led by the kernel where their ports led before: {as_before}")
    for found, until in ((of_both, over), (realnodes.failures(web), mended)):
        for each in found:
            assert killed - 1 < each["began"] < back or cut - 1 < each["began"] < until or each in as_before
    async with asking(fleet, place, "both") as both, asking(fleet, place, "web") as web:
        await passed(10)
    for each in (both, web):
        each.none_failed(10)
    assert realnodes.answers(both) == set(CLUSTERS)
    assert realnodes.answers(web) == set(await backends(fleet, place))
