"""Helpers for tests of shared Services: Services, and endpoints in each cluster."""

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from agent.api import names
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    ENDPOINT_SLICES,
    EVENTS,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    TARGETS,
    Kind,
)
from agent.kube.errors import NotFound
from agent.model.service import is_native
from hack.lab.sandbox import kubeconfig
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, token_of
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]
CLUSTERS = ("cd", "us", "eu")
ROLE_OF_SUMMARY = "multicluster-scheduler-cluster-summary-viewer"
ROLES = Kind("rbac.authorization.k8s.io", "v1", "roles", "Role")


def service(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    """Return a Service that selects the pods of the app of the same name."""
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"selector": {"app": name}, "ports": ports, **spec},
    }


async def web(fleet: Fleet, namespace: str, replicas: int, **spec: Any) -> None:
    """Create a rerouted Service and its Deployment, whose delegates run in both targets."""
    await fleet.source.create(SERVICES, service("web", **spec), namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", replicas), namespace)
    await fleet.running(namespace, "web", replicas)


async def slices(fleet: Fleet, namespace: str, name: str, cluster: str) -> list[Raw]:
    """Return all EndpointSlices of a Service in a cluster."""
    labels = f"{names.LABEL_SERVICE_NAME}={name}"
    return await fleet.clients[cluster].list(ENDPOINT_SLICES, namespace, labels=labels)


async def ready(fleet: Fleet, namespace: str, name: str, cluster: str) -> list[str]:
    """Return the addresses to which a cluster routes a Service's traffic, sorted."""
    found = await slices(fleet, namespace, name, cluster)
    endpoints = [each for slice in found for each in slice.get("endpoints") or ()]
    return sorted({address for each in endpoints if each["conditions"]["ready"] for address in each["addresses"]})


async def addresses(fleet: Fleet, namespace: str, app: str = "") -> list[str]:
    """Return the pod IPs of ready delegates, sorted; of all apps if `app` is empty."""
    pods = [pod for _, pod in (await fleet.delegates(namespace)).values() if "deletionTimestamp" not in pod["metadata"]]
    of_app = [pod for pod in pods if app in ("", pod["metadata"]["labels"].get(names.PREFIX + "app"))]
    return sorted(pod["status"]["podIP"] for pod in of_app if is_ready(pod))


def is_ready(pod: Raw) -> bool:
    """Check that a pod is ready."""
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


async def known_everywhere(
    fleet: Fleet, namespace: str, name: str, count: int, clusters: Sequence[str] = CLUSTERS, *, app: str = ""
) -> None:
    """Wait until a Service's endpoints in all clusters are exactly the `count` ready delegates (of `app`,
    unless empty)."""

    async def probe() -> bool:
        want = await addresses(fleet, namespace, app)
        found = [await ready(fleet, namespace, name, cluster) for cluster in clusters]
        return len(want) == count and all(each == want for each in found)

    await fleet.until(f"{count} endpoints of {name} are known everywhere", probe, about=namespace)


async def has(fleet: Fleet, cluster: str, kind: Kind, namespace: str, name: str, fits: Callable[[Raw], Any]) -> Raw:
    """Wait until an object in a cluster fulfils `fits`, and return it."""

    async def probe() -> Raw | None:
        found = await fleet.clients[cluster].get(kind, name, namespace)
        return found if fits(found) else None

    found = await fleet.until(f"{kind.name} {name} in {cluster} is as it should be", probe, about=namespace)
    assert found is not None
    return found


async def is_gone(fleet: Fleet, cluster: str, kind: Kind, namespace: str, name: str) -> bool:
    """Check that an object does not exist in a cluster now."""
    try:
        await fleet.clients[cluster].get(kind, name, namespace)
    except NotFound:
        return True
    return False


async def gone(fleet: Fleet, kind: Kind, namespace: str, name: str, clusters: Sequence[str]) -> None:
    """Wait until an object has been deleted in all these clusters."""
    for cluster in clusters:
        probe = functools.partial(is_gone, fleet, cluster, kind, namespace, name)
        await fleet.until(f"{kind.name} {name} in {cluster} is gone", probe, about=namespace)


async def no_slices(fleet: Fleet, namespace: str, name: str, clusters: Sequence[str]) -> None:
    """Wait until clusters have no EndpointSlices that agents created for a Service."""

    async def probe() -> bool:
        found = [each for cluster in clusters for each in await slices(fleet, namespace, name, cluster)]
        return not [each for each in found if names.LABEL_ORIGIN in each["metadata"]["labels"]]

    await fleet.until(f"slices of {name} are gone", probe, about=namespace)


async def rerouted(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Wait until a Service selects only delegates."""
    want = {names.PREFIX + "app": name}
    return await has(fleet, "cd", SERVICES, namespace, name, lambda found: found["spec"]["selector"] == want)


async def marked(fleet: Fleet, namespace: str, name: str) -> Raw:
    """Wait until a Service is annotated as native: it keeps its user's selector, which selects proxy pods."""

    def fits(found: Raw) -> bool:
        is_users = found["spec"]["selector"] == {"app": name}
        return is_users and is_native(found["metadata"].get("annotations"))

    return await has(fleet, "cd", SERVICES, namespace, name, fits)


async def reroutes(fleet: Fleet, namespace: str, mode: str | None) -> None:
    """Annotate a namespace with whether its Services are rerouted; None removes the annotation."""
    annotations = {f"{names.SHORT_PREFIX}service-reroute": mode}
    await fleet.source.patch(NAMESPACES, namespace, {"metadata": {"annotations": annotations}})


async def warned(fleet: Fleet, namespace: str, name: str, reason: str) -> str:
    """Wait for a Warning event about an object, and return its message."""

    async def probe() -> str:
        events = await fleet.source.list(EVENTS, namespace, fields=f"involvedObject.name={name},reason={reason}")
        return events[0]["message"] if events else ""

    return await fleet.until(f"{reason} is told of {name}", probe, about=namespace)


async def apply(fleet: Fleet, namespace: str, manifest: Raw, *flags: str) -> str:
    """Run `kubectl apply` in the source."""
    path = fleet.sandbox.directory / f"{namespace}.json"
    path.write_text(json.dumps(manifest))
    return await fleet.kubectl("cd", "-n", namespace, "apply", *flags, "-f", str(path))


async def join_with(fleet: Fleet, namespace: str, target: str, rules: list[Raw]) -> None:
    """Create a Target that has only these rights in its cluster, plus reading the cluster's summary. No Source
    is created.

    The caller deletes the ClusterRoleBinding `NAMESPACE-poor`.
    """
    client, account = fleet.clients[target], {"kind": "ServiceAccount", "name": "poor", "namespace": namespace}
    group = "rbac.authorization.k8s.io"
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "poor"}}, namespace)
    await client.create(ROLES, {"metadata": {"name": "poor"}, "rules": rules}, namespace)
    binding = {"subjects": [account], "roleRef": {"apiGroup": group, "kind": "Role", "name": "poor"}}
    await client.create(ROLE_BINDINGS, {"metadata": {"name": "poor"}, **binding}, namespace)
    told = {"subjects": [account], "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": ROLE_OF_SUMMARY}}
    await client.create(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": f"{namespace}-poor"}, **told})
    server = fleet.sandbox[target].server
    authority = (fleet.sandbox.directory / target / "pki" / "ca.crt").read_bytes()
    text = kubeconfig.render(target, server, authority, token=await token_of(client, "poor", namespace))
    await fleet.source.create(SECRETS, manifests.secret(target, namespace, text))
    spec = {"kubeconfigSecret": {"name": target}}
    await fleet.source.create(TARGETS, manifests.ours("Target", target, namespace, spec))
