"""Promise 21, part 2: each Target has its own network driver, and its conditions report why endpoints are not
shared."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    ENDPOINT_SLICES,
    INGRESSES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_EXPORTS,
    SERVICE_IMPORTS,
    SERVICE_LINKS,
    SERVICES,
    TARGETS,
)
from agent.api.names import PREFIX, links
from agent.api.roles import EVERYTHING, rules
from tests.controllers.installed import installed
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.shared import ROLES, has, known_everywhere, marked, service

Raw = dict[str, Any]

TARGET_CLUSTERS = ("us", "eu")


@pytest.mark.full("Controller tests cover the choice of a driver.")
async def test_a_selector_stays_the_users_where_endpoints_cannot_be_shared(fleet: Fleet, namespace: str) -> None:
    """The source's own EndpointSlices are correct anyway: proxy pods have the addresses of their delegates."""
    await shared.web(fleet, namespace, 4)
    await marked(fleet, namespace, "web")
    await driver(fleet, namespace, "us", "wormhole")
    said = await has(fleet, "cd", TARGETS, namespace, "us", lambda found: not shares(found))
    assert "choose one of endpointslices, cilium, mcs, " in condition(said, "ServicesShared")["message"]
    await fleet.source.delete(SERVICES, "web", namespace)
    await fleet.source.create(SERVICES, service("web"), namespace)
    await known_everywhere(fleet, namespace, "web", 4, ("cd",))
    await has(fleet, "eu", SERVICES, namespace, "web", lambda found: found["spec"]["selector"] != {"app": "web"})
    assert (await fleet.source.get(SERVICES, "web", namespace))["spec"]["selector"] == {"app": "web"}
    await driver(fleet, namespace, "us", None)
    await marked(fleet, namespace, "web")
    await known_everywhere(fleet, namespace, "web", 4)


