"""Labels that become identical in a target of Admiralty are reported on the pod, on a real API server."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import EVENTS, PODS
from agent.kube.client import Client
from agent.pods.chaperon.controller import Chaperon
from agent.pods.feedback.controller import Feedback
from agent.scheduler.controller import ProxyScheduler
from agent.scheduler.label_collisions import REASON, message
from hack.lab.sandbox import Cluster
from tests.controllers.pods.test_livechanges import summary
from tests.controllers.proxies import connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.waiting import until

Raw = dict[str, Any]


@pytest.mark.cluster
async def test_labels_that_collide_in_a_target_of_admiralty_are_reported_on_the_pod(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with (
        summary(client),
        running(cluster, Chaperon, Feedback, ProxyScheduler) as deps,
        connected(deps, client, namespace, me=None) as targets,
    ):
        for name, labels in (("web", {"a.io/app": "x", "b.io/app": "y"}), ("db", {"a.io/app": "x", "tier": "y"})):
            pod = elected(name, namespace)
            pod["metadata"]["labels"] = labels
            await create(client, pod, [*targets.values()])
            await pod_where(client, namespace, name, phase="Running")

        async def event() -> Raw | None:
            found = await client.list(EVENTS, namespace, fields=f"reason={REASON}")
            return found[0] if found else None

        told = await until(event)
        assert told["type"] == "Warning"
        assert (told["involvedObject"]["kind"], told["involvedObject"]["name"]) == (PODS.name, "web")
        assert f"a.io/app and b.io/app become {names.PREFIX}app with the value of a.io/app" in told["message"]
        assert len(await client.list(EVENTS, namespace, fields=f"reason={REASON}")) == 1


def test_of_many_collisions_some_are_named() -> None:
    found = {f"{names.PREFIX}{number}": [f"a/{number}", f"b/{number}"] for number in range(9)}
    text = message(found, "Target eu")
    assert "no-prefix-label-regexp" in text
    assert len(text) < 1024
