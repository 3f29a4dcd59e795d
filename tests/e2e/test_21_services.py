"""Promise 21: a Service works across clusters. Covers EndpointSlices and selectors; real traffic needs real
nodes."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import (
    ENDPOINT_SLICES,
    SERVICES,
    TARGETS,
)
from agent.api.names import PREFIX
from agent.model.service import is_native
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.shared import CLUSTERS, has, known_everywhere, marked, service

Raw = dict[str, Any]

TARGET_CLUSTERS = ("us", "eu")


async def versions(fleet: Fleet, namespace: str) -> list[str]:
    """Return the versions of a namespace's Services and EndpointSlices in all clusters."""
    kinds = (SERVICES, ENDPOINT_SLICES)
    listed = [await fleet.clients[cluster].list(kind, namespace) for cluster in CLUSTERS for kind in kinds]
    return [f"{each['metadata']['uid']}/{each['metadata']['resourceVersion']}" for found in listed for each in found]


async def test_every_cluster_knows_all_endpoints_and_all_of_it_goes_again(fleet: Fleet, namespace: str) -> None:
    await shared.web(fleet, namespace, 6)
    original = await marked(fleet, namespace, "web")
    annotations = original["metadata"]["annotations"]
    assert PREFIX + "original-selector" not in annotations
    marks = (PREFIX + "global", "io.cilium/global-service", "service.cilium.io/global")
    assert [annotations[key] for key in marks] == ["true"] * 3
    await known_everywhere(fleet, namespace, "web", 6)
    for cluster in TARGET_CLUSTERS:
        copy = await fleet.clients[cluster].get(SERVICES, "web", namespace)
        assert {"multicluster/U_app": "web", names.LABEL_SERVING: "true"}.items() <= copy["spec"]["selector"].items()
        assert PREFIX + "is-delegate" in copy["metadata"]["annotations"]

    native = await shared.slices(fleet, namespace, "web", "cd")
    assert not any(names.LABEL_ORIGIN in each["metadata"]["labels"] for each in native), "no endpoint is there twice"
    for each in [endpoint for slice in native for endpoint in slice["endpoints"]]:
        assert each["targetRef"]["kind"] == "Pod"
        assert each["nodeName"].startswith("admiralty-")
    before = await versions(fleet, namespace)
    await asyncio.sleep(3.0)
    assert await versions(fleet, namespace) == before, "something was written although nothing happened"

    for replicas in (2, 9):
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": replicas}}, namespace)
        await known_everywhere(fleet, namespace, "web", replicas)
    for cluster in CLUSTERS:
        for slice in await shared.slices(fleet, namespace, "web", cluster):
            if names.LABEL_ORIGIN in slice["metadata"]["labels"]:
                assert not any({"nodeName", "targetRef"} & each.keys() for each in slice["endpoints"])
    await fleet.source.delete(SERVICES, "web", namespace)
    await shared.gone(fleet, SERVICES, namespace, "web", TARGET_CLUSTERS)
    await shared.no_slices(fleet, namespace, "web", CLUSTERS)


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
async def test_a_service_that_selects_proxy_pods_no_more_is_as_it_was(fleet: Fleet, namespace: str) -> None:
    created = service("web", {"note": "mine"})
    await fleet.source.create(SERVICES, created, namespace)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    await known_everywhere(fleet, namespace, "web", 2)
    await marked(fleet, namespace, "web")
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 0}}, namespace)
    back = await has(
        fleet, "cd", SERVICES, namespace, "web", lambda found: found["metadata"]["annotations"] == {"note": "mine"}
    )
    assert back["spec"]["selector"] == {"app": "web"}
    assert "labels" not in back["metadata"]
    await shared.gone(fleet, SERVICES, namespace, "web", TARGET_CLUSTERS)
    await shared.no_slices(fleet, namespace, "web", CLUSTERS)


