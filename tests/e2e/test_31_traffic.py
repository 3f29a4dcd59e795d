"""Promise 31: on real containers, every client reaches every backend of a Service, loses no request and reads
its files.

One Deployment runs in two clusters. A client in each of three clusters sends twenty requests per second
throughout.
"""

import asyncio
import functools
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CONFIGMAPS, PODS, SECRETS, SERVICE_EXPORTS, SERVICE_IMPORTS, SERVICES, SOURCES
from agent.api.names import PREFIX, SERVICE_ACCOUNT_MOUNT, SHORT_PREFIX, SOURCE_API, USE_CONSTRAINTS
from agent.api.roles import OPTIONAL_FEATURES
from agent.kube.client import Client
from agent.kube.config import parse
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from hack.lab.sandbox import kubeconfig
from tests.controllers.installed import installed
from tests.e2e import shared
from tests.e2e.faults.agents import agent_with
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, ELECT, REGION
from tests.e2e.shared import CLUSTERS

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]
IMAGE = {"image": "flotilla.local/busybox:1", "imagePullPolicy": "Never"}
REPLICAS = 4
CLIENT = "client"
FILES = ("token", "ca.crt", "namespace")
SERVE = "mkdir /www; hostname > /www/index.html; exec httpd -f -p 8080 -h /www"
ASK = """
one() { answer=$(timeout 5 wget -qO- http://ADDRESS/ 2>&1) && echo "ok $answer" || echo "failed $(date +%T): $answer"; }
while true; do one & usleep 50000; done
"""
"""Twenty requests per second, whatever the response time."""
PATIENCE_SECONDS = 120.0
MANY_ANSWERS = 100
"""Number of answers in a row that rules out chance if half of the endpoints were lost."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(fleet: Fleet) -> AsyncIterator[str]:
    """A namespace with the Deployment `web`, its Service, ConfigMap and Secret, and a client in every cluster."""
    async with fleet.namespace() as namespace:
        metadata = {"name": "words"}
        await fleet.source.create(CONFIGMAPS, {"metadata": metadata, "data": {"greeting": "hello"}}, namespace)
        await fleet.source.create(SECRETS, {"metadata": metadata, "stringData": {"password": "xyzzy"}}, namespace)
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, web(), namespace)
        await ready(fleet, namespace, REPLICAS)
        await shared.known_everywhere(fleet, namespace, "web", REPLICAS)
        for cluster in CLUSTERS:
            service = await fleet.clients[cluster].get(SERVICES, "web", namespace)
            await fleet.clients[cluster].create(PODS, client(service["spec"]["clusterIP"]), namespace)
        for cluster in CLUSTERS:
            probe = functools.partial(asked, fleet, namespace, cluster)
            await fleet.until(f"the client in {cluster} asks", probe, about=namespace)
        yield namespace


def web() -> Raw:
    """Return pods that serve their host name and spread over regions; the grace period leaves time to update
    endpoints."""
    mounts = [{"name": "words", "mountPath": "/words"}, {"name": "hidden", "mountPath": "/hidden"}]
    password = {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "words", "key": "password"}}}
    container = {
        "name": "main",
        **IMAGE,
        "command": ["sh", "-c", SERVE],
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1},
        "env": [password],
        "envFrom": [{"configMapRef": {"name": "words"}}],
        "volumeMounts": mounts,
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": REGION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    spec = {
        "containers": [container],
        "volumes": [
            {"name": "words", "configMap": {"name": "words"}},
            {"name": "hidden", "secret": {"secretName": "words"}},
        ],
        "terminationGracePeriodSeconds": 10,
        "topologySpreadConstraints": [spread],
    }
    marks = {ELECT: "", PREFIX + USE_CONSTRAINTS: ""}
    template = {"metadata": {"labels": {"app": "web"}, "annotations": marks}, "spec": spec}
    strategy = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    selector = {"matchLabels": {"app": "web"}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": REPLICAS, "selector": selector, "strategy": strategy, "template": template},
    }


def client(address: str) -> Raw:
    container = {"name": "main", **IMAGE, "command": ["sh", "-c", ASK.replace("ADDRESS", address)]}
    return {"metadata": {"name": CLIENT}, "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}}


async def ready(fleet: Fleet, namespace: str, count: int) -> list[Raw]:
    """Wait until exactly `count` proxy pods exist and all are ready; return them."""

    async def probe() -> list[Raw]:
        pods = await fleet.pods(namespace, "web")
        return pods if len(pods) == count and all(map(shared.is_ready, pods)) else []

    return await fleet.until(f"{count} pods are ready", probe, about=namespace, seconds=PATIENCE_SECONDS)


async def log(fleet: Fleet, namespace: str, cluster: str) -> list[str]:
    """Return a client's log. An API request costs a tenth of a kubectl process."""
    path = PODS.path(namespace, CLIENT, "log")
    return (await fleet.clients[cluster].session.request("GET", path)).decode().splitlines()


