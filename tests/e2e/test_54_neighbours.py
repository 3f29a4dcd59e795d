"""Promise 54: a target limits what pods of sources may contain, and a source limits what a target may report."""

import asyncio
import contextlib
import functools
import re
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SOURCES, EVENTS, NODES, PODS, SERVICE_ACCOUNTS, SERVICES, SOURCES, TARGETS
from agent.api.names import virtual_node
from agent.kube.errors import NotFound
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.test_10_self_target import home

Raw = dict[str, Any]

FOREIGN = "203.0.113.7"
STAYS, COMES = "prometheus.io/port", "k8s.v1.cni.cncf.io/status"
WARNINGS = 400


async def test_a_pod_does_not_get_the_rights_of_a_source_by_naming_its_account(fleet: Fleet) -> None:
    # Any user of the source's namespace can read the name in a "forbidden" message and create such an account.
    async with fleet.namespace(("us",)) as namespace:
        await fleet.source.create(SERVICE_ACCOUNTS, {"metadata": {"name": "cd"}}, namespace)
        ranked, reserved = manifests.pod("ranked"), manifests.pod("reserved")
        reserved["metadata"]["annotations"][names.SHORT_PREFIX + names.SCHEDULING] = "reserve"
        for pod in (ranked, reserved):
            pod["spec"]["serviceAccountName"] = "cd"
            await fleet.source.create(PODS, pod, namespace)
        source = f"Source {namespace}/cd: spec.serviceAccountName: cd is the account by which its source acts"
        for name in ("ranked", "reserved"):
            await waits(fleet, namespace, name, source, "have the pod name another service account")
        assert await fleet.clients["us"].list(PODS, namespace) == []


async def allow(fleet: Fleet, namespace: str, target: str, policy: Raw | None) -> None:
    """Set the policy of a namespace's Source in a target and wait until the target's agent has observed it."""
    client = fleet.clients[target]
    generation = (await client.patch(SOURCES, "cd", {"spec": {"policy": policy}}, namespace))["metadata"]["generation"]

    async def seen() -> bool:
        ready = condition(await client.get(SOURCES, "cd", namespace), "Ready")
        return bool(ready.get("observedGeneration") == generation)

    await fleet.until(f"{target} has seen the policy", seen, about=namespace)


async def waits(fleet: Fleet, namespace: str, name: str, *why: str) -> None:
    """Wait until a proxy pod is unscheduled and its condition contains all these texts."""

    async def said() -> bool:
        scheduled = condition(await fleet.source.get(PODS, name, namespace), "PodScheduled")
        message = scheduled.get("message", "")
        return scheduled.get("status") == "False" and all(each in message for each in why)

    await fleet.until(f"pod {name} says {why}", said, about=namespace)


async def where(fleet: Fleet, namespace: str, name: str) -> tuple[str, Raw]:
    """Return the cluster and the delegate of a pod, once the pod runs."""
    (proxy,) = await fleet.running(namespace, name, 1)
    return (await fleet.delegates(namespace))[proxy["metadata"]["uid"]]


