"""Promise: an invalid report from one target or pod affects nothing else and is shown where users look."""

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CRDS, EVENTS, LEASES, NODES, PODS, SECRETS, TARGETS
from agent.kube.errors import StatusError
from agent.model.annotations import LIMIT
from hack.lab.sandbox.objects import apply, apply_definitions
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, condition
from tests.e2e.manifests import DEPLOYMENTS

Raw = dict[str, Any]

DIGITS = "9" * 5000
NONSENSE = {
    "an amount that is none": ({"allocatable": {"cpu": "lots"}}, "allocatable[cpu]: 'lots' is not a quantity"),
    "an amount of thousands of digits": (
        {"metadata": {"annotations": {names.ANNOTATION_NODE_SHAPES: f'[{{"allocatable":{{"cpu":"{DIGITS}"}}}}]'}}},
        "[0].allocatable[cpu]",
    ),
}


@contextlib.asynccontextmanager
async def tells_anything(fleet: Fleet, target: str) -> AsyncIterator[None]:
    """Stop a target's agent and make its API server accept any ClusterSummary, like a hostile target.

    Afterwards restore the CRD and start the agent, which publishes its nodes again."""
    client = fleet.clients[target]
    await fleet.sandbox.stop(target, "agent")
    try:
        await client.delete(LEASES, names.LEASE_CONTROLLERS, fleet.home)
        crd = await client.get(CRDS, str(CLUSTER_SUMMARIES))
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for field in ("capacity", "allocatable"):
            schema["properties"][field]["additionalProperties"] = {"x-kubernetes-int-or-string": True}
        await client.patch(CRDS, str(CLUSTER_SUMMARIES), {"spec": {"versions": crd["spec"]["versions"]}})
        yield
    finally:
        await apply_definitions(client)
        await fleet.sandbox.start(target, "agent")


async def says(fleet: Fleet, namespace: str, target: str, status: str, message: str = "") -> None:
    """Wait until the condition Ready of a Target has this status and its message contains the text."""

    async def told() -> bool:
        ready = condition(await fleet.source.get(TARGETS, target, namespace), "Ready")
        return ready.get("status") == status and message in ready["message"]

    await fleet.until(f"Ready of {target} is {status}", told, about=namespace)


@pytest.mark.usefixtures("processes_only")
async def test_a_target_that_tells_nonsense_takes_no_pods_and_the_others_do(fleet: Fleet, namespace: str) -> None:
    client = fleet.clients["eu"]
    async with tells_anything(fleet, "eu"):
        good = await client.get(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
        for number, (patch, message) in enumerate(NONSENSE.values()):
            # The API server may still validate by the old CRD for a while.
            tell = functools.partial(client.patch, CLUSTER_SUMMARIES, names.SUMMARY_NAME, patch)
            await fleet.until("nonsense is told", tell)
            await says(fleet, namespace, "eu", "False", message)
            ready = condition(await fleet.source.get(TARGETS, "eu", namespace), "Ready")
            assert ready["reason"] == "InvalidSummary"
            assert "delete it, and the agent there writes it anew" in ready["message"]
            node = await fleet.source.get(NODES, names.virtual_node(namespace, "eu"))
            assert node["status"]["allocatable"]["cpu"] == good["allocatable"]["cpu"]
            await fleet.source.create(DEPLOYMENTS, manifests.deployment(f"web-{number}", 3), namespace)
            pods = await fleet.running(namespace, f"web-{number}", 3)
            assert {pod["spec"]["nodeName"] for pod in pods} == {names.virtual_node(namespace, "us")}
            mended: Raw = {"metadata": {"annotations": good["metadata"].get("annotations")}}
            await client.patch(CLUSTER_SUMMARIES, names.SUMMARY_NAME, mended | {"allocatable": good["allocatable"]})
            await says(fleet, namespace, "eu", "True")
    await says(fleet, namespace, "eu", "True")
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("all", 4), namespace)
    pods = await fleet.running(namespace, "all", 4)
    assert {pod["spec"]["nodeName"] for pod in pods} == {names.virtual_node(namespace, each) for each in ("us", "eu")}
    await fleet.agree(namespace)


SEXAGESIMAL = "a: " + ":".join(["1"] * 100_000)
MANIFEST = names.ANNOTATION_MANIFEST
LAUGHING = "\n".join(["a0: &a0 [lol]", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(6))])


@pytest.mark.full("Tests on one API server cover the same limit.")
async def test_pods_with_endless_documents_are_refused_and_keep_nobody_waiting(fleet: Fleet, namespace: str) -> None:
    async def refused(number: int) -> str:
        with pytest.raises(StatusError) as caught:
            await fleet.source.create(
                PODS, manifests.pod(f"bad-{number}", annotations={MANIFEST: SEXAGESIMAL}), namespace
            )
        return str(caught.value)

    asked = [asyncio.create_task(refused(number)) for number in range(4)]
    good = [fleet.source.create(PODS, manifests.pod(f"good-{number}"), namespace) for number in range(4)]
    assert len(await asyncio.gather(*good)) == 4
    for told in await asyncio.gather(*asked):
        assert f"metadata.annotations[{MANIFEST}]" in told
        assert "as YAML it may have 65536 characters" in told
    for number in range(4):
        await fleet.running(namespace, f"good-{number}", 1)