def is_unmarked(found: Raw) -> bool:
    return not is_native(found["metadata"].get("annotations"))


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
async def test_a_service_keeps_its_endpoints_while_its_pods_are_being_elected_and_back(
    fleet: Fleet, namespace: str
) -> None:
    """Roll out from plain pods to elected pods and back; in between both are endpoints."""
    deployment = manifests.deployment("web", 4)
    deployment["spec"]["template"]["metadata"]["annotations"] = {}
    await fleet.source.create(SERVICES, service("web"), namespace)
    await fleet.source.create(DEPLOYMENTS, deployment, namespace)

    async def served() -> bool:
        return len(await shared.ready(fleet, namespace, "web", "cd")) >= 4

    await fleet.until("plain pods serve", served, about=namespace)
    lows: list[int] = []

    async def watch() -> None:
        while True:
            lows.append(len(await shared.ready(fleet, namespace, "web", "cd")))
            await asyncio.sleep(0.02)

    watching = asyncio.ensure_future(watch())
    try:
        for elect in ("", None):
            annotations = {"multicluster.admiralty.io/elect": elect}
            patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
            await fleet.source.patch(DEPLOYMENTS, "web", patch, namespace)
            if elect is None:
                await has(
                    fleet,
                    "cd",
                    SERVICES,
                    namespace,
                    "web",
                    is_unmarked,
                )
                await fleet.until("plain pods serve again", served, about=namespace)
            else:
                await marked(fleet, namespace, "web")
                await known_everywhere(fleet, namespace, "web", 4)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert min(lows) >= 2, f"there were moments with {min(lows)} endpoints: {lows}"


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
async def test_a_service_of_a_cluster_that_is_its_own_target_is_shared_and_copied_nowhere(fleet: Fleet) -> None:
    async with fleet.namespace(targets=()) as namespace:
        await fleet.source.create(TARGETS, manifests.ours("Target", "home", namespace, {"self": True}))
        await fleet.ready(namespace, "home")
        await shared.web(fleet, namespace, 3)
        await marked(fleet, namespace, "web")
        await known_everywhere(fleet, namespace, "web", 3, ("cd",))
        assert all([await shared.is_gone(fleet, cluster, SERVICES, namespace, "web") for cluster in TARGET_CLUSTERS])


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--server-side",), marks=pytest.mark.seldom)], ids=["client side", "server side"]
)
async def test_what_was_applied_can_be_applied_again(fleet: Fleet, namespace: str, flags: tuple[str, ...]) -> None:
    manifest = service("web")
    await shared.apply(fleet, namespace, manifest, *flags)
    await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2), namespace)
    await marked(fleet, namespace, "web")
    for _ in range(2):
        await shared.apply(fleet, namespace, manifest, *flags)
        await marked(fleet, namespace, "web")
    manifest["spec"]["selector"] = {"app": "other"}
    await shared.apply(fleet, namespace, manifest, *flags)
    await has(fleet, "cd", SERVICES, namespace, "web", lambda found: found["spec"]["selector"] == {"app": "other"})
    await shared.gone(fleet, SERVICES, namespace, "web", TARGET_CLUSTERS)


