"""Promise 20: ConfigMaps and Secrets named by pods exist in the target before the pods start, and stay up to
date."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import (
    CONFIGMAPS,
    EVENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from agent.api.names import ANNOTATION_VOLUME_IN, LABEL_PARENT_CLUSTER_UID, LABEL_PARENT_UID, PREFIX, PROXY_CONSTRAINTS
from agent.kube.errors import NotFound
from agent.kube.informer import Informer
from tests.e2e import claims, manifests, shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

BURST = 30
MANY = 500
PODS_OF_MANY = 3


def text(value: str) -> str:
    return base64.b64encode(value.encode()).decode()


def volume(name: str, *, optional: bool = False) -> Raw:
    return {"name": f"v-{name}", "configMap": {"name": name, "optional": optional}}


async def create(fleet: Fleet, namespace: str, name: str, **data: str) -> None:
    """Create a ConfigMap and a Secret with the same name and content."""
    await fleet.source.create(CONFIGMAPS, {"metadata": {"name": name}, "data": data}, namespace)
    secret = {"metadata": {"name": name}, "data": {key: text(value) for key, value in data.items()}}
    await fleet.source.create(SECRETS, secret, namespace)


def needing(name: str) -> Raw:
    """Return parts of a pod spec that refer to both."""
    return {"volumes": [volume(name)], "imagePullSecrets": [{"name": name}]}


async def copies(fleet: Fleet, cluster: str, namespace: str) -> dict[str, Raw]:
    """Return the content of copies in a cluster, by kind and name."""
    return {
        f"{kind.plural}/{each['metadata']['name']}": each.get("data", {})
        for kind in (CONFIGMAPS, SECRETS)
        for each in await fleet.clients[cluster].list(kind, namespace, labels=LABEL_PARENT_CLUSTER_UID)
    }


async def has(fleet: Fleet, cluster: str, namespace: str, want: dict[str, Raw]) -> None:
    """Wait until a cluster has exactly these copies."""

    async def same() -> bool:
        return await copies(fleet, cluster, namespace) == want

    await fleet.until(f"{cluster} has {sorted(want)[:4]}", same, about=namespace)


def both(name: str, **data: str) -> dict[str, Raw]:
    return {f"configmaps/{name}": data, f"secrets/{name}": {key: text(value) for key, value in data.items()}}


@contextlib.asynccontextmanager
async def births(fleet: Fleet, namespace: str) -> AsyncIterator[dict[tuple[str, str], int]]:
    """Record the first resource version of every delegate, by cluster and UID. Objects with lower versions
    existed before."""
    found: dict[tuple[str, str], int] = {}
    informers = {name: Informer(client, PODS, namespace, LABEL_PARENT_UID) for name, client in fleet.clients.items()}
    for name, informer in informers.items():
        informer.subscribe(
            lambda old, new, name=name: found.setdefault((name, new.uid), int(new.version)) if new else None  # type: ignore[misc]
        )
    tasks = [asyncio.ensure_future(informer.run()) for informer in informers.values()]
    try:
        for informer in informers.values():
            await informer.synced.wait()
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_in_a_burst_every_delegate_finds_what_its_pod_names(fleet: Fleet, namespace: str) -> None:
    for number in range(BURST):
        await create(fleet, namespace, f"own-{number}", number=str(number))
    await create(fleet, namespace, "shared", a="1")
    async with births(fleet, namespace) as born:
        for number in range(BURST):
            both_volumes = [volume(f"own-{number}", optional=True), volume("shared", optional=True)]
            secrets = [{"name": f"own-{number}"}, {"name": "shared"}]
            pod = manifests.pod(f"web-{number}", volumes=both_volumes, imagePullSecrets=secrets)
            pod["metadata"]["labels"]["app"] = "web"
            await fleet.source.create(PODS, pod, namespace)
        await fleet.running(namespace, "web", BURST)
        for cluster, delegate in (await fleet.delegates(namespace)).values():
            client = fleet.clients[cluster]
            birth = born[(cluster, delegate["metadata"]["uid"])]
            names = [each["configMap"]["name"] for each in delegate["spec"]["volumes"] if "configMap" in each]
            assert len(names) == 2
            for kind in (CONFIGMAPS, SECRETS):
                for name in names:
                    copy = await client.get(kind, name, namespace)
                    assert int(copy["metadata"]["resourceVersion"]) < birth, f"{kind} {name} came after the delegate"
                    assert copy["data"] == (await fleet.source.get(kind, name, namespace))["data"]
    fleet.census.check(namespace, at_most=BURST)


async def test_edits_deletions_and_the_end_of_pods_are_carried_through(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        for name in ("kept", "dropped"):
            await create(fleet, namespace, name, a="1")
        spec = {"volumes": [volume("kept"), volume("dropped")], "imagePullSecrets": [{"name": "kept"}]}
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 2, **spec), namespace)
        await fleet.running(namespace, "web", 2)
        want = {**both("kept", a="1"), "configmaps/dropped": {"a": "1"}}
        await has(fleet, "us", namespace, want)
        await fleet.source.patch(CONFIGMAPS, "kept", {"data": {"a": None, "b": "2"}}, namespace)
        await fleet.source.patch(SECRETS, "kept", {"data": {"b": text("2")}}, namespace)
        await fleet.source.delete(CONFIGMAPS, "dropped", namespace)
        await has(
            fleet, "us", namespace, {"configmaps/kept": {"b": "2"}, "secrets/kept": {"a": text("1"), "b": text("2")}}
        )
        await fleet.source.delete(DEPLOYMENTS, "web", namespace)
        await has(fleet, "us", namespace, {})
        assert (await fleet.source.get(CONFIGMAPS, "kept", namespace))["data"] == {"b": "2"}


@pytest.mark.full("A variant of the tests of a burst and of edits.")
async def test_a_rolling_update_takes_its_config_with_it(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await create(fleet, namespace, "v1", a="1")
        await create(fleet, namespace, "v2", a="2")
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", 3, **needing("v1")), namespace)
        await fleet.running(namespace, "web", 3)
        await has(fleet, "us", namespace, both("v1", a="1"))
        changed = manifests.deployment("web", 3, **needing("v2"))["spec"]
        await fleet.source.patch(DEPLOYMENTS, "web", {"spec": changed}, namespace)
        await has(fleet, "us", namespace, both("v2", a="2"))
        await fleet.running(namespace, "web", 3)


@pytest.mark.full("A variant of the tests of a burst and of edits.")
async def test_an_object_in_the_way_is_named_on_the_pod_and_survives(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        us = fleet.clients["us"]
        foreign = await us.create(CONFIGMAPS, {"metadata": {"name": "web"}, "data": {"whose": "theirs"}}, namespace)
        await create(fleet, namespace, "web", whose="ours")
        await fleet.source.create(PODS, manifests.pod("web", **needing("web")), namespace)
        await fleet.running(namespace, "web", 1)

        async def told() -> list[str]:
            events = await fleet.source.list(EVENTS, namespace, fields="involvedObject.kind=Pod,reason=FollowBlocked")
            return [each["message"] for each in events if each["involvedObject"]["name"] == "web"]

        (message,) = await fleet.until("the pod says what is in the way", told, about=namespace)
        assert f"ConfigMap {namespace}/web" in message
        assert "target us" in message
        await has(fleet, "us", namespace, {"secrets/web": {"whose": text("ours")}})
        await fleet.source.delete(CONFIGMAPS, "web", namespace)
        await fleet.source.delete(PODS, "web", namespace)
        await has(fleet, "us", namespace, {})
        assert await us.get(CONFIGMAPS, "web", namespace) == foreign


@pytest.mark.full("A variant of the tests of a burst and of edits.")
async def test_what_is_optional_or_missing_holds_nobody_and_comes_late(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        volumes = [volume("late"), volume("never", optional=True)]
        await fleet.source.create(PODS, manifests.pod("web", volumes=volumes), namespace)
        await fleet.running(namespace, "web", 1)
        await fleet.source.create(CONFIGMAPS, {"metadata": {"name": "late"}, "data": {"a": "1"}}, namespace)
        await has(fleet, "eu", namespace, {"configmaps/late": {"a": "1"}})


@pytest.mark.full("A variant of the tests of a burst and of edits.")
async def test_image_pull_secrets_of_the_service_account_follow(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        registry = {".dockerconfigjson": text('{"auths":{}}')}
        secret = {"metadata": {"name": "registry"}, "type": "kubernetes.io/dockerconfigjson", "data": registry}
        await fleet.source.create(SECRETS, secret, namespace)
        patch = {"imagePullSecrets": [{"name": "registry"}]}
        await fleet.source.patch(SERVICE_ACCOUNTS, "default", patch, namespace)
        await fleet.source.create(PODS, manifests.pod("web"), namespace)
        await fleet.running(namespace, "web", 1)
        await has(fleet, "eu", namespace, {"secrets/registry": registry})
        copy = await fleet.clients["eu"].get(SECRETS, "registry", namespace)
        assert copy["type"] == "kubernetes.io/dockerconfigjson"


@pytest.mark.seldom
async def test_five_hundred_config_maps_of_one_namespace(fleet: Fleet) -> None:
    async with fleet.namespace(targets=("eu",)) as namespace:
        for number in range(MANY):
            manifest = {"metadata": {"name": f"c-{number}"}, "data": {"number": str(number)}}
            await fleet.source.create(CONFIGMAPS, manifest, namespace)
        sources = [{"configMap": {"name": f"c-{number}"}} for number in range(MANY)]
        all_of_them = {"name": "all", "projected": {"sources": sources}}
        spec = manifests.deployment("web", PODS_OF_MANY, volumes=[all_of_them])
        await fleet.source.create(DEPLOYMENTS, spec, namespace)
        await fleet.running(namespace, "web", PODS_OF_MANY)
        want = {f"configmaps/c-{number}": {"number": str(number)} for number in range(MANY)}
        # On a busy machine, pods may start before the last copy exists, after `--follow-wait`.
        await has(fleet, "eu", namespace, want)
        await fleet.source.delete(DEPLOYMENTS, "web", namespace)
        await has(fleet, "eu", namespace, {})


@pytest.mark.full("A variant of the tests of a burst and of edits.")
@pytest.mark.parametrize("first", ["original", pytest.param("pod", marks=pytest.mark.seldom)])
async def test_deletions_while_the_agent_is_dead_and_the_target_cut_off(fleet: Fleet, first: str) -> None:
    async with fleet.namespace(targets=("us",)) as namespace:
        await create(fleet, namespace, "web", a="1")
        await create(fleet, namespace, "other", a="1")
        for name in ("web", "other"):
            await fleet.source.create(PODS, manifests.pod(name, **needing(name)), namespace)
            await fleet.running(namespace, name, 1)
        await fleet.sandbox.set_link("us", up=False)
        try:
            await fleet.sandbox.kill("cd", "agent")
            if first == "pod":
                await fleet.source.delete(PODS, "web", namespace)
            for kind in (CONFIGMAPS, SECRETS):
                await fleet.source.delete(kind, "web", namespace)
            if first == "original":
                await fleet.source.delete(PODS, "web", namespace)
            await fleet.sandbox.start("cd", "agent")
            await fleet.source.patch(CONFIGMAPS, "other", {"data": {"a": "2"}}, namespace)
            await asyncio.sleep(3.0)
        finally:
            await fleet.sandbox.set_link("us", up=True)
        await has(fleet, "us", namespace, {**both("other", a="1"), "configmaps/other": {"a": "2"}})
        with pytest.raises(NotFound):
            await fleet.clients["us"].get(SECRETS, "web", namespace)
        await fleet.ready(namespace, "us")


async def where(fleet: Fleet, namespace: str, count: int) -> dict[str, str]:
    """Wait until all pods of the StatefulSet run; return their virtual nodes by name."""
    pods = await fleet.running(namespace, "db", count)
    return {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


async def named_everywhere(fleet: Fleet, namespace: str, pods: set[str]) -> None:
    """Wait until EndpointSlices in every cluster contain the host names of all pods of the StatefulSet."""

    async def probe() -> bool:
        found = [await shared.slices(fleet, namespace, "db", cluster) for cluster in shared.CLUSTERS]
        hosts = [[each.get("hostname") for slice in slices for each in slice["endpoints"] or ()] for slices in found]
        return all(sorted(filter(None, each)) == sorted(pods) for each in hosts)

    await fleet.until("host names are known everywhere", probe, about=namespace)


@pytest.mark.full("A variant of the tests of a burst and of edits.")
async def test_a_stateful_set_runs_restarts_and_scales_and_each_pod_stays_with_its_data(
    fleet: Fleet, namespace: str
) -> None:
    async with claims.volumes(fleet, namespace):
        db = manifests.stateful_set("db", 4)
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim["storageClassName"] = namespace
        db["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": claim}]
        # Place pods in both targets, even if one responds slowly, as on a busy machine.
        in_both = {"maxSkew": 3, "topologyKey": manifests.REGION, "whenUnsatisfiable": "DoNotSchedule"}
        in_both["labelSelector"] = db["spec"]["selector"]
        constraints = json.dumps({"topologySpreadConstraints": [in_both]})
        db["spec"]["template"]["metadata"]["annotations"][PREFIX + PROXY_CONSTRAINTS] = constraints
        await fleet.source.create(SERVICES, shared.service("db", clusterIP="None"), namespace)
        await fleet.source.create(manifests.STATEFULSETS, db, namespace)
        before = await where(fleet, namespace, 4)
        await named_everywhere(fleet, namespace, set(before))
        assert len(set(before.values())) == 2
        for pod, node in before.items():
            found = await fleet.source.get(PERSISTENT_VOLUME_CLAIMS, f"data-{pod}", namespace)
            assert found["metadata"]["annotations"][ANNOTATION_VOLUME_IN] == node
            await claims.bound(fleet, namespace, f"data-{pod}")
        old = await fleet.pods(namespace, "db")
        for each in old:
            await fleet.source.delete(PODS, each["metadata"]["name"], namespace)

        async def made_again() -> bool:
            uids = {each["metadata"]["uid"] for each in await fleet.pods(namespace, "db")}
            return len(uids) == 4 and not uids & {each["metadata"]["uid"] for each in old}

        await fleet.until("all pods are new ones", made_again, about=namespace)
        assert await where(fleet, namespace, 4) == before
        for replicas in (1, 6):
            await fleet.source.patch(manifests.STATEFULSETS, "db", {"spec": {"replicas": replicas}}, namespace)
            now = await where(fleet, namespace, replicas)
            assert {pod: node for pod, node in now.items() if pod in before}.items() <= before.items()
        await fleet.agree(namespace)
        await fleet.source.delete(manifests.STATEFULSETS, "db", namespace)
