"""Promise 52: a target runs what the source's admission checked, and users cannot change Flotilla's own
annotations."""

import contextlib
import copy
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import yaml

from agent.api import names
from agent.api.kinds import CHAPERONS, MUTATING_WEBHOOKS, NAMESPACES, PODS, SECRETS
from agent.api.ownroles import CONFIGURATION
from agent.kube.errors import Forbidden, Invalid, NotFound
from tests.e2e import manifests
from tests.e2e.fleet import Fleet
from tests.e2e.laterwebhook import later_webhook

Raw = dict[str, Any]

MANIFEST = names.ANNOTATION_MANIFEST
GATES = [{"name": "example.com/wait"}]
HOST = {"name": "host", "hostPath": {"path": "/"}}
SIDECAR = {"name": "proxy", "image": "mesh", "volumeMounts": [{"name": "identity", "mountPath": "/id"}]}


def restricted(name: str, annotations: Raw | None = None, **spec: Any) -> Raw:
    """Return an elected pod that passes Pod Security `restricted`."""
    pod = manifests.pod(name, annotations=annotations, **spec)
    pod["spec"]["securityContext"] = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    (container,) = pod["spec"]["containers"]
    container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return pod


def smuggled(name: str) -> Raw:
    """Return a privileged pod that its user tries to run in a target."""
    pod = manifests.pod(name, hostPID=True, volumes=[HOST])
    (container,) = pod["spec"]["containers"]
    container |= {"securityContext": {"privileged": True}, "volumeMounts": [{"name": "host", "mountPath": "/host"}]}
    return pod


async def restrict(fleet: Fleet, namespace: str) -> None:
    """Make the source enforce Pod Security `restricted` in a namespace. Its targets enforce nothing."""
    label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    await fleet.source.patch(NAMESPACES, namespace, label)

    async def is_enforced() -> bool:
        try:
            await fleet.source.create(PODS, {**smuggled("tried"), "metadata": {"name": "tried"}}, namespace)
        except Forbidden as error:
            return "restricted" in error.message
        await fleet.source.delete(PODS, "tried", namespace)
        return False

    await fleet.until("Pod Security is enforced", is_enforced)


async def delegate_of(fleet: Fleet, namespace: str, app: str) -> tuple[str, Raw]:
    """Return the cluster and the delegate of an app's only pod, once the pod runs."""
    (proxy,) = await fleet.running(namespace, app, 1)
    return (await fleet.delegates(namespace))[proxy["metadata"]["uid"]]


def is_harmless(delegate: Raw) -> bool:
    spec = delegate["spec"]
    (container,) = spec["containers"]
    return (
        "hostPID" not in spec
        and not any("hostPath" in volume for volume in spec["volumes"])
        and spec["securityContext"]["runAsNonRoot"] is True
        and container["securityContext"]["allowPrivilegeEscalation"] is False
        and "privileged" not in container["securityContext"]
    )


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["as json", "as yaml"])
async def test_a_handmade_manifest_brings_nothing_past_pod_security(fleet: Fleet, namespace: str, write: Any) -> None:
    await restrict(fleet, namespace)
    pod = restricted("a", {MANIFEST: write({**smuggled("a"), "kind": "Pod"})})
    await fleet.source.create(PODS, pod, namespace)
    _, delegate = await delegate_of(fleet, namespace, "a")
    assert is_harmless(delegate)


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_a_manifest_that_is_changed_while_the_pod_waits_brings_nothing_either(
    fleet: Fleet, namespace: str
) -> None:
    await restrict(fleet, namespace)
    await fleet.source.create(PODS, restricted("a", schedulingGates=GATES), namespace)
    text = json.dumps({**smuggled("a"), "kind": "Pod"})
    changed = {"metadata": {"annotations": {MANIFEST: text}}}
    with pytest.raises(Forbidden, match=r"sourcepod-manifest\] of pod a: only the agent of Flotilla changes it"):
        await fleet.source.patch(PODS, "a", changed, namespace)
    # Without admission policies a user could do this, too: the policies treat this request as the agent's.
    as_agent = f"--as=system:serviceaccount:{fleet.home}:flotilla-agent"
    await fleet.kubectl("cd", as_agent, "-n", namespace, "annotate", "--overwrite", "pod", "a", f"{MANIFEST}={text}")
    await fleet.source.patch(PODS, "a", {"spec": {"schedulingGates": []}}, namespace)
    _, delegate = await delegate_of(fleet, namespace, "a")
    assert is_harmless(delegate)