async def test_a_foreign_service_is_not_touched_and_is_reported(fleet: Fleet, namespace: str) -> None:
    foreign = await fleet.clients["us"].create(SERVICES, service("web", selector={"app": "theirs"}), namespace)
    await fleet.source.create(SERVICES, service("web", {"multicluster/global": "true"}), namespace)
    await has(fleet, "eu", SERVICES, namespace, "web", lambda found: True)
    said = await has(fleet, "cd", SERVICES, namespace, "web", lambda found: condition(found, "multicluster/Shared"))
    told = condition(said, "multicluster/Shared")
    assert told["status"] == "False"
    message = f"Service {namespace}/web is not copied to target us: an object of that name exists there"
    assert message in told["message"]
    assert message in await shared.warned(fleet, namespace, "web", "SharingBlocked")
    assert await fleet.clients["us"].get(SERVICES, "web", namespace) == foreign
    await fleet.clients["us"].delete(SERVICES, "web", namespace)
    await has(
        fleet,
        "us",
        SERVICES,
        namespace,
        "web",
        lambda found: PREFIX + "is-delegate" in found["metadata"]["annotations"],
    )
    await has(
        fleet,
        "cd",
        SERVICES,
        namespace,
        "web",
        lambda found: condition(found, "multicluster/Shared").get("status") == "True",
    )
    alone = {"metadata": {"annotations": {"multicluster/global": "false"}}}
    await fleet.source.patch(SERVICES, "web", alone, namespace)
    await has(fleet, "cd", SERVICES, namespace, "web", lambda found: not condition(found, "multicluster/Shared"))
    await shared.gone(fleet, SERVICES, namespace, "web", TARGET_CLUSTERS)


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
async def test_services_of_every_type_are_copied_as_is_stated(fleet: Fleet, namespace: str) -> None:
    mark = {"service.cilium.io/global": "true"}
    ports = [{"name": "http", "port": 80, "targetPort": "web"}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    wanted = {
        "headless": {"clusterIP": "None", "ports": ports},
        "nodes": {"type": "NodePort", "ports": ports},
        "balanced": {"type": "LoadBalancer", "loadBalancerSourceRanges": ["192.0.2.0/24"]},
        "elsewhere": {"type": "ExternalName", "externalName": "db.example.com", "selector": None, "ports": None},
    }
    originals = {
        name: await fleet.source.create(SERVICES, service(name, mark, **spec), namespace)
        for name, spec in wanted.items()
    }
    copies = {name: await has(fleet, "us", SERVICES, namespace, name, lambda found: True) for name in wanted}
    assert copies["headless"]["spec"]["clusterIP"] == "None"
    assert [(each["name"], each["targetPort"]) for each in copies["headless"]["spec"]["ports"]] == [
        ("http", "web"),
        ("dns", 53),
    ]
    assert copies["nodes"]["spec"]["type"] == "NodePort"
    assert all(each["nodePort"] for each in copies["nodes"]["spec"]["ports"])
    assert copies["balanced"]["spec"]["type"] == "ClusterIP"
    assert "loadBalancerSourceRanges" not in copies["balanced"]["spec"]
    assert copies["elsewhere"]["spec"]["externalName"] == "db.example.com"
    assert originals["nodes"]["spec"]["selector"] == copies["nodes"]["spec"]["selector"] == {"app": "nodes"}

    await fleet.source.patch(
        SERVICES, "balanced", {"metadata": {"annotations": {"multicluster/copy-load-balancer": "true"}}}, namespace
    )
    await has(fleet, "us", SERVICES, namespace, "balanced", lambda found: found["spec"]["type"] == "LoadBalancer")
    await fleet.source.patch(
        SERVICES, "elsewhere", {"metadata": {"annotations": {"service.cilium.io/global": None}}}, namespace
    )
    await shared.gone(fleet, SERVICES, namespace, "elsewhere", TARGET_CLUSTERS)


@pytest.mark.full("Controller tests cover this Service; the traffic itself needs real nodes.")
async def test_a_copy_that_somebody_changes_is_put_right_and_keeps_its_address(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(SERVICES, service("web", {"multicluster/global": "true"}), namespace)
    copy = await has(fleet, "us", SERVICES, namespace, "web", lambda found: True)
    edit = {"metadata": {"annotations": {"example.com/status": "theirs"}}, "spec": {"selector": {"app": "other"}}}
    await fleet.clients["us"].patch(SERVICES, "web", edit, namespace)
    right = await has(
        fleet, "us", SERVICES, namespace, "web", lambda found: found["spec"]["selector"] == {"app": "web"}
    )
    assert right["metadata"]["annotations"]["example.com/status"] == "theirs"
    assert right["spec"]["clusterIP"] == copy["spec"]["clusterIP"]
