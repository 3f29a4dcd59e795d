"""No object that a user can create stops the event loop of an agent, however long its lists and maps are.

Two whole agents, of a source and of its target, run on the event loop of the test, against real API servers. For
each object of the table, the test creates it, waits until the agents are idle, deletes it, and waits again. The rows
are in `tests/large_objects.py`.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from agent import app
from agent.api import names
from agent.api.kinds import CONFIGMAPS, NAMESPACES, PODS, SECRETS, Kind
from agent.kube.client import Client
from agent.kube.errors import NotFound, StatusError
from agent.model.proxypod import InvalidPod, proxy_pod
from agent.settings import Settings
from hack.lab.sandbox.objects import connect
from tests import large_objects
from tests.controllers.pair import Pair
from tests.controllers.target_links import add, condition, kubeconfig
from tests.runtime.test_health import free_port
from tests.stalls import StallWatch
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

Raw = dict[str, Any]
Row = tuple[str, Kind, Raw]
"""Field, kind, object."""

EVERYTHING = {"moves": True, "service_links": True, "mcs": True, "gateway": True}
_ANSWER_SECONDS = 60.0
"""Timeout in seconds: API servers need long for thousands of items on a busy machine."""
_REST_SECONDS = 0.5
_IDLE = 0.3
"""Share of a core that two idle agents may use."""
_PATIENCE_SECONDS = 40.0


@contextlib.asynccontextmanager
async def agents(pair: Pair) -> AsyncIterator[Client]:
    """Run two agents with a ready target `eu`; yield a client of the source with a long timeout."""
    tasks = []
    for cluster, name in zip(pair.clusters, ("here", "there"), strict=True):
        settings = Settings(
            kubeconfig=str(cluster.kubeconfig),
            namespace=pair.namespace,
            cluster_name=name,
            identity=name,
            node_address="127.0.0.1",
            health_address=f"127.0.0.1:{free_port()}",
            **EVERYTHING,
        )
        tasks.append(asyncio.create_task(app.run(settings)))
    client = connect(pair.clusters[0].kubeconfig, timeout=_ANSWER_SECONDS)
    try:
        await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
        await condition(pair.here, pair.namespace, "eu", "Ready", "True")
        async with client.session:
            yield client
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def proxied(pod: Raw) -> Raw | None:
    """Return the proxy pod, checked only as far as the webhook has to read it; None if the webhook cannot read it."""
    try:
        return proxy_pod(pod, [names.finalizer(pod["metadata"]["namespace"], "eu")])
    except InvalidPod:
        return None


async def at_rest() -> None:
    """Wait until the agents have nothing left to do, at most _PATIENCE_SECONDS: they retry some objects for ever."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while True:
                before = time.process_time()
                await asyncio.sleep(_REST_SECONDS)
                if time.process_time() - before < _IDLE * _REST_SECONDS:
                    return


async def is_noticed(client: Client, kind: Kind, obj: Raw) -> bool:
    """Return whether the agents have handled a proxy pod; other objects carry no trace of it."""
    if kind != PODS or obj["spec"].get("schedulingGates"):
        return True
    found = await client.get(PODS, obj["metadata"]["name"], obj["metadata"]["namespace"])
    return bool(found["spec"].get("nodeName") or found.get("status", {}).get("conditions"))


async def lives(client: Client, kind: Kind, obj: Raw) -> str:
    """Create an object, wait until the agents are idle, and delete it. Return the reason if it cannot be created."""
    namespace, name = obj["metadata"]["namespace"], obj["metadata"]["name"]
    body = msgspec.json.encode(obj)
    try:
        await client.session.request("POST", kind.path(namespace), body=body)
    except StatusError as error:
        return f"{error}"[:300]
    await until(lambda: is_noticed(client, kind, obj), 3 * _PATIENCE_SECONDS, what=f"{kind} {name} is noticed")
    await at_rest()
    await client.delete(kind, name, namespace, grace=0 if kind == PODS else None)
    await at_rest()
    with contextlib.suppress(NotFound):
        await client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
    return ""


async def flaws(client: Client, rows: Sequence[Row]) -> tuple[list[str], list[str]]:
    """Return stalls of the event loop, and refusals of the API server, while the agents handled each object."""
    stalled, refused = [], []
    for field, kind, obj in rows:
        async with StallWatch() as watch:
            reason = await lives(client, kind, obj)
        # pytest shows it if the test fails.
        print(f"{watch.longest:.3f} s, {watch.memory >> 20} MiB: {field} {reason}", flush=True)
        stalled += [f"{field}: {watch.flaw()}"] if watch.flaw() else []
        refused += [f"{field}: {reason}"] if reason else []
    return stalled, refused


@pytest.mark.seldom
async def test_pods_of_the_largest_size_leave_the_loop_free(pair: Pair) -> None:
    made = {
        field: proxied(build(pair.namespace, f"pod-{index}"))
        for index, (field, build) in enumerate(large_objects.PODS.items())
    }
    async with agents(pair) as client:
        # Some rows are for the webhook alone: it reads pods before the API server has validated them.
        stalled, _ = await flaws(client, [(field, PODS, pod) for field, pod in made.items() if pod])
        assert stalled == []


@pytest.mark.full("It takes a minute of CPU time, and tests without agents send the largest pods already.")
async def test_other_objects_of_the_largest_size_leave_the_loop_free(pair: Pair) -> None:
    rows = [
        (field, kind, build(pair.namespace, f"large-{index}"))
        for index, (field, (kind, build)) in enumerate(large_objects.OTHERS.items())
    ]
    named = [(kind.name, obj["metadata"]["name"]) for _, kind, obj in rows if kind in (CONFIGMAPS, SECRETS)]
    asks = dict.fromkeys((names.FOLLOW_ROLES, names.FOLLOW_POLICIES, names.SHARE_SERVICES), "true")
    annotations = {names.SHORT_PREFIX + suffix: value for suffix, value in asks.items()}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": {"annotations": annotations}})
    pod = proxied(large_objects.companion(pair.namespace, named))
    assert pod is not None
    async with agents(pair) as client:
        await client.create(PODS, pod)
        await until(lambda: is_noticed(client, PODS, pod), what="the companion has a node")
        assert await flaws(client, rows) == ([], [])
