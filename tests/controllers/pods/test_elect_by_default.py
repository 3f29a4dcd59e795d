"""The controller that mirrors an annotation of namespaces to a label, on a real API server."""

from typing import Any

import pytest

from agent.api.kinds import EVENTS, NAMESPACES
from agent.kube.client import Client
from agent.pods.elect_by_default import ElectByDefaultController
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.waiting import until

pytestmark = pytest.mark.cluster

KEY = "multicluster/elect-by-default"


async def write(client: Client, namespace: str, **fields: dict[str, str | None]) -> None:
    await client.patch(NAMESPACES, namespace, {"metadata": fields})


async def labelled(client: Client, namespace: str, want: str | None) -> None:
    async def probe() -> bool:
        labels = (await client.get(NAMESPACES, namespace))["metadata"]["labels"]
        return bool(labels.get(KEY) == want)

    await until(probe)


async def test_the_label_follows_the_annotation(cluster: Cluster, client: Client, namespace: str) -> None:
    await write(client, namespace, labels={"multicluster-scheduler": "enabled"})
    async with running(cluster, ElectByDefaultController):
        await write(client, namespace, annotations={KEY: "true"})
        await labelled(client, namespace, "true")
        await write(client, namespace, labels={KEY: None})
        await labelled(client, namespace, "true")
        await write(client, namespace, annotations={KEY: None})
        await labelled(client, namespace, None)
        await write(client, namespace, labels={KEY: "true"})
        await labelled(client, namespace, None)


async def test_what_was_asked_while_no_agent_ran_is_done_at_its_start(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await write(client, namespace, labels={"multicluster-scheduler": "enabled"}, annotations={KEY: "true"})
    async with running(cluster, ElectByDefaultController):
        await labelled(client, namespace, "true")


async def test_a_namespace_that_is_not_enabled_is_left_alone(cluster: Cluster, client: Client, namespace: str) -> None:
    await write(client, namespace, annotations={KEY: "true"})
    async with running(cluster, ElectByDefaultController):
        other = f"{namespace}-enabled"
        metadata = {"name": other, "labels": {"multicluster-scheduler": "enabled"}, "annotations": {KEY: "true"}}
        await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        await labelled(client, other, "true")
        await labelled(client, namespace, None)
        await client.delete(NAMESPACES, other)


async def test_a_value_that_means_nothing_is_told_in_an_event(cluster: Cluster, client: Client, namespace: str) -> None:
    await write(client, namespace, labels={"multicluster-scheduler": "enabled"}, annotations={KEY: "yes"})

    async def told() -> list[dict[str, Any]]:
        events = await client.list(EVENTS, "default")
        return [event for event in events if event["involvedObject"]["name"] == namespace]

    async with running(cluster, ElectByDefaultController):
        (event,) = await until(told)
    assert event["reason"] == "InvalidAnnotation"
    assert "'yes'" in event["message"]
