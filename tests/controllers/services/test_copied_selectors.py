"""Copies of Services select only delegates of their own source, by collision-free labels; on real API servers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, ENDPOINT_SLICES, NETWORK_POLICIES, NODES, PODS, SERVICES
from agent.api.names import delegates
from agent.dependencies.rules import NetworkPolicyController
from agent.kube.client import Client
from agent.model import sharedcopies
from agent.model.delegatepod import chaperon, delegate
from agent.model.proxypod import proxy_pod
from agent.model.servicemarks import native
from agent.pods.chaperon.controller import Chaperon
from agent.pods.live_changes.controller import LiveChanges
from agent.services.copies import GlobalServices
from tests.controllers.dependencies.test_followrules import asks
from tests.controllers.pair import Pair
from tests.controllers.pods.test_livechanges import summary
from tests.controllers.proxies import elected
from tests.controllers.starting import running
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

PORTS = [{"port": 80, "protocol": "TCP"}]
KAFKA = {"app.kubernetes.io/name": "kafka", "strimzi.io/name": "demo-kafka"}
SHOP = {"app.kubernetes.io/name": "shop", "name": "shop-v2"}
EXACT = {"multicluster/U_app": "web", names.LABEL_SERVING: "true"}


def marked(selector: Raw) -> Raw:
    """Return the annotations of a Service that selects proxy pods, as the source's agent writes them."""
    found: Raw = native({"metadata": {}, "spec": {"selector": selector}})["metadata"]["annotations"]
    return found


def proxied(name: str, namespace: str, labels: Raw | None = None, node: str = "") -> Raw:
    pod = elected(name, namespace)
    pod["metadata"]["labels"] = labels or {"app": name}
    made = proxy_pod(pod, [names.finalizer(namespace, "eu")])
    return {**made, "spec": {**made["spec"], "nodeName": node}} if node else made


async def delegated(pair: Pair, source: str, name: str, labels: Raw) -> str:
    """Create the delegate of a source's pod in the target; return its address."""
    proxy = proxied(name, pair.namespace, labels)
    proxy["metadata"]["uid"] = f"{source}-{name}"
    made = chaperon(proxy, cluster_name=source, cluster_uid=source)
    pod = delegate({**made, "metadata": {**made["metadata"], "name": f"{source}-{name}", "uid": "none"}})
    del pod["metadata"]["ownerReferences"]
    await pair.there.create(PODS, pod)

    async def address() -> str:
        found = await pair.there.get(PODS, f"{source}-{name}", pair.namespace)
        return str(found["status"].get("podIP", "")) if found["status"].get("phase") == "Running" else ""

    return str(await until(address))


async def copied(pair: Pair, source: str, name: str, selector: Raw) -> None:
    """Create a copy of a source's Service in the target."""
    metadata = {"name": name, "namespace": pair.namespace, "uid": f"{source}-{name}", "annotations": marked(selector)}
    original = {"kind": "Service", "metadata": metadata, "spec": {"selector": selector, "ports": PORTS}}
    await pair.there.create(SERVICES, sharedcopies.service(original, source, source))


async def ready(client: Client, namespace: str, service: str) -> set[str]:
    """Return the addresses of ready endpoints of a Service."""
    found = await client.list(ENDPOINT_SLICES, namespace, labels=f"{names.LABEL_SERVICE_NAME}={service}")
    return {
        address
        for each in found
        for endpoint in each.get("endpoints") or ()
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    }


async def test_copies_of_two_sources_lead_to_their_own_delegates_although_labels_end_alike(pair: Pair) -> None:
    pods = {"broker": KAFKA, "shop": SHOP, "other": {"app.kubernetes.io/name": "shop-v2"}}
    at = {(source, name): await delegated(pair, source, name, pods[name]) for source in "ab" for name in pods}
    for source in "ab":
        await copied(pair, source, f"{source}-broker", {"strimzi.io/name": "demo-kafka"})
        await copied(pair, source, f"{source}-shop", {"app.kubernetes.io/name": "shop"})
        await copied(pair, source, f"{source}-plain", {"name": "shop-v2"})
    want = {f"{source}-{name}": {at[source, pod]} for source in "ab" for name, pod in WHICH.items()}

    async def found() -> bool:
        seen = {service: await ready(pair.there, pair.namespace, service) for service in want}
        return seen == want

    await until(found)
    await pair.there.patch(PODS, "a-shop", {"metadata": {"labels": {names.LABEL_SERVING: None}}}, pair.namespace)
    want["a-shop"] = want["a-plain"] = set()
    await until(found)


WHICH = {"broker": "broker", "shop": "shop", "plain": "shop"}
"""Pod that each Service selects in a plain cluster."""


@contextlib.asynccontextmanager
async def always_ready(pair: Pair, service: str) -> AsyncIterator[None]:
    """Assert that the target has a ready endpoint of a Service throughout the context."""
    empty = 0

    async def watch() -> None:
        nonlocal empty
        while True:
            empty += not await ready(pair.there, pair.namespace, service)
            await asyncio.sleep(0.02)

    await until(lambda: ready(pair.there, pair.namespace, service))
    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    assert not empty


