"""A Deployment of six real pods that exit immediately on SIGTERM, and ways to delete or move them."""

from typing import Any

from agent.api.kinds import NAMESPACES
from agent.api.kinds import TARGETS as TARGETS_KIND
from agent.api.names import PREFIX, SHORT_PREFIX
from agent.api.names.lifecycle import RETIRE
from tests.e2e import shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, ELECT

Raw = dict[str, Any]
IMAGE = {"image": "flotilla.local/busybox:1", "imagePullPolicy": "Never"}
REPLICAS, SURGE = 6, 2
HEADLESS = "web-headless"
"""Name of the headless Service in front of the same pods."""
SERVE = """
mkdir /www; hostname > /www/index.html; httpd -f -p 8080 -h /www &
trap "kill -9 $!; exit 143" TERM; wait
"""
"""Exits immediately on SIGTERM, and drops requests in progress."""
NO_HURRY = {"timeoutSeconds": 30, "failureThreshold": 10}
GRACE = 60
"""Seconds; long enough for the agents' pause before a pod ends."""
TARGETS = SHORT_PREFIX + "targets"
PATIENCE_SECONDS = 600.0


def web(name: str = "web", replicas: int = REPLICAS) -> Raw:
    """Return a Deployment whose pods answer with their name."""
    container = {
        "name": "main",
        **IMAGE,
        "command": ["sh", "-c", SERVE],
        # These tests are about pods that end, not about pods that are slow on a busy machine.
        "readinessProbe": {"httpGet": {"port": 8080, "path": "/"}, "periodSeconds": 1, **NO_HURRY},
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": GRACE}
    template = {"metadata": {"labels": {"app": name}, "annotations": {ELECT: ""}}, "spec": spec}
    strategy = {"rollingUpdate": {"maxSurge": SURGE, "maxUnavailable": 0}}
    wanted = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "strategy": strategy}
    metadata = {"name": name, "labels": {"app": name}}
    return {"metadata": metadata, "spec": {**wanted, "template": template}}


def headless() -> Raw:
    """Return the headless Service in front of the pods of `web`."""
    made = shared.service("web", clusterIP="None")
    return {**made, "metadata": {"name": HEADLESS}}


async def say(fleet: Fleet, namespace: str, annotations: dict[str, str | None]) -> None:
    """Annotate the namespace in the source."""
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": annotations}})


async def retire(fleet: Fleet, namespace: str, target: str, value: str | None) -> None:
    """Annotate a Target as retiring, or remove the annotation."""
    body = {"metadata": {"annotations": {SHORT_PREFIX + RETIRE: value}}}
    await fleet.source.patch(TARGETS_KIND, target, body, namespace)


async def in_clusters(
    fleet: Fleet, namespace: str, clusters: set[str], count: int = REPLICAS, app: str = "web"
) -> set[str]:
    """Wait until an app has exactly `count` ready pods, all in `clusters` and published everywhere; return
    their names."""

    async def probe() -> list[Raw]:
        pods = await fleet.pods(namespace, app)
        delegates = await fleet.delegates(namespace)
        found = [delegates.get(pod["metadata"]["uid"], ("nowhere", {}))[0] for pod in pods]
        of_app = [pod for _, pod in delegates.values() if pod["metadata"]["labels"].get(PREFIX + "app") == app]
        right = len(pods) == len(of_app) == count and {*found} <= clusters
        return pods if right and all(map(shared.is_ready, pods)) else []

    where = " and ".join(sorted(clusters))
    pods = await fleet.until(f"{count} pods are ready in {where}", probe, about=namespace, seconds=PATIENCE_SECONDS)
    if app == "web" and len(await fleet.delegates(namespace)) == count:
        await shared.known_everywhere(fleet, namespace, "web", count)
    return {pod["metadata"]["name"] for pod in pods}


async def rolled_out(fleet: Fleet, namespace: str) -> set[str]:
    """Wait until all pods have the newest template; return their names."""

    async def probe() -> bool:
        found = await fleet.source.get(DEPLOYMENTS, "web", namespace)
        status = found["status"]
        counts = [status.get(field, 0) for field in ("updatedReplicas", "replicas", "availableReplicas")]
        return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [REPLICAS] * 3

    await fleet.until("the Deployment is rolled out", probe, about=namespace, seconds=PATIENCE_SECONDS)
    return await in_clusters(fleet, namespace, {"eu"})