async def test_a_pod_that_one_target_does_not_allow_runs_in_another(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await allow(fleet, namespace, "us", {"hostNamespaces": False, "imagePrefixes": ["docker.io/library"]})
        fits = manifests.pod("fits")
        fits["spec"]["containers"][0]["image"] = "docker.io/library/busybox:1"
        host = manifests.pod("host", hostNetwork=True)
        for pod in (fits, host, manifests.pod("short")):
            await fleet.source.create(PODS, pod, namespace)
        await fleet.running(namespace, "fits", 1)
        source = f"Source {namespace}/cd does not allow it"
        await waits(fleet, namespace, "host", source, "spec.policy.hostNamespaces", "spec.hostNetwork")
        await waits(fleet, namespace, "short", source, "spec.policy.imagePrefixes", "names no registry")
        await fleet.join(namespace, "eu")
        for name in ("host", "short"):
            assert (await where(fleet, namespace, name))[0] == "eu"


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_what_no_target_allows_is_said_on_the_proxy_pod_until_it_is_allowed(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await allow(fleet, namespace, "us", {"privileged": False, "hostPaths": False})
        root = {"name": "root", "hostPath": {"path": "/"}}
        await fleet.source.create(PODS, manifests.pod("root", volumes=[root]), namespace)
        setup = {"name": "setup", "image": "busybox", "securityContext": {"privileged": True}}
        await fleet.source.create(PODS, manifests.pod("setup", initContainers=[setup]), namespace)
        source = f"Source {namespace}/cd does not allow it"
        await waits(fleet, namespace, "root", source, "spec.policy.hostPaths", "volume root", "ask the administrator")
        await waits(fleet, namespace, "setup", source, "spec.policy.privileged", "container setup")
        assert await fleet.clients["us"].list(PODS, namespace) == []
        await allow(fleet, namespace, "us", None)
        for name in ("root", "setup"):
            await fleet.running(namespace, name, 1)


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_a_cluster_sources_policy_counts_in_all_namespaces_and_for_a_clusters_own_pods(
    fleet: Fleet, namespace: str
) -> None:
    name, host = f"strict-{namespace}", {"hostNetwork": True}
    spec = {"userName": name, "policy": {"hostNamespaces": False}}
    clusters = ("cd", "us", "eu")
    await home(fleet, namespace)
    try:
        for cluster in clusters:
            made = manifests.ours("ClusterSource", name, None, spec)
            await fleet.clients[cluster].create(CLUSTER_SOURCES, made)
        for cluster in clusters:
            seen = functools.partial(is_bound, fleet, cluster, name)
            await fleet.until(f"{cluster} has seen the policy", seen)
        at_home = {"nodeSelector": {manifests.REGION: "cd"}}
        await fleet.source.create(PODS, manifests.pod("away", **host), namespace)
        await fleet.source.create(PODS, manifests.pod("own", **host, **at_home), namespace)
        source = f"ClusterSource {name} does not allow it"
        for pod in ("away", "own"):
            await waits(fleet, namespace, pod, source, "spec.policy.hostNamespaces", "spec.hostNetwork")
        for cluster in clusters:
            await fleet.clients[cluster].patch(CLUSTER_SOURCES, name, {"spec": {"policy": None}})
        for pod in ("away", "own"):
            await fleet.running(namespace, pod, 1)
    finally:
        for cluster in clusters:
            with contextlib.suppress(NotFound):
                await fleet.clients[cluster].delete(CLUSTER_SOURCES, name)


async def is_bound(fleet: Fleet, cluster: str, name: str) -> bool:
    """Return True if an agent has set a ClusterSource Ready."""
    found = await fleet.clients[cluster].get(CLUSTER_SOURCES, name)
    return bool(condition(found, "Ready").get("status") == "True")


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_an_image_that_a_policy_does_not_allow_stays_away_from_a_running_pod(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await fleet.source.create(PODS, manifests.pod("web"), namespace)
        _, delegate = await where(fleet, namespace, "web")
        await allow(fleet, namespace, "us", {"imagePrefixes": ["docker.io/library"]})
        await change(fleet, namespace, "docker.io/library-evil/busybox")

        async def told() -> bool:
            about = "involvedObject.kind=Pod,involvedObject.name=web,reason=FailedUpdate"
            events = await fleet.source.list(EVENTS, namespace, fields=about)
            return any("spec.policy.imagePrefixes" in event["message"] for event in events)

        await fleet.until("the refusal comes home", told, about=namespace)
        now = await fleet.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
        assert now["spec"]["containers"][0]["image"] == "busybox"
        await change(fleet, namespace, "docker.io/library/busybox:2")

        async def changed() -> bool:
            found = await fleet.clients["us"].get(PODS, delegate["metadata"]["name"], namespace)
            return bool(found["spec"]["containers"][0]["image"] == "docker.io/library/busybox:2")

        await fleet.until("the image within the policy arrives", changed, about=namespace)


async def change(fleet: Fleet, namespace: str, image: str) -> None:
    """Change the image of the container of pod `web`."""
    containers = [{"name": "main", "image": image}]
    await fleet.source.patch(PODS, "web", {"spec": {"containers": containers}}, namespace, style="strategic")


def ranges(fleet: Fleet, target: str) -> list[str]:
    """Return the address ranges of a target's pods."""
    (plan,) = (each for each in fleet.sandbox.plan.clusters if each.name == target)
    return [*plan.fake_pod_ranges, *plan.pod_ranges]


async def test_addresses_outside_a_targets_ranges_stay_away_and_its_status_comes(fleet: Fleet, namespace: str) -> None:
    us = ranges(fleet, "us")
    await fleet.source.patch(TARGETS, "us", {"spec": {"podCIDRs": us}}, namespace)
    await fleet.source.create(SERVICES, shared.service("web"), namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 2), namespace)
    await fleet.running(namespace, "web", 2)
    await shared.known_everywhere(fleet, namespace, "web", 2)
    uid, delegate = next((uid, pod) for uid, (at, pod) in (await fleet.delegates(namespace)).items() if at == "us")
    status = {"podIP": FOREIGN, "podIPs": [{"ip": FOREIGN}], "message": "elsewhere now"}
    name = delegate["metadata"]["name"]
    await fleet.clients["us"].patch(PODS, name, {"status": status}, namespace, sub="status")

    async def proxy(says: str) -> Raw:
        (found,) = (pod for pod in await fleet.pods(namespace, "web") if pod["metadata"]["uid"] == uid)
        return found if found["status"].get("podIP", "") == says else {}

    found = await fleet.until("the address is left out", lambda: proxy(""), about=namespace)
    assert (found["status"]["phase"], found["status"]["message"]) == ("Running", "elsewhere now")
    left_out = condition(found, "multicluster/PodIPsAllowed")
    assert FOREIGN in left_out["message"]
    assert FOREIGN in await shared.warned(fleet, namespace, "web", "EndpointsBlocked")
    for cluster in ("cd", "eu"):
        assert FOREIGN not in await shared.ready(fleet, namespace, "web", cluster)

    await fleet.source.patch(TARGETS, "us", {"spec": {"podCIDRs": [*us, "203.0.113.0/24"]}}, namespace)
    found = await fleet.until("the address is inside now", lambda: proxy(FOREIGN), about=namespace)
    assert condition(found, "multicluster/PodIPsAllowed") == {}
    await shared.known_everywhere(fleet, namespace, "web", 2)


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_labels_that_speak_of_this_clusters_nodes_are_not_taken_from_a_target(fleet: Fleet) -> None:
    reserved = ("node-role.kubernetes.io/control-plane", "team.node-restriction.kubernetes.io/secure")
    said = {**dict.fromkeys(reserved, "x"), "e2e/rack": "r1"}
    us = fleet.clients["us"]
    nodes = [node["metadata"]["name"] for node in await us.list(NODES)]
    async with fleet.namespace(("us",)) as namespace:

        async def labels(rack: str | None) -> Raw:
            found = (await fleet.source.get(NODES, virtual_node(namespace, "us")))["metadata"]["labels"]
            return dict(found) if found.get("e2e/rack") == rack else {}

        try:
            await asyncio.gather(*(us.patch(NODES, node, {"metadata": {"labels": said}}) for node in nodes))
            found = await fleet.until("the other label comes", lambda: labels("r1"), about=namespace)
            assert not set(reserved) & found.keys()
        finally:
            undo = {"metadata": {"labels": dict.fromkeys(said)}}
            await asyncio.gather(*(us.patch(NODES, node, undo) for node in nodes))
        await fleet.until("all is as it was", lambda: labels(None), about=namespace)


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_an_annotation_that_others_act_upon_does_not_come_home(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await fleet.source.create(PODS, manifests.pod("web"), namespace)
        _, delegate = await where(fleet, namespace, "web")
        said = {"metadata": {"annotations": {STAYS: "9", COMES: "9"}}}
        await fleet.clients["us"].patch(PODS, delegate["metadata"]["name"], said, namespace)

        async def annotations() -> Raw:
            found = (await fleet.source.get(PODS, "web", namespace))["metadata"]["annotations"]
            return dict(found) if found.get(COMES) == "9" else {}

        assert STAYS not in await fleet.until("the other annotation comes home", annotations, about=namespace)


@pytest.mark.full("A variant of the tests of a policy and of foreign addresses.")
async def test_a_target_with_more_warnings_than_its_allowance_is_cut_short(fleet: Fleet) -> None:
    async with fleet.namespace(("us",)) as namespace:
        await fleet.source.create(PODS, manifests.pod("web"), namespace)
        _, delegate = await where(fleet, namespace, "web")
        await asyncio.gather(*(warn(fleet, delegate, number) for number in range(WARNINGS)))
        counted = re.compile(rf'flotilla_delegate_events_dropped_total{{target="{namespace}/us"}} (\d+)')

        async def all_counted() -> int:
            dropped = counted.search(await fleet.metrics("cd"))
            told = await fleet.source.list(EVENTS, namespace, fields="involvedObject.name=web,reason=Flood")
            return len(told) if dropped and len(told) + int(dropped[1]) >= WARNINGS else 0

        told = await fleet.until("every warning is told or counted", all_counted, about=namespace)
        assert told < WARNINGS
        assert "event-rate" in await shared.warned(fleet, namespace, "us", "EventsDropped")


async def warn(fleet: Fleet, pod: Raw, number: int) -> None:
    """Create a Warning event about a delegate in `us`."""
    metadata = pod["metadata"]
    about = {field: metadata[field] for field in ("name", "namespace", "uid")}
    event = {
        "metadata": {"name": f"flood-{number}"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
        "type": "Warning",
        "reason": "Flood",
        "message": f"warning {number}",
    }
    await fleet.clients["us"].create(EVENTS, event, metadata["namespace"])
