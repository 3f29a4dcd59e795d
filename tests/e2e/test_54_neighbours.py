"""Promise 54: a target decides what pods of others may contain, and a source what a target may say."""

from typing import Any

from agent.api.kinds import EVENTS, PODS, SOURCES, TARGETS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition

Raw = dict[str, Any]


async def allow(fleet: Fleet, namespace: str, target: str, policy: Raw | None) -> None:
    """Give the Source of a namespace in a target a policy, and wait until the agent there has seen it."""
    client = fleet.clients[target]
    generation = (await client.patch(SOURCES, "cd", {"spec": {"policy": policy}}, namespace))["metadata"]["generation"]

    async def seen() -> bool:
        ready = condition(await client.get(SOURCES, "cd", namespace), "Ready")
        return bool(ready.get("observedGeneration") == generation)

    await fleet.until(f"{target} has seen the policy", seen, about=namespace)


async def waits(fleet: Fleet, namespace: str, name: str, *why: str) -> None:
    """Wait until a proxy pod says why it has no place."""

    async def said() -> bool:
        scheduled = condition(await fleet.source.get(PODS, name, namespace), "PodScheduled")
        message = scheduled.get("message", "")
        return scheduled.get("status") == "False" and all(each in message for each in why)

    await fleet.until(f"pod {name} says {why}", said, about=namespace)


async def where(fleet: Fleet, namespace: str, name: str) -> tuple[str, Raw]:
    """The cluster and the delegate of a pod, once it runs."""
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
    """Give the container of pod web another image."""
    containers = [{"name": "main", "image": image}]
    await fleet.source.patch(PODS, "web", {"spec": {"containers": containers}}, namespace, style="strategic")