@pytest.mark.full("Tests on one API server cover the same limit.")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{LAUGHING}\ncurrent-context: x\ncontexts: [{{name: *a6}}]", "with its aliases written out"),
        ("a: &a {name: [x, y]}\ncurrent-context: x\ncontexts: [{name: x, context: *a}]", "no cluster named"),
        ("current-context: x\ncontexts: [{name: x, context: {cluster: [s3cr3t]}}]", "context 'x': cluster is not text"),
    ],
    ids=["aliases of aliases", "an alias", "a list for text"],
)
async def test_a_kubeconfig_that_is_none_is_named_without_its_content(
    fleet: Fleet, namespace: str, text: str, told: str
) -> None:
    await apply(fleet.source, SECRETS, manifests.secret("bad", namespace, text))
    await apply(
        fleet.source, TARGETS, manifests.ours("Target", "bad", namespace, {"kubeconfigSecret": {"name": "bad"}})
    )
    await says(fleet, namespace, "bad", "False", told)
    ready = condition(await fleet.source.get(TARGETS, "bad", namespace), "Ready")
    assert ready["reason"] == "InvalidKubeconfig"
    assert len(ready["message"]) < 500
    assert "s3cr3t" not in ready["message"]


LATE = {"type": "example.com/Late", "status": "True"}
LARGE = {f"example.com/{name}": "x" * (kilobytes * 1024) for name, kilobytes in (("a", 100), ("b", 80), ("c", 40))}


@pytest.mark.full("Tests on one API server cover the same limit.")
async def test_annotations_that_do_not_fit_stay_behind_and_the_status_comes_home(fleet: Fleet, namespace: str) -> None:
    # The proxy pod stores the annotation twice: once in its manifest annotation.
    pod = manifests.pod("web", annotations={"example.com/mine": "x" * (20 * 1024)})
    await fleet.source.create(PODS, pod, namespace)
    await fleet.running(namespace, "web", 1)
    ((cluster, delegate),) = (await fleet.delegates(namespace)).values()
    client, name = fleet.clients[cluster], delegate["metadata"]["name"]
    await client.patch(PODS, name, {"metadata": {"annotations": LARGE}}, namespace)
    await client.patch(PODS, name, {"status": {"conditions": [LATE]}}, namespace, sub="status", style="strategic")

    async def home() -> Raw:
        found = await fleet.source.get(PODS, "web", namespace)
        return found if condition(found, LATE["type"]) else {}

    proxy = await fleet.until("the status is home", home, about=namespace)
    told = condition(proxy, "multicluster/AnnotationsHome")
    assert (told["status"], told["reason"]) == ("False", "LeftOut")
    assert "do not come home: example.com/a: " in told["message"]
    there = {key for key in LARGE if key in proxy["metadata"]["annotations"]}
    assert there == LARGE.keys() - {"example.com/a"}

    await client.patch(PODS, name, {"metadata": {"annotations": {"example.com/a": "small"}}}, namespace)

    async def whole() -> bool:
        found = await fleet.source.get(PODS, "web", namespace)
        is_told = condition(found, "multicluster/AnnotationsHome")
        return found["metadata"]["annotations"].get("example.com/a") == "small" and not is_told

    await fleet.until("all annotations are home", whole, about=namespace)


@pytest.mark.full("Tests on one API server cover the same limit.")
async def test_annotations_that_a_chaperon_has_no_room_for_stay_with_the_delegate(fleet: Fleet, namespace: str) -> None:
    await fleet.source.create(PODS, manifests.pod("web"), namespace)
    await fleet.running(namespace, "web", 1)
    ((cluster, delegate),) = (await fleet.delegates(namespace)).values()
    client, name = fleet.clients[cluster], delegate["metadata"]["name"]
    taken = sum(len(key) + len(value) for key, value in delegate["metadata"]["annotations"].items())
    # The chaperon has annotations of its own, so an annotation that just fits into the pod is too large for it.
    fill = {"example.com/fill": "x" * (LIMIT - taken - len("example.com/fill"))}
    await client.patch(PODS, name, {"metadata": {"annotations": fill}}, namespace)
    await client.patch(PODS, name, {"status": {"conditions": [LATE]}}, namespace, sub="status", style="strategic")

    async def told() -> bool:
        events = await client.list(EVENTS, namespace, fields="reason=AnnotationsLeftOut")
        return any("example.com/fill" in event["message"] for event in events)

    await fleet.until("the target's users are told", told, about=namespace)

    async def home() -> bool:
        return bool(condition(await fleet.source.get(PODS, "web", namespace), LATE["type"]))

    await fleet.until("the status is home", home, about=namespace)