async def old_chaperon(pair: Pair, proxy: Raw, cluster_uid: str) -> Raw:
    """Create the chaperon as the previous version does."""
    made = chaperon(proxy, cluster_name="here", cluster_uid=cluster_uid, exact=False)
    kept = names.LABEL_PARENT_CLUSTER_UID
    labels = made["metadata"]["labels"]
    made["metadata"]["labels"] = {key: labels[key] for key in labels if key == kept or key.startswith(names.PREFIX)}
    return await pair.there.create(CHAPERONS, made)


async def test_after_an_upgrade_a_copy_selects_by_exact_labels_once_every_delegate_has_them(pair: Pair) -> None:
    node = names.virtual_node(pair.namespace, "eu")
    await pair.here.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    proxy = await pair.here.create(PODS, proxied("web", pair.namespace, node=node))
    service = {
        "metadata": {"annotations": marked({"app": "web"})},
        "spec": {"selector": {"app": "web"}, "ports": PORTS},
    }
    try:
        async with pair.at_work(GlobalServices, LiveChanges), running(pair.clusters[1], Chaperon):
            assert pair.deps is not None
            made = await old_chaperon(pair, proxy, pair.deps.cluster_uid)
            name = made["metadata"]["name"]
            await pair.create(SERVICES, "web", **service)
            copy = await pair.copy(SERVICES, "web")
            assert copy["spec"]["selector"] == {names.PREFIX + "app": "web"}
            async with always_ready(pair, "web"), summary(pair.there, **{names.ANNOTATION_AGENT_VERSION: "1"}):
                want = {**EXACT, names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}
                await pair.copy(SERVICES, "web", lambda copy: copy["spec"]["selector"] == want)
                pod = await pair.there.get(PODS, name, pair.namespace)
                assert want.items() <= pod["metadata"]["labels"].items()
            found = await pair.there.get(CHAPERONS, name, pair.namespace)
            assert not {delegates.ANNOTATION_NEW_LABELS, names.ANNOTATION_LIVE_CHANGES} & set(
                found["metadata"]["annotations"]
            )
    finally:
        await pair.end("web")
        await pair.here.delete(NODES, node)
        await gone(lambda: pair.here.get(NODES, node))


async def test_a_target_whose_agent_does_not_follow_keeps_the_contracts_selector(pair: Pair) -> None:
    node = names.virtual_node(pair.namespace, "eu")
    await pair.here.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    proxy = await pair.here.create(PODS, proxied("web", pair.namespace, node=node))
    try:
        async with (
            pair.at_work(GlobalServices, LiveChanges),
            summary(pair.there, **{names.ANNOTATION_AGENT_VERSION: "0"}),
        ):
            assert pair.deps is not None
            made = await old_chaperon(pair, proxy, pair.deps.cluster_uid)
            name = made["metadata"]["name"]

            async def told() -> bool:
                found = await pair.there.get(CHAPERONS, name, pair.namespace)
                return delegates.ANNOTATION_NEW_LABELS in found["metadata"]["annotations"]

            await until(told)
            annotations = marked({"app": "web"})
            await pair.create(
                SERVICES,
                "web",
                metadata={"annotations": annotations},
                spec={"selector": {"app": "web"}, "ports": PORTS},
            )
            copy = await pair.copy(SERVICES, "web")
            assert copy["spec"]["selector"] == {names.PREFIX + "app": "web"}
            await pair.there.delete(CHAPERONS, name, pair.namespace)
            await pair.copy(SERVICES, "web", lambda copy: EXACT.items() <= copy["spec"]["selector"].items())
    finally:
        await pair.end("web")
        await pair.here.delete(NODES, node)
        await gone(lambda: pair.here.get(NODES, node))


def selected(pair: Pair, key: str) -> Raw:
    assert pair.deps is not None
    return {key: "web", names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid}


async def test_a_policy_selects_delegates_of_an_earlier_version_before_their_pods_are_bound(pair: Pair) -> None:
    node = names.virtual_node(pair.namespace, "eu")
    await pair.here.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    proxy = await pair.here.create(PODS, proxied("web", pair.namespace))
    await asks(pair, follow_network_policies="true")
    await pair.create(NETWORK_POLICIES, "web", spec={"podSelector": {"matchLabels": {"app": "web"}}})

    async def selects(key: str) -> Raw:
        def fits(copy: Raw) -> bool:
            return bool(copy["spec"]["podSelector"]["matchLabels"] == selected(pair, key))

        return await pair.copy(NETWORK_POLICIES, "web", fits)

    try:
        async with pair.at_work(NetworkPolicyController, LiveChanges), running(pair.clusters[1], Chaperon):
            assert pair.deps is not None
            await selects("multicluster/U_app")
            name = (await old_chaperon(pair, proxy, pair.deps.cluster_uid))["metadata"]["name"]
            before = await selects(names.PREFIX + "app")
            async with summary(pair.there, **{names.ANNOTATION_AGENT_VERSION: "1"}):
                await selects("multicluster/U_app")
                pod = await pair.there.get(PODS, name, pair.namespace)
                assert pod["metadata"]["labels"]["multicluster/U_app"] == "web"
                after = await pair.there.get(NETWORK_POLICIES, "web", pair.namespace)
                assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
    finally:
        await pair.end("web")
        await pair.here.delete(NODES, node)
        await gone(lambda: pair.here.get(NODES, node))
