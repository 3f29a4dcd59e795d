"""Promise 67: fenced pods that must not run twice are replaced without a person's consent, and never run twice.

The audit log of the target that is cut off shows when its agent has stopped them."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from agent.api.kinds import CHAPERONS, LEASES, NAMESPACES, PODS, SOURCES
from agent.api.names import LABEL_PARENT_UID, SHORT_PREFIX, chaperon, fencing, lifecycle, moves, virtual_node
from agent.api.roles import OPTIONAL_FEATURES
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from hack.lab.soak import audit
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition, token_of
from tests.e2e.manifests import STATEFULSETS
from tests.e2e.test_57_roles import client_of

Raw = dict[str, Any]

GRACE = 1
FENCED, WAITING = "db", "cache"
TARGETS, FAILOVER = (SHORT_PREFIX + each for each in (moves.TARGETS, lifecycle.FAILOVER_AFTER))


async def test_a_fenced_stateful_set_is_replaced_when_its_target_is_cut_off_and_another_waits(
    fleet: Fleet, namespace: str
) -> None:
    marks = {TARGETS: "us", FAILOVER: "10s"}
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": marks}})
    for cluster in ("us", "eu"):
        await fleet.clients[cluster].patch(SOURCES, "cd", {"spec": {"allow": list(OPTIONAL_FEATURES)}}, namespace)
    for name, annotations in ((FENCED, {SHORT_PREFIX + fencing.FENCE: fencing.LEASE}), (WAITING, {})):
        made = manifests.stateful_set(name, 2 if name == FENCED else 1)
        made["metadata"]["annotations"] = annotations
        made["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE
        await fleet.source.create(STATEFULSETS, made, namespace)
    before = {**await running(fleet, namespace, FENCED, "us", 2), **await running(fleet, namespace, WAITING, "us", 1)}
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": {TARGETS: "us > eu"}}})

    async def kept() -> bool:
        pods = await fleet.pods(namespace, FENCED)
        return all(pod["metadata"]["annotations"].get(fencing.ANNOTATION_KEPT) == "5" for pod in pods)

    await fleet.until("the target keeps the fence", kept, about=namespace, seconds=60)
    await fleet.sandbox.set_link("us", up=False)
    try:
        after = await running(fleet, namespace, FENCED, "eu", 2)
        assert await left_in_us(fleet, namespace) == {chaperon(f"{WAITING}-0", before[f"{WAITING}-0"])}
        stopped = stops(fleet, namespace)
        for name, uid in after.items():
            delegate = await fleet.clients["eu"].get(PODS, chaperon(name, uid), namespace)
            began = datetime.fromisoformat(delegate["metadata"]["creationTimestamp"])
            assert stopped[chaperon(name, before[name])] + timedelta(seconds=GRACE) < began
        (waits,) = await fleet.pods(namespace, WAITING)
        assert waits["metadata"]["uid"] == before[f"{WAITING}-0"]
        assert condition(waits, moves.CONDITION).get("reason") == "IdentityMayRun"
    finally:
        await fleet.sandbox.set_link("us", up=True)
    await fleet.until("us has nothing left of them", lambda: is_tidy(fleet, namespace), about=namespace, seconds=90)
    assert await running(fleet, namespace, FENCED, "eu", 2) == after
    await running(fleet, namespace, WAITING, "us", 1)


async def running(fleet: Fleet, namespace: str, app: str, target: str, count: int) -> dict[str, str]:
    """Wait until all pods of an application run in a target. Return their UIDs by name."""

    async def there() -> dict[str, str]:
        pods = await fleet.pods(namespace, app)
        done = all(
            pod["spec"].get("nodeName") == virtual_node(namespace, target)
            and condition(pod, "Ready").get("status") == "True"
            and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        )
        return {each["metadata"]["name"]: each["metadata"]["uid"] for each in pods if done and len(pods) == count}

    found: dict[str, str] = await fleet.until(f"{app} runs in {target}", there, about=namespace, seconds=150)
    return found


async def left_in_us(fleet: Fleet, namespace: str) -> set[str]:
    """Return the names of the delegates in `us`, read with its own kubectl."""
    text = await fleet.kubectl("us", "get", "pods", f"--namespace={namespace}", f"-l{LABEL_PARENT_UID}", "-ojson")
    return {pod["metadata"]["name"] for pod in json.loads(text)["items"]}


def stops(fleet: Fleet, namespace: str) -> dict[str, datetime]:
    """Return the time of the agent's first delete request in `us` for each delegate, by name."""
    found: dict[str, datetime] = {}
    for one in audit.read(fleet.sandbox.directory / "us"):
        what = one.object_ref
        if (one.verb, what.resource, what.namespace) == ("delete", "pods", namespace):
            found.setdefault(what.name, datetime.fromisoformat(one.request_received_timestamp))
    return found


async def is_tidy(fleet: Fleet, namespace: str) -> bool:
    """Return True if `us` has the pod that waited, and neither other chaperons nor fence Leases."""
    us = fleet.clients["us"]
    found = {each["metadata"]["name"] for each in await us.list(CHAPERONS, namespace)}
    leases = [each for each in await us.list(LEASES, namespace) if fencing.LABEL_FENCE in each["metadata"]["labels"]]
    return len(found) == 1 and next(iter(found)).startswith(f"{WAITING}-0-") and not leases


@pytest.mark.full("A variant of the test of a fenced StatefulSet.")
async def test_a_source_writes_no_leases_but_those_of_fences(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        us = fleet.clients["us"]
        source = client_of(fleet, "us", "fenced-source", await token_of(us, "cd", namespace))
        async with source.session:
            for name in (f"{fencing.LEASE_PREFIX}a", "leader-of-somebody"):
                assert not await writes(source, namespace, name)
            await us.patch(SOURCES, "cd", {"spec": {"allow": ["fence"]}}, namespace)

            async def may() -> bool:
                return await writes(source, namespace, f"{fencing.LEASE_PREFIX}a")

            await fleet.until("it may write its own", may, about=namespace)
            assert not await writes(source, namespace, "leader-of-somebody")
            await us.delete(LEASES, f"{fencing.LEASE_PREFIX}a", namespace)


async def writes(client: Client, namespace: str, name: str) -> bool:
    """Return True if the client may create a Lease of that name."""
    try:
        await client.create(LEASES, {"metadata": {"name": name}, "spec": {}}, namespace)
    except Forbidden:
        return False
    return True