@pytest.mark.full("Controller tests cover the choice of a driver.")
@pytest.mark.usefixtures("soon")
async def test_a_target_that_grants_no_slices_shares_none_and_says_so(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        poor = [rule for rule in rules(EVERYTHING) if rule["resources"] != [ENDPOINT_SLICES.plural]]
        await shared.join_with(fleet, namespace, "us", poor)
        said = await has(
            fleet,
            "cd",
            TARGETS,
            namespace,
            "us",
            lambda each: condition(each, "ServicesShared").get("reason") == "Forbidden",
        )
        told = condition(said, "ServicesShared")
        assert told["status"] == "False"
        assert "may not list, watch, create, patch, delete endpointslices.discovery.k8s.io" in told["message"]
        assert "flotilla join --allow services" in told["message"]
        await fleet.source.create(SERVICES, service("web", {"multicluster/global": "true"}), namespace)
        await has(fleet, "us", SERVICES, namespace, "web", lambda found: True)
        await fleet.clients["us"].patch(ROLES, "poor", {"rules": rules(EVERYTHING)}, namespace)
        await has(fleet, "cd", TARGETS, namespace, "us", shares)
        await fleet.clients["us"].delete(CLUSTER_ROLE_BINDINGS, f"{namespace}-poor")


async def driver(fleet: Fleet, namespace: str, target: str, name: str | None) -> None:
    """Set or remove the network driver annotation of a Target."""
    annotations = {names.SHORT_PREFIX + names.NETWORK_DRIVER: name}
    await fleet.source.patch(TARGETS, target, {"metadata": {"annotations": annotations}}, namespace)


def shares(target: Raw) -> bool:
    """Check that a Target reports shared endpoints."""
    return bool(condition(target, "ServicesShared").get("status") == "True")


def is_off(target: Raw) -> bool:
    """Check that a Target reports that it has no driver."""
    return bool(condition(target, "ServicesShared").get("reason") == "Off")


@pytest.mark.full("Controller tests cover the choice of a driver.")
@pytest.mark.usefixtures("soon")
async def test_a_target_can_have_no_driver_and_another_one(fleet: Fleet, namespace: str) -> None:
    await shared.web(fleet, namespace, 4)
    await known_everywhere(fleet, namespace, "web", 4)
    await driver(fleet, namespace, "us", "none")
    here = [pod["status"]["podIP"] for cluster, pod in (await fleet.delegates(namespace)).values() if cluster == "us"]

    async def only_own() -> bool:
        others = [await shared.ready(fleet, namespace, "web", cluster) for cluster in ("cd", "eu")]
        return await shared.ready(fleet, namespace, "web", "us") == sorted(here) and not any(
            set(each) & set(here) for each in others
        )

    await fleet.until("us is on its own", only_own, about=namespace)
    clients, kinds = [fleet.clients[cluster] for cluster in shared.CLUSTERS], (SERVICE_EXPORTS, SERVICE_IMPORTS)
    async with installed(clients, [(kind, None) for kind in kinds]):
        for target in TARGET_CLUSTERS:
            await driver(fleet, namespace, target, "mcs")
        valid = {"conditions": [{"type": "Valid", "status": "True", "reason": "Valid", "message": ""}]}
        for cluster in shared.CLUSTERS:
            await has(fleet, cluster, SERVICE_EXPORTS, namespace, "web", lambda found: True)
            await fleet.clients[cluster].patch_raw(SERVICE_EXPORTS, "web", {"status": valid}, namespace, sub="status")
        # With the driver mcs, remote delegates have another DNS name; the Service itself selects proxy pods.
        await has(fleet, "cd", SERVICES, namespace, "web", lambda found: found["spec"]["selector"] == {"app": "web"})
        await known_everywhere(fleet, namespace, "web", 4, ("cd",))
        await has(fleet, "cd", SERVICE_LINKS, namespace, "web", waits_for_imports)
        for target in TARGET_CLUSTERS:
            await driver(fleet, namespace, target, "none")
        await shared.gone(fleet, SERVICE_EXPORTS, namespace, "web", shared.CLUSTERS)
        for target in TARGET_CLUSTERS:
            await driver(fleet, namespace, target, "endpointslices")
        await marked(fleet, namespace, "web")
        await known_everywhere(fleet, namespace, "web", 4)


def waits_for_imports(link: Raw) -> bool:
    """Check that all clusters report an export without a ServiceImport from the MCS implementation."""
    rows = (link.get("status") or {}).get("clusters") or ()
    told = {row["cluster"]: row["message"] for row in rows if row["driver"] == "mcs"}
    return all("has made no ServiceImport" in told.get(cluster, "") for cluster in shared.CLUSTERS)


async def test_addresses_of_pods_stay_where_they_mean_something(fleet: Fleet, namespace: str) -> None:
    """One node of `us` with another cluster's pod CIDR is enough for both pod networks to overlap."""
    await shared.web(fleet, namespace, 4)
    await known_everywhere(fleet, namespace, "web", 4)
    ranges = {plan.name: plan.fake_pod_ranges[0] for plan in fleet.sandbox.plan.clusters}
    async with overlapping(fleet, ranges["eu"]):
        # The source and each target reach each other; us and eu do not.
        await known(fleet, namespace, cd=("us", "eu"), us=("us",), eu=("eu",))
        assert shares(await fleet.source.get(TARGETS, "us", namespace))
    await known_everywhere(fleet, namespace, "web", 4)
    async with overlapping(fleet, ranges["cd"]):
        told = await has(fleet, "cd", TARGETS, namespace, "us", lambda found: not shares(found))
        said = condition(told, "ServicesShared")
        assert said["reason"] == links.OVERLAP
        assert f"{ranges['cd']} is in the pod networks of both clusters" in said["message"]
        await known(fleet, namespace, cd=("eu",), us=("us",), eu=("eu",))
        await fleet.until(
            "addresses in us are told in an annotation", lambda: hidden(fleet, namespace), about=namespace
        )
        await driver(fleet, namespace, "us", "none")
        await has(fleet, "cd", TARGETS, namespace, "us", is_off)
        await asyncio.sleep(1.0)
        assert await hidden(fleet, namespace), "no driver brings them home"
        await driver(fleet, namespace, "us", "endpointslices")
        await known_everywhere(fleet, namespace, "web", 4)
        await driver(fleet, namespace, "us", None)
        await known(fleet, namespace, cd=("eu",), us=("us",), eu=("eu",))
    await known_everywhere(fleet, namespace, "web", 4)
    assert await shared.ready(fleet, namespace, "web", "cd")


async def hidden(fleet: Fleet, namespace: str) -> bool:
    """Check that proxy pods of `us` have their delegate's address only in an annotation, those of `eu` in the
    status."""
    proxies = {pod["metadata"]["uid"]: pod for pod in await fleet.source.list(PODS, namespace)}
    for uid, (cluster, delegate) in (await fleet.delegates(namespace)).items():
        proxy, address = proxies[uid], delegate["status"]["podIP"]
        found = (proxy["status"].get("podIP"), proxy["metadata"]["annotations"].get(links.ANNOTATION_POD_IPS))
        if found != ((None, address) if cluster == "us" else (address, None)):
            return False
    return True


@contextlib.asynccontextmanager
async def overlapping(fleet: Fleet, pods: str) -> AsyncIterator[None]:
    """Create an unschedulable node in `us` with the pod CIDR `pods`."""
    head = {"apiVersion": NODES.api_version, "kind": NODES.name, "metadata": {"name": "overlapping"}}
    node = {**head, "spec": {"unschedulable": True, "podCIDR": pods, "podCIDRs": [pods]}}
    await fleet.clients["us"].create(NODES, node)
    try:
        yield
    finally:
        await fleet.clients["us"].delete(NODES, "overlapping")


async def known(fleet: Fleet, namespace: str, **clusters: tuple[str, ...]) -> None:
    """Wait until the endpoints in each cluster are exactly the delegates in these clusters."""

    async def probe() -> bool:
        pods = [(cluster, pod["status"]["podIP"]) for cluster, pod in (await fleet.delegates(namespace)).values()]
        for cluster, others in clusters.items():
            want = sorted(address for where, address in pods if where in others)
            if await shared.ready(fleet, namespace, "web", cluster) != want:
                return False
        return True

    await fleet.until(f"endpoints are known: {clusters}", probe, about=namespace)


async def test_endpoints_of_a_silent_target_are_not_ready_until_it_is_back(fleet: Fleet, namespace: str) -> None:
    # Bare pods: on a busy machine all pods of a Deployment may be bound to the faster target.
    await fleet.source.create(SERVICES, service("web"), namespace)
    for number, cluster in enumerate(TARGET_CLUSTERS * 2):
        pod = manifests.pod(f"web-{number}", nodeSelector={manifests.REGION: cluster})
        pod["metadata"]["labels"] = {"app": "web"}
        await fleet.source.create(PODS, pod, namespace)
    await known_everywhere(fleet, namespace, "web", 4)
    lost = [pod["status"]["podIP"] for cluster, pod in (await fleet.delegates(namespace)).values() if cluster == "us"]
    assert len(lost) == 2
    await fleet.sandbox.set_link("us", up=False)
    try:
        for cluster in ("cd", "eu"):

            async def without(cluster: str = cluster) -> bool:
                found = await shared.ready(fleet, namespace, "web", cluster)
                return bool(found) and not set(found) & set(lost)

            await fleet.until(f"{cluster} sends nothing to us", without, about=namespace)
    finally:
        await fleet.sandbox.set_link("us", up=True)
    await known_everywhere(fleet, namespace, "web", 4)
    await fleet.ready(namespace, "us")


@pytest.mark.full("Controller tests cover the choice of a driver.")
async def test_ingresses_and_their_certificates_go_where_the_service_goes(fleet: Fleet, namespace: str) -> None:
    secret = {"metadata": {"name": "cert"}, "type": "kubernetes.io/tls", "stringData": {"tls.crt": "a", "tls.key": "b"}}
    await fleet.source.create(SECRETS, secret, namespace)
    await fleet.source.create(INGRESSES, ingress("default", defaultBackend=backend("web")), namespace)
    rules = [
        {"host": "none.example.com"},
        {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend("web")}]}},
    ]
    await fleet.source.create(INGRESSES, ingress("rules", rules=rules, tls=[{"secretName": "cert"}]), namespace)
    await fleet.source.create(INGRESSES, ingress("other", defaultBackend=backend("other")), namespace)
    await fleet.source.create(SERVICES, service("web", {"multicluster/global": "true"}), namespace)
    for cluster in TARGET_CLUSTERS:
        for name in ("default", "rules"):
            copy = await has(fleet, cluster, INGRESSES, namespace, name, lambda found: True)
            assert PREFIX + "is-delegate" in copy["metadata"]["annotations"]
        copied = await has(fleet, cluster, SECRETS, namespace, "cert", lambda found: True)
        assert copied["type"] == "kubernetes.io/tls"
        assert await shared.is_gone(fleet, cluster, INGRESSES, namespace, "other")
    await has(
        fleet,
        "cd",
        INGRESSES,
        namespace,
        "rules",
        lambda found: PREFIX + "global" in found["metadata"].get("annotations", {}),
    )
    await fleet.source.patch(SECRETS, "cert", {"stringData": {"tls.crt": "c"}}, namespace)
    await has(fleet, "us", SECRETS, namespace, "cert", lambda found: found["data"]["tls.crt"] == "Yw==")

    await fleet.source.create(INGRESSES, ingress("brief", defaultBackend=backend("web")), namespace)
    await has(fleet, "us", INGRESSES, namespace, "brief", lambda found: True)
    await fleet.source.patch(INGRESSES, "brief", {"spec": {"ingressClassName": "traefik"}}, namespace)
    for cluster in TARGET_CLUSTERS:
        await has(
            fleet,
            cluster,
            INGRESSES,
            namespace,
            "brief",
            lambda found: found["spec"].get("ingressClassName") == "traefik",
        )
    await fleet.source.delete(INGRESSES, "brief", namespace)
    await shared.gone(fleet, INGRESSES, namespace, "brief", TARGET_CLUSTERS)

    await fleet.source.patch(SERVICES, "web", {"metadata": {"annotations": {"multicluster/global": None}}}, namespace)
    for kind, name in ((INGRESSES, "default"), (INGRESSES, "rules"), (SECRETS, "cert"), (SERVICES, "web")):
        await shared.gone(fleet, kind, namespace, name, TARGET_CLUSTERS)
    await has(fleet, "cd", INGRESSES, namespace, "rules", lambda found: "annotations" not in found["metadata"])


def ingress(name: str, **spec: Any) -> Raw:
    return {"apiVersion": INGRESSES.api_version, "kind": INGRESSES.name, "metadata": {"name": name}, "spec": spec}


def backend(name: str) -> Raw:
    return {"service": {"name": name, "port": {"number": 80}}}