async def asked(fleet: Fleet, namespace: str, cluster: str) -> bool:
    """Check that the client in a cluster has had an answer."""
    try:
        return any(line.startswith("ok") for line in await log(fleet, namespace, cluster))
    except Exception:
        return False


async def answered_by(fleet: Fleet, namespace: str, backends: set[str]) -> None:
    """Wait until every client has had a new answer from each of these backends."""
    for cluster in CLUSTERS:
        before = len(await log(fleet, namespace, cluster))

        async def probe(cluster: str = cluster, before: int = before) -> bool:
            found = (await log(fleet, namespace, cluster))[before:]
            return {line.removeprefix("ok ") for line in found if line.startswith("ok")} >= backends

        await fleet.until(f"the client in {cluster} reaches {backends}", probe, about=namespace)


async def none_failed(fleet: Fleet, namespace: str) -> None:
    """Check that no client's request has failed so far."""
    failed = {
        cluster: [line for line in await log(fleet, namespace, cluster) if line.startswith("failed")]
        for cluster in CLUSTERS
    }
    assert failed == {cluster: [] for cluster in CLUSTERS}


def named(pods: list[Raw]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


async def test_every_client_reaches_every_backend_through_its_own_clusters_address(fleet: Fleet, place: str) -> None:
    pods = await ready(fleet, place, REPLICAS)
    homes = [cluster for cluster, _ in (await fleet.delegates(place)).values()]
    assert sorted(homes) == ["eu", "eu", "us", "us"]
    await answered_by(fleet, place, named(pods))
    await none_failed(fleet, place)


async def inside(fleet: Fleet, namespace: str, pod: str, script: str) -> str:
    return await fleet.kubectl("cd", "-n", namespace, "exec", pod, "--", "sh", "-c", script)


async def test_containers_read_what_followed_them_and_edits_arrive_in_files(fleet: Fleet, place: str) -> None:
    pods = named(await ready(fleet, place, REPLICAS))
    script = 'cat /words/greeting /hidden/password; echo " $greeting $PASSWORD"'
    for pod in pods:
        assert await inside(fleet, place, pod, script) == "helloxyzzy hello xyzzy\n"
    await fleet.source.patch(CONFIGMAPS, "words", {"data": {"greeting": "changed"}}, place)
    await fleet.source.patch(SECRETS, "words", {"stringData": {"password": "plugh"}}, place)
    # Poll inside one exec per pod: an exec per poll would cost more than the rest of this test.
    changed = "changedplugh hello xyzzy"
    turns = f"for i in $(seq {PATIENCE_SECONDS:.0f})"
    looks = f"{turns}; do [ \"$({script})\" = '{changed}' ] && break; sleep 1; done; {script}"
    found = await asyncio.gather(*(inside(fleet, place, pod, looks) for pod in pods))
    assert found == [f"{changed}\n"] * len(pods)


async def test_a_rolling_update_loses_no_request(fleet: Fleet, place: str) -> None:
    old = named(await ready(fleet, place, REPLICAS))
    again = {"spec": {"template": {"metadata": {"annotations": {"example.test/again": "1"}}}}}
    await fleet.source.patch(DEPLOYMENTS, "web", again, place)

    async def replaced() -> bool:
        pods = await fleet.pods(place, "web")
        return len(pods) == REPLICAS and not named(pods) & old and all(map(shared.is_ready, pods))

    await fleet.until("all pods are new", replaced, about=place, seconds=PATIENCE_SECONDS)
    await answered_by(fleet, place, named(await ready(fleet, place, REPLICAS)))
    await none_failed(fleet, place)


async def test_scaling_down_loses_no_request(fleet: Fleet, place: str) -> None:
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS // 2}}, place)
    pods = await ready(fleet, place, REPLICAS // 2)
    await shared.known_everywhere(fleet, place, "web", REPLICAS // 2)
    await answered_by(fleet, place, named(pods))
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS}}, place)
    await answered_by(fleet, place, named(await ready(fleet, place, REPLICAS)))
    await none_failed(fleet, place)


async def test_the_loss_of_one_targets_pods_loses_no_request(fleet: Fleet, place: str) -> None:
    # Pods removed by an earlier scale-down may still be terminating.
    lost = {
        pod["metadata"]["uid"]: pod
        for cluster, pod in (await fleet.delegates(place)).values()
        if cluster == "us" and "deletionTimestamp" not in pod["metadata"]
    }
    assert lost
    for uid, pod in lost.items():
        await fleet.clients["us"].delete(PODS, pod["metadata"]["name"], place, uid=uid)

    async def others() -> bool:
        found = {pod["metadata"]["uid"] for _, pod in (await fleet.delegates(place)).values()}
        return not found & lost.keys()

    await fleet.until("they are gone", others, about=place, seconds=PATIENCE_SECONDS)
    pods = await ready(fleet, place, REPLICAS)
    await shared.known_everywhere(fleet, place, "web", REPLICAS)
    await answered_by(fleet, place, named(pods))
    await none_failed(fleet, place)


