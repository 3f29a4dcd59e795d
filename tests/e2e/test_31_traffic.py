"""Promise 31: on real containers, Services lead every client to every backend and lose no request, and files arrive.

One Deployment over two clusters, a client in each of three that asks twenty times a second all the while.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import CONFIGMAPS, PODS, SECRETS, SERVICES
from agent.api.names import PREFIX, SERVICE_ACCOUNT_MOUNT, SHORT_PREFIX, SOURCE_API, USE_CONSTRAINTS
from agent.kube.client import Client
from agent.kube.config import parse
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from agent.sandbox import kubeconfig
from tests.e2e import shared
from tests.e2e.conftest import AGENT_FLAGS, NewSandbox, fleet_of
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, ELECT, REGION
from tests.e2e.shared import CLUSTERS
from tests.sandbox.realnode.conftest import why_not

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
"""Twenty requests a second, however long one takes."""
PATIENCE_SECONDS = 120.0
MANY_ANSWERS = 100
"""So many in a row: with half of the endpoints lost, no accident."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real(new_sandbox: NewSandbox) -> AsyncIterator[Fleet]:
    """Source cd, targets us and eu, each with a real node."""
    if reason := why_not():
        pytest.skip(reason)
    flags = (*AGENT_FLAGS, "--pod-missing=3")
    async with fleet_of(new_sandbox(CLUSTERS, "real:1", agent_flags=flags)) as fleet:
        yield fleet


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(real: Fleet) -> AsyncIterator[str]:
    """A namespace with the web Deployment, its Service, what its containers read, and a client in every cluster."""
    async with real.namespace() as namespace:
        metadata = {"name": "words"}
        await real.source.create(CONFIGMAPS, {"metadata": metadata, "data": {"greeting": "hello"}}, namespace)
        await real.source.create(SECRETS, {"metadata": metadata, "stringData": {"password": "xyzzy"}}, namespace)
        await real.source.create(SERVICES, shared.service("web"), namespace)
        await real.source.create(DEPLOYMENTS, web(), namespace)
        await ready(real, namespace, REPLICAS)
        await shared.known_everywhere(real, namespace, "web", REPLICAS)
        for cluster in CLUSTERS:
            service = await real.clients[cluster].get(SERVICES, "web", namespace)
            await real.clients[cluster].create(PODS, client(service["spec"]["clusterIP"]), namespace)
        for cluster in CLUSTERS:
            await real.until(f"the client in {cluster} asks", lambda: asked(real, namespace, cluster), about=namespace)  # noqa: B023
        yield namespace


def web() -> Raw:
    """Pods that serve their host name, are spread over regions, and have time to be forgotten before they end."""
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
    """The proxy pods, once there are so many and all of them are ready."""

    async def probe() -> list[Raw]:
        pods = await fleet.pods(namespace, "web")
        return pods if len(pods) == count and all(map(shared.is_ready, pods)) else []

    return await fleet.until(f"{count} pods are ready", probe, about=namespace, seconds=PATIENCE_SECONDS)


async def log(fleet: Fleet, namespace: str, cluster: str) -> list[str]:
    return (await fleet.kubectl(cluster, "-n", namespace, "logs", CLIENT)).splitlines()


async def asked(fleet: Fleet, namespace: str, cluster: str) -> bool:
    """Whether the client in a cluster had an answer."""
    try:
        return any(line.startswith("ok") for line in await log(fleet, namespace, cluster))
    except Exception:
        return False


async def answered_by(fleet: Fleet, namespace: str, backends: set[str]) -> None:
    """Wait until every client had an answer of each of these backends, after what it has had so far."""
    for cluster in CLUSTERS:
        before = len(await log(fleet, namespace, cluster))

        async def probe(cluster: str = cluster, before: int = before) -> bool:
            found = (await log(fleet, namespace, cluster))[before:]
            return {line.removeprefix("ok ") for line in found if line.startswith("ok")} >= backends

        await fleet.until(f"the client in {cluster} reaches {backends}", probe, about=namespace)


async def none_failed(fleet: Fleet, namespace: str) -> None:
    """No client has had a request without an answer since it began."""
    failed = {
        cluster: [line for line in await log(fleet, namespace, cluster) if line.startswith("failed")]
        for cluster in CLUSTERS
    }
    assert failed == {cluster: [] for cluster in CLUSTERS}


