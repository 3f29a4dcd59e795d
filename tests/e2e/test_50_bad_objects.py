"""Promise 50: an object that is malformed, too long or too deeply nested affects no other object."""

import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from agent.api.kinds import CHAPERONS, CLUSTER_SUMMARIES, CRDS, EVENTS, NODES, PODS, SECRETS, TARGETS
from agent.api.names import FORCE_REMOVE, LABEL_PARENT_UID, PROVIDER_KEY, SHORT_PREFIX, SUMMARY_NAME
from agent.kube.client import Client
from agent.kube.errors import Invalid, KubeError
from agent.model.nodeshapes import read_shapes
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw, condition
from tests.e2e.hostile import Hostile
from tests.e2e.manifests import DEPLOYMENTS

NESTED = 3000


def chaperon(name: str, **spec: object) -> Raw:
    """Return a PodChaperon as a source could create it."""
    metadata = {"name": name, "labels": {LABEL_PARENT_UID: "P"}}
    spec = {"containers": [{"name": "main", "image": "busybox"}], **spec}
    return {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name, "metadata": metadata, "spec": spec}


@contextlib.asynccontextmanager
async def schema_before(client: Client) -> AsyncIterator[None]:
    """Make an API server accept any spec of a PodChaperon, as the CRD did before its fields had types."""
    crd = await client.get(CRDS, str(CHAPERONS))
    versions = crd["spec"]["versions"]
    older = json.loads(json.dumps(versions))
    for field in ("spec", "status"):
        del older[0]["schema"]["openAPIV3Schema"]["properties"][field]["properties"]
    await client.patch(CRDS, str(CHAPERONS), {"spec": {"versions": older}})
    try:
        yield
    finally:
        await client.patch(CRDS, str(CHAPERONS), {"spec": {"versions": versions}})


@pytest.mark.full("Sends megabytes through a hostile target; client tests cover the limits.")
async def test_a_chaperon_with_a_field_of_another_type_is_refused_by_name(fleet: Fleet, namespace: str) -> None:
    for field, value in (("nodeName", 5), ("priority", "x"), ("schedulingGates", "x"), ("containers", {})):
        with pytest.raises(Invalid, match=rf"spec\.{field}: Invalid value"):
            await fleet.clients["us"].create(CHAPERONS, chaperon("bad", **{field: value}), namespace)


async def test_chaperons_that_cannot_be_read_stop_nobody_and_are_told(fleet: Fleet, namespace: str) -> None:
    us = fleet.clients["us"]
    await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 4), namespace)
    await fleet.running(namespace, "web", 4)
    async with schema_before(us):

        async def made() -> bool:
            return bool(await us.create(CHAPERONS, chaperon("number", nodeName=5), namespace))

        await fleet.until("the older schema holds", made, about=namespace)
        await us.create(CHAPERONS, chaperon("word", priority="x", schedulingGates="x"), namespace)
        deep = json.dumps(chaperon("deep", more="HERE")).replace('"HERE"', "[" * NESTED + "]" * NESTED)
        await us.session.request("POST", CHAPERONS.path(namespace), body=deep.encode())
    # Objects created after the unreadable ones are processed, even before the Target reports those.
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 10}}, namespace)
    await fleet.running(namespace, "web", 10)
    await fleet.agree(namespace)

    async def told() -> bool:
        readable = condition(await fleet.source.get(TARGETS, "us", namespace), "ObjectsReadable")
        return readable.get("status") == "False" and all(
            f"{namespace}/{name}" in readable["message"] for name in ("deep", "number", "word")
        )

    await fleet.until("the Target says which objects cannot be read", told, about=namespace)
    await fleet.ready(namespace, "us")

    async def event() -> bool:
        about = await us.list(EVENTS, namespace, fields="involvedObject.kind=PodChaperon,reason=Unreadable")
        return {"deep", "number", "word"} <= {each["involvedObject"]["name"] for each in about}

    await fleet.until("they say so themselves", event, about=namespace)
    for name in ("deep", "number", "word"):
        # The response contains the unreadable object, so this sends a plain request instead of using the
        # client's types.
        await us.session.request("DELETE", CHAPERONS.path(namespace, name))
        await fleet.gone(CHAPERONS, name, namespace, source="us")

    async def mended() -> bool:
        return condition(await fleet.source.get(TARGETS, "us", namespace), "ObjectsReadable").get("status") == "True"

    await fleet.until("the Target says that all can be read", mended, about=namespace)
    await fleet.source.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, namespace)
    await fleet.running(namespace, "web", 4)
    await fleet.agree(namespace)


