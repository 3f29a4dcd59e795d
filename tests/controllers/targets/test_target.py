"""Targets on a real API server, which is both source and target."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
import yaml

from agent.api.kinds import CHAPERONS, CLUSTER_TARGETS, EVENTS, PODS, SECRETS, SERVICE_ACCOUNTS, TARGETS
from agent.api.names import (
    ANNOTATION_PARENT_NAME,
    LABEL_PARENT_CLUSTER_UID,
    LABEL_PARENT_UID,
    SCHEDULER_CANDIDATE,
    finalizer,
    virtual_node,
)
from agent.kube.client import Client
from agent.pods.orphan_finalizers import OrphanFinalizersController
from agent.targets.target import TargetController, TargetSecretController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, condition, kubeconfig, rewrite, secret, target, tear_away
from tests.waiting import empty, gone, until

CONTROLLERS = (TargetController, TargetSecretController)
CLOSED = "https://127.0.0.1:1"


@pytest.fixture(autouse=True)
async def _clean(client: Client, namespace: str) -> AsyncIterator[None]:
    yield
    await tear_away(client, namespace)


def proxy(name: str, namespace: str, *targets: str, node: str = "") -> dict[str, Any]:
    finalizers = [finalizer(namespace, target) for target in targets]
    spec: dict[str, Any] = {"schedulerName": "admiralty-proxy", "containers": [{"name": "c", "image": "busybox"}]}
    if node:
        spec |= {"nodeName": node, "terminationGracePeriodSeconds": 0}
    return {"metadata": {"name": name, "namespace": namespace, "finalizers": finalizers}, "spec": spec}


async def events(client: Client, namespace: str, name: str) -> list[dict[str, Any]]:
    return await client.list(EVENTS, namespace, fields=f"involvedObject.name={name}")


async def held(client: Client, kind: Any, namespace: str, name: str) -> bool:
    return "multicluster/drain" in ((await client.get(kind, name, namespace))["metadata"].get("finalizers") or ())


async def test_a_target_is_connected_and_kept_until_it_is_removed(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        for kind in ("Reachable", "Authorized", "Ready"):
            await condition(client, namespace, "c1", kind, "True", "Connected")
        assert await held(client, TARGETS, namespace, "c1")
        await until(lambda: held(client, SECRETS, namespace, "c1"))
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        await until(lambda: unheld(client, namespace, "c1"))
        await until(lambda: disconnected(deps, (namespace, "c1")))
        assert await events(client, namespace, "c1") == []


async def test_a_kubeconfig_that_verifies_nothing_is_used_and_reported_until_it_does(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    verified = kubeconfig(cluster)
    document = yaml.safe_load(verified)
    entry = document["clusters"][0]["cluster"]
    del entry["certificate-authority-data"]
    entry["insecure-skip-tls-verify"] = True
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", yaml.safe_dump(document))
        await condition(client, namespace, "c1", "Ready", "True", "Connected")
        told = await condition(client, namespace, "c1", "Secure", "False", "InsecureKubeconfig")
        assert "insecure-skip-tls-verify is true" in told["message"]
        await rewrite(client, namespace, "c1", verified)
        await condition(client, namespace, "c1", "Secure", "True", "Verified")
        await condition(client, namespace, "c1", "Ready", "True", "Connected")


async def unheld(client: Client, namespace: str, name: str) -> bool:
    metadata = (await client.get(SECRETS, name, namespace))["metadata"]
    return not metadata.get("finalizers") and not metadata.get("labels")


async def disconnected(deps: Any, key: tuple[str, str]) -> bool:
    return deps.targets.get(key) is None


@pytest.mark.parametrize(
    ("data", "want_reason", "want_words"),
    [
        pytest.param(None, "SecretNotFound", "create it with a kubeconfig under key 'config'", id="no secret"),
        pytest.param({"other": "x"}, "KeyNotFound", "has no key 'config' (it has: other)", id="no such key"),
        pytest.param({"config": "{"}, "InvalidKubeconfig", "neither YAML nor JSON", id="not a kubeconfig"),
        pytest.param({"config": "{}"}, "InvalidKubeconfig", "no current-context", id="an empty kubeconfig"),
    ],
)
async def test_a_target_without_usable_credentials_says_so_and_others_work(
    cluster: Cluster,
    client: Client,
    namespace: str,
    data: dict[str, str] | None,
    want_reason: str,
    want_words: str,
) -> None:
    if data is not None:
        await client.create(SECRETS, secret("bad", namespace, **data))
    async with running(cluster, *CONTROLLERS):
        await client.create(TARGETS, target("bad", namespace))
        await add(client, namespace, "good", kubeconfig(cluster))
        found = await condition(client, namespace, "bad", "Ready", "False", want_reason)
        assert want_words in found["message"]
        (event,) = await until(lambda: events(client, namespace, "bad"))
        assert (event["type"], event["reason"]) == ("Warning", want_reason)
        await condition(client, namespace, "good", "Ready", "True")
        # The missing Secret is created.
        if data is None:
            await client.create(SECRETS, secret("bad", namespace, config=kubeconfig(cluster)))
        else:
            await rewrite(client, namespace, "bad", kubeconfig(cluster))
        await condition(client, namespace, "bad", "Ready", "True")
        for name in ("bad", "good"):
            await client.delete(TARGETS, name, namespace)
            await gone(partial(client.get, TARGETS, name, namespace))


async def test_a_wrong_token_a_missing_right_and_a_closed_port_are_told_apart(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "weak", "namespace": namespace}})
    request = {"metadata": {"name": "weak", "namespace": namespace}, "spec": {}}
    answer = await client.create(SERVICE_ACCOUNTS, request, sub="token")
    weak = kubeconfig(cluster, user={"token": answer["status"]["token"]})
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "wrong", kubeconfig(cluster, user={"token": "wrong"}))
        await add(client, namespace, "weak", weak)
        await add(client, namespace, "closed", kubeconfig(cluster, server=CLOSED))
        found = await condition(client, namespace, "wrong", "Authorized", "False", "Unauthorized")
        assert "renew the kubeconfig Secret" in found["message"]
        await condition(client, namespace, "wrong", "Reachable", "True")
        found = await condition(client, namespace, "weak", "Authorized", "False", "Forbidden")
        assert "create a Source there" in found["message"]
        found = await condition(client, namespace, "closed", "Reachable", "False", "Unreachable")
        assert "127.0.0.1:1" in found["message"]
        assert "object at" not in found["message"]
        before = (await client.get(TARGETS, "closed", namespace))["metadata"]["resourceVersion"]
        # None of them was ever ready: no pod can run in them, and they are deleted at once.
        for name in ("wrong", "weak"):
            await client.delete(TARGETS, name, namespace)
            await gone(partial(client.get, TARGETS, name, namespace))
        assert (await client.get(TARGETS, "closed", namespace))["metadata"]["resourceVersion"] == before


async def test_new_credentials_are_taken_up_and_a_lost_target_says_so(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        await rewrite(client, namespace, "c1", kubeconfig(cluster, server=CLOSED))
        await condition(client, namespace, "c1", "Reachable", "False")
        await rewrite(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")


async def test_another_secret_takes_the_place_of_the_first(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, *CONTROLLERS) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        await until(lambda: held(client, SECRETS, namespace, "c1"))
        await client.create(SECRETS, secret("c2", namespace, other=kubeconfig(cluster)))
        spec = {"kubeconfigSecret": {"name": "c2", "key": "other"}}
        await client.patch(TARGETS, "c1", {"spec": spec}, namespace)
        await until(lambda: held(client, SECRETS, namespace, "c2"))
        await until(lambda: unheld(client, namespace, "c1"))
        watched = [one for one in deps.local.informers if (one.kind, one.namespace) == (SECRETS, namespace)]
        assert len(watched) == 1


async def test_this_cluster_can_be_its_own_target(cluster: Cluster, client: Client, namespace: str) -> None:
    manifest = target(namespace, namespace, self=True)
    manifest["kind"] = "ClusterTarget"
    async with running(cluster, *CONTROLLERS) as deps:
        await client.create(CLUSTER_TARGETS, {**manifest, "metadata": {"name": namespace}})
        await until(lambda: ready(deps, ("", namespace)))
        await client.delete(CLUSTER_TARGETS, namespace)
        await gone(lambda: client.get(CLUSTER_TARGETS, namespace))


async def ready(deps: Any, key: tuple[str, str]) -> bool:
    found = deps.targets.get(key)
    return found is not None and found.ready


async def test_a_restarted_agent_writes_nothing(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        # No agent runs in the target, which is detected a moment later.
        await condition(client, namespace, "c1", "AgentReady", "Unknown")
        await until(lambda: held(client, SECRETS, namespace, "c1"))
    before = await as_they_are(client, namespace)
    async with running(cluster, *CONTROLLERS) as deps:
        await until(lambda: ready(deps, (namespace, "c1")))
        await add(client, namespace, "c2", kubeconfig(cluster))
        await condition(client, namespace, "c2", "Ready", "True")
        assert await as_they_are(client, namespace) == before


async def as_they_are(client: Client, namespace: str) -> list[Any]:
    """Return the Target and its Secret, with their versions."""
    found = [await client.get(kind, "c1", namespace) for kind in (TARGETS, SECRETS)]
    return [{**each, "metadata": each["metadata"] | {"managedFields": None}} for each in found]


def chaperon(name: str, namespace: str, cluster_uid: str) -> dict[str, Any]:
    labels = {LABEL_PARENT_UID: "some-uid", LABEL_PARENT_CLUSTER_UID: cluster_uid}
    return {
        "apiVersion": CHAPERONS.api_version,
        "kind": "PodChaperon",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "busybox"}]},
    }


async def test_a_target_being_removed_waits_until_it_is_drained(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        await client.create(PODS, proxy("there", namespace, "c1", node=virtual_node(namespace, "c1")))
        await client.create(PODS, proxy("waiting", namespace, "c1", "c2"))
        await client.create(CHAPERONS, chaperon("left", namespace, deps.cluster_uid))
        await client.delete(TARGETS, "c1", namespace)
        await client.delete(SECRETS, "c1", namespace)

        await until(lambda: terminating(client, namespace, "there"))
        await until(lambda: freed(client, namespace, "waiting", "c2"))
        await condition(client, namespace, "c1", "Drained", "False", "Draining")
        # The test plays the feedback controller, once the delegate has been deleted.
        await client.patch(PODS, "there", {"metadata": {"finalizers": None}}, namespace)
        await gone(lambda: client.get(PODS, "there", namespace))
        assert await held(client, TARGETS, namespace, "c1")
        await client.delete(CHAPERONS, "left", namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        await gone(lambda: client.get(SECRETS, "c1", namespace))
        assert not (await client.get(PODS, "waiting", namespace))["metadata"].get("deletionTimestamp")
    await client.patch(PODS, "waiting", {"metadata": {"finalizers": None}}, namespace)


async def test_a_pod_that_has_only_a_candidate_in_a_target_being_removed_is_not_deleted(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS) as deps:
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        pod = await client.create(PODS, proxy("waiting", namespace, "c1", "c2"))
        manifest = chaperon("candidate", namespace, deps.cluster_uid)
        manifest["metadata"]["annotations"] = {ANNOTATION_PARENT_NAME: "waiting"}
        manifest["metadata"]["labels"][LABEL_PARENT_UID] = pod["metadata"]["uid"]
        manifest["spec"]["schedulerName"] = SCHEDULER_CANDIDATE
        await client.create(CHAPERONS, manifest)
        await client.delete(TARGETS, "c1", namespace)
        await condition(client, namespace, "c1", "Drained", "False", "Draining")
        assert (await client.get(PODS, "waiting", namespace))["metadata"]["finalizers"] == [
            finalizer(namespace, target) for target in ("c1", "c2")
        ]
        # The test plays the scheduler, as soon as the virtual node is marked for removal.
        await client.delete(CHAPERONS, "candidate", namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        assert await freed(client, namespace, "waiting", "c2")
        assert not await terminating(client, namespace, "waiting")


async def terminating(client: Client, namespace: str, name: str) -> bool:
    return "deletionTimestamp" in (await client.get(PODS, name, namespace))["metadata"]


async def freed(client: Client, namespace: str, name: str, *left: str) -> bool:
    found = (await client.get(PODS, name, namespace))["metadata"].get("finalizers")
    return bool(found == [finalizer(namespace, target) for target in left])


@pytest.mark.parametrize("word", ["force-remove", "lost"])
async def test_a_lost_target_being_removed_frees_its_pods_and_stays_until_a_person_says_so(
    cluster: Cluster, client: Client, namespace: str, word: str
) -> None:
    async with running(cluster, *CONTROLLERS, OrphanFinalizersController, release_after=2.0):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await condition(client, namespace, "c1", "Ready", "True")
        await client.create(PODS, proxy("there", namespace, "c1", node=virtual_node(namespace, "c1")))
        await rewrite(client, namespace, "c1", kubeconfig(cluster, server=CLOSED))
        await condition(client, namespace, "c1", "Reachable", "False")
        await client.delete(TARGETS, "c1", namespace)
        found = await condition(client, namespace, "c1", "Drained", "False", "Unreachable")
        assert "may still run there" in found["message"]
        await gone(lambda: client.get(PODS, "there", namespace))
        assert await held(client, TARGETS, namespace, "c1")
        annotation = {"metadata": {"annotations": {f"multicluster/{word}": "true"}}}
        await client.patch(TARGETS, "c1", annotation, namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        await until(lambda: unheld(client, namespace, "c1"))


async def test_a_target_does_not_wait_for_pods_of_another_target_of_the_same_cluster(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS) as deps:
        for name in ("c1", "c2"):
            await add(client, namespace, name, kubeconfig(cluster))
            await condition(client, namespace, name, "Ready", "True")
        await client.create(PODS, proxy("there", namespace, "c2", node=virtual_node(namespace, "c2")))
        manifest = chaperon("of-c2", namespace, deps.cluster_uid)
        manifest["metadata"]["annotations"] = {ANNOTATION_PARENT_NAME: "there"}
        await client.create(CHAPERONS, manifest)
        await client.delete(TARGETS, "c1", namespace)
        await gone(lambda: client.get(TARGETS, "c1", namespace))
        assert not await terminating(client, namespace, "there")


async def test_a_secret_is_released_when_its_target_was_torn_away_while_no_agent_ran(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await until(lambda: held(client, SECRETS, namespace, "c1"))
    await client.patch(TARGETS, "c1", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(TARGETS, "c1", namespace)
    async with running(cluster, *CONTROLLERS):
        await until(lambda: unheld(client, namespace, "c1"))


async def test_a_deleted_secret_goes_when_nothing_needs_it(cluster: Cluster, client: Client, namespace: str) -> None:
    async with running(cluster, *CONTROLLERS):
        await add(client, namespace, "c1", kubeconfig(cluster))
        await until(lambda: held(client, SECRETS, namespace, "c1"))
        await client.delete(SECRETS, "c1", namespace)
        await gone(lambda: client.get(SECRETS, "c1", namespace))
        await condition(client, namespace, "c1", "Ready", "False", "SecretNotFound")
        assert await empty(client.list(PODS, namespace))
