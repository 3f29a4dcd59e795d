"""Promise 36: kubectl reaches the pods of a Service as in a plain cluster, wherever they run.

The same manifests exist in a namespace with a target and in a plain one; each test uses both.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api.kinds import PODS, SERVICES
from tests.e2e import manifests, shared
from tests.e2e.debugging import IMAGE, Kubectl, page, until_forwarded
from tests.e2e.fleet import Fleet, on_virtual_node
from tests.e2e.manifests import DEPLOYMENTS, STATEFULSETS
from tests.e2e.test_11_elect_by_default import stock
from tests.runtime.test_health import free_port

pytestmark = [pytest.mark.realnodes]

Raw = dict[str, Any]
HELLO, UNREADY = "hello", "unready"
SERVES = "mkdir /w; echo hello > /w/index.html; echo up; httpd -f -p 8080 -h /w"
ELECTED = pytest.mark.parametrize("one", ["plain", "elected"], indirect=True)
PATIENCE_SECONDS = 120.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def places(fleet: Fleet) -> AsyncIterator[dict[str, str]]:
    """Namespaces by kind, each with a Service of a Deployment, and a headless Service whose pod is never ready."""
    async with fleet.namespace(("us",)) as elected, fleet.namespace((), enabled=False) as plain:
        for namespace in (elected, plain):
            for made in (hello(), unready()):
                kind = DEPLOYMENTS if made["kind"] == DEPLOYMENTS.name else STATEFULSETS
                await fleet.source.create(kind, made if namespace == elected else stock(made), namespace)
            await fleet.source.create(SERVICES, shared.service(HELLO), namespace)
            headless = shared.service(UNREADY, clusterIP="None", publishNotReadyAddresses=True)
            await fleet.source.create(SERVICES, headless, namespace)
        for namespace in (elected, plain):
            for app in (HELLO, UNREADY):
                (pod,) = await fleet.running(namespace, app, 1, seconds=PATIENCE_SECONDS)
                assert on_virtual_node(pod) is (namespace == elected)
        yield {"plain": plain, "elected": elected}


def hello() -> Raw:
    """Return a Deployment of a pod that logs a line and serves a page."""
    made = manifests.deployment(HELLO, 1, terminationGracePeriodSeconds=1)
    return _with(made, ["sh", "-c", SERVES], ports=[{"containerPort": 8080}])


def unready() -> Raw:
    """Return a StatefulSet of a pod that runs and is never ready."""
    made = manifests.stateful_set(UNREADY, 1)
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 2}
    return _with(made, ["sleep", "100000"], readinessProbe=probe)


def _with(made: Raw, command: list[str], **more: Any) -> Raw:
    made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 1
    container = {"name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": command, **more}
    made["spec"]["template"]["spec"]["containers"] = [container]
    return made


@pytest.fixture
def one(request: pytest.FixtureRequest, fleet: Fleet, places: dict[str, str]) -> Kubectl:
    """kubectl in the plain or the elected namespace."""
    return Kubectl(fleet.sandbox.plan.programs["kubectl"], fleet.sandbox["cd"].kubeconfig, places[request.param])


async def pod_of(fleet: Fleet, one: Kubectl, app: str) -> Raw:
    """Return the only pod of an app."""
    (found,) = await fleet.source.list(PODS, one.namespace, labels=f"app={app}")
    return found


@ELECTED
async def test_logs_and_exec_find_a_pod_of_the_service(fleet: Fleet, one: Kubectl) -> None:
    pod = await pod_of(fleet, one, HELLO)
    async with asyncio.timeout(60):
        assert (await one("logs", f"svc/{HELLO}")).strip() == "up"
        assert (await one("exec", f"svc/{HELLO}", "--", "hostname")).strip() == pod["metadata"]["name"]


@ELECTED
async def test_a_port_of_the_service_is_forwarded(one: Kubectl) -> None:
    port = free_port()
    process = await one.start("port-forward", f"svc/{HELLO}", f"{port}:80")
    try:
        async with asyncio.timeout(30):
            await until_forwarded(process, 1)
            assert (await page(port)).endswith(b"hello\n")
    finally:
        process.kill()
        await process.communicate()


@ELECTED
async def test_endpoints_and_slices_refer_to_the_pod_and_its_node(fleet: Fleet, one: Kubectl) -> None:
    for app in (HELLO, UNREADY):
        pod = await pod_of(fleet, one, app)
        address = pod["status"]["podIP"]

        async def listed(app: str = app, address: str = address) -> bool:
            return f"{address}:8080" in await one("get", "endpoints", app)

        await fleet.until(f"kubectl lists the endpoints of {app}", listed, about=one.namespace)
        (endpoint,) = [
            each
            for slice in await shared.slices(fleet, one.namespace, app, "cd")
            for each in slice.get("endpoints") or ()
        ]
        assert endpoint["addresses"] == [address]
        assert endpoint["conditions"]["ready"]
        assert (endpoint["targetRef"]["kind"], endpoint["targetRef"]["name"]) == ("Pod", pod["metadata"]["name"])
        assert endpoint["nodeName"] == pod["spec"]["nodeName"]