@pytest.mark.seldom
async def test_the_abrupt_loss_of_a_target_costs_requests_until_its_endpoints_are_not_ready(
    fleet: Fleet, place: str
) -> None:
    """Like the loss of a node in one cluster: only requests sent to the lost pods time out."""
    pods = named(await ready(fleet, place, REPLICAS))
    lost = [pod["status"]["podIP"] for cluster, pod in (await fleet.delegates(place)).values() if cluster == "us"]
    await fleet.sandbox.set_link("us", up=False)
    try:
        for cluster in ("cd", "eu"):

            async def without(cluster: str = cluster) -> bool:
                return not set(await shared.ready(fleet, place, "web", cluster)) & set(lost)

            async def well(cluster: str = cluster) -> bool:
                return all(line.startswith("ok") for line in (await log(fleet, place, cluster))[-MANY_ANSWERS:])

            await fleet.until(f"{cluster} sends nothing to us", without, about=place)
            await fleet.until(f"the client in {cluster} has answers only", well, about=place)
            assert any(line.startswith("failed") for line in await log(fleet, place, cluster)), "nothing was lost"
    finally:
        await fleet.sandbox.set_link("us", up=True)
    await shared.known_everywhere(fleet, place, "web", REPLICAS)
    assert named(await ready(fleet, place, REPLICAS)) == pods, "nothing was made anew for a short loss"
    await answered_by(fleet, place, pods)


async def test_a_pod_that_asks_talks_to_the_api_of_its_source(fleet: Fleet, place: str) -> None:
    marks = {ELECT: "", SHORT_PREFIX + SOURCE_API: "true"}
    container = {"name": "main", **IMAGE, "command": ["sleep", "100000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    await fleet.source.create(PODS, {"metadata": {"name": "robot", "annotations": marks}, "spec": spec}, place)
    robot = await fleet.until("the pod runs", lambda: running(fleet, place, "robot"), about=place)
    assert robot["spec"]["nodeName"].startswith("admiralty-")
    host, port = (await inside(fleet, place, "robot", "echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")).split()
    server = f"https://{host}:{port}"
    assert server == fleet.sandbox["cd"].server
    await inside(fleet, place, "robot", f"nc -w 2 {host} {port} </dev/null")
    files = {name: await inside(fleet, place, "robot", f"cat {SERVICE_ACCOUNT_MOUNT}/{name}") for name in FILES}
    assert files["namespace"] == place
    text = kubeconfig.render("cd", server, files["ca.crt"].encode(), token=files["token"])
    async with Session(parse(text.encode(), None)) as session:
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{place}:default"):
            await Client(session).list(SECRETS, place)


async def running(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Return the pod, {} if it does not run."""
    pod = await fleet.source.get(PODS, name, namespace)
    return pod if pod["status"].get("phase") == "Running" else {}


async def test_clients_have_asked_all_the_while(fleet: Fleet, place: str) -> None:
    """Check the number of answers, without which the tests above would mean nothing."""
    for cluster in CLUSTERS:
        answers = [line for line in await log(fleet, place, cluster) if re.match(r"ok web-\w+-\w+$", line)]
        assert len(answers) > 500


async def answered_at(fleet: Fleet, namespace: str, cluster: str, address: str, backends: set[str]) -> None:
    """Wait until exactly these backends have answered a client in a cluster."""
    ask = f"for i in 1 2 3 4 5 6 7 8 9 10; do timeout 5 wget -qO- http://{address}/; done; true"
    answers = set[str]()

    async def probe() -> bool:
        answers.update((await fleet.kubectl(cluster, "-n", namespace, "exec", CLIENT, "--", "sh", "-c", ask)).split())
        return answers == backends

    what = f"callers in {cluster} reach {backends} at {address}"
    await fleet.until(what, probe, about=namespace, seconds=PATIENCE_SECONDS)


async def test_what_is_exported_answers_at_its_clusterset_ip(fleet: Fleet, place: str) -> None:
    """Uses the Multi-Cluster Services API (--mcs); all pods behind the Service are elected and run in targets."""
    pods = named(await ready(fleet, place, REPLICAS))
    for cluster in ("us", "eu"):
        await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, place)
    async with (
        installed(list(fleet.clients.values()), [(SERVICE_EXPORTS, None), (SERVICE_IMPORTS, None)]),
        agent_with(fleet, "cd", ("--mcs", "--discovery-interval=2s")),
    ):
        head = {"apiVersion": SERVICE_EXPORTS.api_version, "kind": SERVICE_EXPORTS.name}
        await fleet.source.create(SERVICE_EXPORTS, {**head, "metadata": {"name": "web"}}, place)
        for cluster in CLUSTERS:
            found = await shared.has(fleet, cluster, SERVICE_IMPORTS, place, "web", lambda found: found["spec"]["ips"])
            await answered_at(fleet, place, cluster, found["spec"]["ips"][0], pods)
        await fleet.source.delete(SERVICE_EXPORTS, "web", place)
        await shared.gone(fleet, SERVICE_IMPORTS, place, "web", CLUSTERS)