def meshed(pod: Raw) -> Raw:
    """Mutate a pod like a service mesh: another registry, and a sidecar with a Secret of the source."""
    made = copy.deepcopy(pod)
    spec = made["spec"]
    if any(each["name"] == SIDECAR["name"] for each in spec["containers"]):
        return made
    for container in spec["containers"]:
        container["image"] = "mirror.example.com/busybox"
        container["env"] = [{"name": "MIRRORED", "value": "yes"}]
    spec["containers"].append(SIDECAR)
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "identity", "secret": {"secretName": "identity"}}]
    made["metadata"]["annotations"] = {**made["metadata"].get("annotations", {}), "mesh.example.com/status": "on"}
    return made


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_what_later_webhooks_change_is_there_from_the_start_and_what_they_add_stays_unless_asked_for(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(SECRETS, {"metadata": {"name": "identity"}}, namespace)
    async with later_webhook(fleet, namespace, meshed):
        await fleet.source.create(PODS, manifests.pod("stays"), namespace)
        cluster, stays = await delegate_of(fleet, namespace, "stays")
        with pytest.raises(NotFound):
            await fleet.clients[cluster].get(SECRETS, "identity", namespace)
        asks = manifests.pod("follows", annotations={"multicluster/injected": "follow"})
        await fleet.source.create(PODS, asks, namespace)
        cluster, follows = await delegate_of(fleet, namespace, "follows")
        await fleet.clients[cluster].get(SECRETS, "identity", namespace)
        annotated = {"metadata": {"annotations": {"multicluster/injected": "follow"}}}
        await fleet.source.patch(NAMESPACES, namespace, annotated)

        async def follows_by_namespace() -> bool:
            """Return True if a new delegate has the added container; agents receive the annotation with a
            delay."""
            await fleet.source.create(PODS, manifests.pod("by-namespace"), namespace)
            _, delegate = await delegate_of(fleet, namespace, "by-namespace")
            if "proxy" in containers(delegate):
                return True
            await fleet.source.delete(PODS, "by-namespace", namespace)
            await fleet.gone(PODS, "by-namespace", namespace)
            return False

        await fleet.until("containers that were added follow by the namespace's word", follows_by_namespace)
    assert containers(stays) == ["main"]
    assert "identity" not in [volume["name"] for volume in stays["spec"]["volumes"]]
    assert containers(follows) == ["main", "proxy"]
    for delegate in (stays, follows):
        assert delegate["spec"]["containers"][0]["image"] == "mirror.example.com/busybox"
        assert delegate["metadata"]["annotations"]["mesh.example.com/status"] == "on"
    await nothing_was_changed_since(fleet, namespace, "stays")


def meshed_without_mark(pod: Raw) -> Raw:
    """Mutate like `meshed` and remove a label of Flotilla's webhook, which only a second webhook call restores."""
    made = meshed(pod)
    made["metadata"].get("labels", {}).pop(names.LABEL_HAS_FINALIZER, None)
    return made


@contextlib.asynccontextmanager
async def asked_again(fleet: Fleet) -> AsyncIterator[None]:
    """Make the API server call Flotilla's webhook again after other webhooks have changed a pod."""
    found = await fleet.source.get(MUTATING_WEBHOOKS, CONFIGURATION)

    async def have(policy: str) -> None:
        webhooks = [{"name": each["name"], "reinvocationPolicy": policy} for each in found["webhooks"]]
        await fleet.source.patch(MUTATING_WEBHOOKS, CONFIGURATION, {"webhooks": webhooks}, style="strategic")

    await have("IfNeeded")
    try:
        yield
    finally:
        await have("Never")


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_asked_again_our_webhook_knows_what_was_there_before_others(fleet: Fleet, namespace: str) -> None:
    async with later_webhook(fleet, namespace, meshed_without_mark), asked_again(fleet):

        async def again() -> Raw:
            await fleet.source.create(PODS, manifests.pod("a", schedulingGates=GATES), namespace)
            proxy = await fleet.source.get(PODS, "a", namespace)
            if proxy["metadata"]["labels"].get(names.LABEL_HAS_FINALIZER) == "true":
                return proxy
            await fleet.source.delete(PODS, "a", namespace)
            await fleet.gone(PODS, "a", namespace)
            return {}

        proxy = await fleet.until("the webhook is asked again", again, about=namespace)
    assert containers(proxy) == ["main", "proxy"]
    assert containers(json.loads(proxy["metadata"]["annotations"][MANIFEST])) == ["main"]
    await fleet.source.patch(PODS, "a", {"spec": {"schedulingGates": []}}, namespace)
    _, delegate = await delegate_of(fleet, namespace, "a")
    assert containers(delegate) == ["main"]
    assert delegate["spec"]["containers"][0]["image"] == "mirror.example.com/busybox"


def containers(pod: Raw) -> list[str]:
    return [each["name"] for each in pod["spec"]["containers"]]


async def nothing_was_changed_since(fleet: Fleet, namespace: str, app: str) -> None:
    """Check that a delegate's spec is as created, even after the agents have compared it with the live pod."""
    await fleet.source.patch(PODS, app, {"metadata": {"labels": {"late": "yes"}}}, namespace)

    async def followed() -> Raw:
        _, delegate = await delegate_of(fleet, namespace, app)
        return delegate if delegate["metadata"]["labels"].get(names.PREFIX + "late") == "yes" else {}

    delegate = await fleet.until("a label of the live pod arrives", followed, about=namespace)
    assert {"name": "MIRRORED", "value": "yes"} in delegate["spec"]["containers"][0]["env"]
    cluster, _ = await delegate_of(fleet, namespace, app)
    chaperon = await fleet.clients[cluster].get(CHAPERONS, delegate["metadata"]["name"], namespace)
    told = json.loads(chaperon["metadata"]["annotations"][names.ANNOTATION_LIVE_CHANGES])
    assert told.keys() == {"labels", "original"}


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_a_proxy_pod_from_a_backup_begins_anew_and_runs(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a", nodeSelector={manifests.REGION: "eu"}), namespace)
    (kept,) = await fleet.running(namespace, "a", 1)
    await fleet.source.delete(PODS, "a", namespace)
    await fleet.gone(PODS, "a", namespace)
    metadata = {key: kept["metadata"][key] for key in ("name", "labels", "annotations", "finalizers")}
    metadata["annotations"] |= {names.ANNOTATION_ATTEMPTS: "{}", names.ANNOTATION_CREATED_BY: "somebody"}
    assert names.ANNOTATION_CLAIM in metadata["annotations"]
    spec = {key: value for key, value in kept["spec"].items() if key != "nodeName"}
    body = {"metadata": metadata, "spec": {**spec, "schedulingGates": GATES}}
    restored = await fleet.source.create(PODS, body, namespace)
    notes = restored["metadata"]["annotations"]
    assert not names.STATE_OF_PROXY & notes.keys()
    assert notes[names.ANNOTATION_CREATED_BY] == "flotilla-admin"
    assert notes[MANIFEST] == kept["metadata"]["annotations"][MANIFEST]
    await fleet.source.patch(PODS, "a", {"spec": {"schedulingGates": []}}, namespace)
    cluster, delegate = await delegate_of(fleet, namespace, "a")
    assert cluster == "eu"
    assert delegate["spec"]["nodeSelector"] == {manifests.REGION: "eu"}
    assert delegate["spec"]["terminationGracePeriodSeconds"] == 5


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_a_copy_to_debug_a_pod_with_runs_with_its_debugger(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("a", nodeSelector={manifests.REGION: "eu"}), namespace)
    await fleet.running(namespace, "a", 1)
    copied = ("debug", "a", "--copy-to=copy", "--image=tools", "--container=debugger", "--share-processes")
    await fleet.kubectl("cd", "-n", namespace, *copied, "--", "sleep", "60")

    async def runs() -> Raw:
        pod = await fleet.source.get(PODS, "copy", namespace)
        return pod if pod["status"]["phase"] == "Running" else {}

    proxy = await fleet.until("the copy runs", runs, about=namespace)
    _, delegate = (await fleet.delegates(namespace))[proxy["metadata"]["uid"]]
    assert containers(delegate) == ["main", "debugger"]
    assert delegate["spec"]["shareProcessNamespace"] is True


async def test_proxy_pods_are_made_by_the_webhook_alone(fleet: Fleet, namespace: str) -> None:
    proxy = manifests.pod("a", elect=None, schedulerName=names.SCHEDULER_PROXY)
    made_up = {MANIFEST: json.dumps(proxy), names.ANNOTATION_CLAIM: "admiralty-x", names.ANNOTATION_CREATED_BY: "jane"}
    async with fleet.namespace((), enabled=False) as elsewhere:
        remedy = f"remove the field, .* label namespace {elsewhere} multicluster-scheduler=enabled"
        with pytest.raises(Forbidden, match=f"namespace {elsewhere} is not enabled, .*: {remedy}"):
            await fleet.source.create(PODS, proxy, elsewhere)
        await fleet.source.create(PODS, manifests.pod("b"), elsewhere)
    owner = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "name": "x", "uid": "x", "controller": True}
    unseen = {**proxy, "metadata": {"name": "c", "annotations": made_up, "ownerReferences": [owner]}}
    with pytest.raises(Invalid, match="a pod of a PodChaperon runs in this cluster"):
        await fleet.source.create(PODS, unseen, namespace)
    mine = manifests.pod("d", annotations=made_up, schedulingGates=GATES)
    notes = (await fleet.source.create(PODS, mine, namespace))["metadata"]["annotations"]
    assert not names.STATE_OF_PROXY & notes.keys()
    assert notes[names.ANNOTATION_CREATED_BY] == "flotilla-admin"


@pytest.mark.full("A variant of the tests of a handmade manifest.")
async def test_what_agent_and_webhook_have_noted_is_not_for_others_and_all_else_is(
    fleet: Fleet, namespace: str
) -> None:
    await fleet.source.create(PODS, manifests.pod("a"), namespace)
    await fleet.running(namespace, "a", 1)
    removed = dict.fromkeys((MANIFEST, names.ANNOTATION_CREATED_BY, names.ANNOTATION_CLAIM))
    for key, value in (*dict.fromkeys(names.OURS_ON_PROXY, "another").items(), *removed.items()):
        for sub in (None, "status"):
            changed = {"metadata": {"annotations": {key: value}}}
            with pytest.raises(Forbidden, match=rf"{key}\] of pod a: only the agent of Flotilla changes it"):
                await fleet.source.patch(PODS, "a", changed, namespace, sub=sub)
    await fleet.kubectl("cd", "-n", namespace, "annotate", "pod", "a", "example.com/mine=x", "multicluster/weight=1")
    await fleet.kubectl("cd", "-n", namespace, "label", "pod", "a", "tier=front")
    (pod,) = await fleet.pods(namespace, "a")
    finalizers = [*pod["metadata"]["finalizers"], "example.com/held"]
    for held in (finalizers, finalizers[:-1]):
        await fleet.source.patch(PODS, "a", {"metadata": {"finalizers": held}}, namespace)
    plain = manifests.pod("plain", elect=None, annotations={names.ANNOTATION_CLAIM: "x"})
    await fleet.source.create(PODS, plain, namespace)
    await fleet.source.patch(PODS, "plain", {"metadata": {"annotations": {names.ANNOTATION_CLAIM: "y"}}}, namespace)
    await fleet.source.delete(PODS, "a", namespace)
    await fleet.gone(PODS, "a", namespace)