@pytest.mark.full("Sends megabytes through a hostile target; client tests cover the limits.")
async def test_a_pod_with_events_of_megabytes_is_read_and_hides_nothing_that_comes_after_it(fleet: Fleet) -> None:
    # JSON escapes `<` in six bytes. The namespace is not shared with other clusters.
    us = fleet.clients["us"]
    node = (await us.list(NODES, labels=f"!{PROVIDER_KEY}"))[0]["metadata"]["name"]

    async def ports() -> set[str]:
        summary = await us.get(CLUSTER_SUMMARIES, SUMMARY_NAME)
        shapes = read_shapes(summary["metadata"].get("annotations"))
        return {port for shape in shapes for free in shape.free or () for port in free.ports}

    for name, port, text in (("long", 41001, "<" * (1 << 20)), ("after", 41002, "")):
        pod = manifests.pod(name, elect=None, nodeName=node)
        pod["spec"]["containers"][0] |= {"args": [text], "ports": [{"containerPort": port, "hostPort": port}]}
        await us.create(PODS, pod, "default")
        try:

            async def used(port: int = port) -> bool:
                return f"TCP/{port}" in await ports()

            await fleet.until(f"the summary knows of pod {name}", used, about="default")
        finally:
            with contextlib.suppress(KubeError):
                await us.delete(PODS, name, "default", grace=0)

    async def free() -> bool:
        return not {"TCP/41001", "TCP/41002"} & await ports()

    await fleet.until("the summary knows that they are gone", free, about="default")


CHART_LIMIT = 1 << 30
"""Bytes of memory: the chart's limit for an agent."""


@pytest.mark.full("Sends megabytes through a hostile target; client tests cover the limits.")
async def test_a_hostile_target_takes_neither_memory_nor_pods_of_the_others(fleet: Fleet, namespace: str) -> None:
    gateway = fleet.sandbox.plan.host_address
    async with Hostile.started(gateway, namespace) as hostile:
        await fleet.source.create(SECRETS, manifests.secret("hostile", namespace, hostile.kubeconfig))
        spec = {"kubeconfigSecret": {"name": "hostile"}}
        await fleet.source.create(TARGETS, manifests.ours("Target", "hostile", namespace, spec))

        async def at_work() -> bool:
            return hostile.told["events"] > 8_000 and len(hostile.told) > 8

        await fleet.until("the hostile target is asked for everything", at_work, about=namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.in_every_target("web", 20), namespace)
        await fleet.running(namespace, "web", 20)
        await fleet.agree(namespace)
        assert {cluster for cluster, _ in (await fleet.delegates(namespace)).values()} == {"us", "eu"}

        async def told() -> bool:
            readable = condition(await fleet.source.get(TARGETS, "hostile", namespace), "ObjectsReadable")
            return readable.get("status") == "False" and "more" in readable["message"]

        await fleet.until("the Target says that it makes no sense", told, about=namespace)
        metrics = dict(line.rpartition(" ")[::2] for line in (await fleet.metrics("cd")).splitlines())
        assert metrics["flotilla_leader"] == "1.0"
        assert float(metrics["process_resident_memory_bytes"]) < CHART_LIMIT
        await fleet.source.delete(DEPLOYMENTS, "web", namespace)
        await fleet.until("its pods go", lambda: fleet.is_empty(namespace), about=namespace)
    await fleet.source.patch(
        TARGETS, "hostile", {"metadata": {"annotations": {SHORT_PREFIX + FORCE_REMOVE: "true"}}}, namespace
    )
    await fleet.source.delete(TARGETS, "hostile", namespace)
    await fleet.gone(TARGETS, "hostile", namespace)