def named(pods: list[Raw]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


async def test_every_client_reaches_every_backend_through_its_own_clusters_address(real: Fleet, place: str) -> None:
    pods = await ready(real, place, REPLICAS)
    homes = [cluster for cluster, _ in (await real.delegates(place)).values()]
    assert sorted(homes) == ["eu", "eu", "us", "us"]
    await answered_by(real, place, named(pods))
    await none_failed(real, place)


async def inside(fleet: Fleet, namespace: str, pod: str, script: str) -> str:
    return await fleet.kubectl("cd", "-n", namespace, "exec", pod, "--", "sh", "-c", script)


async def test_containers_read_what_followed_them_and_edits_arrive_in_files(real: Fleet, place: str) -> None:
    pods = named(await ready(real, place, REPLICAS))
    script = 'cat /words/greeting /hidden/password; echo " $greeting $PASSWORD"'
    for pod in pods:
        assert await inside(real, place, pod, script) == "helloxyzzy hello xyzzy\n"
    await real.source.patch(CONFIGMAPS, "words", {"data": {"greeting": "changed"}}, place)
    await real.source.patch(SECRETS, "words", {"stringData": {"password": "plugh"}}, place)
    for pod in pods:

        async def arrived(pod: str = pod) -> bool:
            return await inside(real, place, pod, script) == "changedplugh hello xyzzy\n"

        await real.until(f"the edits are in the files of {pod}", arrived, about=place, seconds=PATIENCE_SECONDS)


async def test_a_rolling_update_loses_no_request(real: Fleet, place: str) -> None:
    old = named(await ready(real, place, REPLICAS))
    again = {"spec": {"template": {"metadata": {"annotations": {"example.test/again": "1"}}}}}
    await real.source.patch(DEPLOYMENTS, "web", again, place)

    async def replaced() -> bool:
        pods = await real.pods(place, "web")
        return len(pods) == REPLICAS and not named(pods) & old and all(map(shared.is_ready, pods))

    await real.until("all pods are new", replaced, about=place, seconds=PATIENCE_SECONDS)
    await answered_by(real, place, named(await ready(real, place, REPLICAS)))
    await none_failed(real, place)


async def test_scaling_down_loses_no_request(real: Fleet, place: str) -> None:
    await real.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS // 2}}, place)
    pods = await ready(real, place, REPLICAS // 2)
    await shared.known_everywhere(real, place, "web", REPLICAS // 2)
    await answered_by(real, place, named(pods))
    await real.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": REPLICAS}}, place)
    await answered_by(real, place, named(await ready(real, place, REPLICAS)))
    await none_failed(real, place)


async def test_the_loss_of_one_targets_pods_loses_no_request(real: Fleet, place: str) -> None:
    lost = {pod["metadata"]["uid"]: pod for cluster, pod in (await real.delegates(place)).values() if cluster == "us"}
    assert lost
    for uid, pod in lost.items():
        await real.clients["us"].delete(PODS, pod["metadata"]["name"], place, uid=uid)

    async def others() -> bool:
        found = {pod["metadata"]["uid"] for _, pod in (await real.delegates(place)).values()}
        return not found & lost.keys()

    await real.until("they are gone", others, about=place, seconds=PATIENCE_SECONDS)
    pods = await ready(real, place, REPLICAS)
    await shared.known_everywhere(real, place, "web", REPLICAS)
    await answered_by(real, place, named(pods))
    await none_failed(real, place)


async def test_the_abrupt_loss_of_a_target_costs_requests_until_its_endpoints_are_not_ready(
    real: Fleet, place: str
) -> None:
    """As that of a node does in one cluster: those who were sent there wait in vain, nobody else."""
    pods = named(await ready(real, place, REPLICAS))
    lost = [pod["status"]["podIP"] for cluster, pod in (await real.delegates(place)).values() if cluster == "us"]
    await real.sandbox.set_link("us", up=False)
    try:
        for cluster in ("cd", "eu"):

            async def without(cluster: str = cluster) -> bool:
                return not set(await shared.ready(real, place, "web", cluster)) & set(lost)

            async def well(cluster: str = cluster) -> bool:
                return all(line.startswith("ok") for line in (await log(real, place, cluster))[-MANY_ANSWERS:])

            await real.until(f"{cluster} sends nothing to us", without, about=place)
            await real.until(f"the client in {cluster} has answers only", well, about=place)
            assert any(line.startswith("failed") for line in await log(real, place, cluster)), "nothing was lost"
    finally:
        await real.sandbox.set_link("us", up=True)
    await shared.known_everywhere(real, place, "web", REPLICAS)
    assert named(await ready(real, place, REPLICAS)) == pods, "nothing was made anew for a short loss"
    await answered_by(real, place, pods)


async def test_a_pod_that_asks_talks_to_the_api_of_its_source(real: Fleet, place: str) -> None:
    marks = {ELECT: "", SHORT_PREFIX + SOURCE_API: "true"}
    container = {"name": "main", **IMAGE, "command": ["sleep", "100000"]}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    await real.source.create(PODS, {"metadata": {"name": "robot", "annotations": marks}, "spec": spec}, place)
    robot = await real.until("the pod runs", lambda: running(real, place, "robot"), about=place)
    assert robot["spec"]["nodeName"].startswith("admiralty-")
    host, port = (await inside(real, place, "robot", "echo $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT")).split()
    server = f"https://{host}:{port}"
    assert server == real.sandbox["cd"].server
    await inside(real, place, "robot", f"nc -w 2 {host} {port} </dev/null")
    files = {name: await inside(real, place, "robot", f"cat {SERVICE_ACCOUNT_MOUNT}/{name}") for name in FILES}
    assert files["namespace"] == place
    text = kubeconfig.render("cd", server, files["ca.crt"].encode(), token=files["token"])
    async with Session(parse(text.encode(), None)) as session:
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{place}:default"):
            await Client(session).list(SECRETS, place)


async def running(fleet: Fleet, namespace: str, name: str) -> Raw:
    """The pod, {} while it does not run."""
    pod = await fleet.source.get(PODS, name, namespace)
    return pod if pod["status"].get("phase") == "Running" else {}


async def test_clients_have_asked_all_the_while(real: Fleet, place: str) -> None:
    """A count of answers, so that what stands above means something."""
    for cluster in CLUSTERS:
        answers = [line for line in await log(real, place, cluster) if re.match(r"ok web-\w+-\w+$", line)]
        assert len(answers) > 500
