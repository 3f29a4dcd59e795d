"""Rights in a target are checked rarely, and an unreachable target is not reported as lacking them."""

import pytest

from agent.api.kinds import SELF_ACCESS_REVIEWS, SELF_RULES_REVIEWS, TARGETS
from agent.kube.client import Client
from agent.kube.config import load
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.controllers.target_links import add, kubeconfig
from tests.controllers.targets.test_inventory import CONTROLLERS, _namespace, account, published
from tests.kube.relay import Relay
from tests.waiting import until

pytestmark = pytest.mark.cluster
__all__ = ["_namespace"]


def is_review(method: str, path: str) -> bool:
    return path in (SELF_ACCESS_REVIEWS.path(), SELF_RULES_REVIEWS.path())


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_is_there_is_published_though_the_target_does_not_say_what_may_be_brought(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with Relay.started(load(str(cluster.kubeconfig))) as relay, running(cluster, *CONTROLLERS):
        relay.err_after = is_review
        await account(client, namespace, "builder")
        await add(client, namespace, "c2", kubeconfig(cluster, server=relay.connection.server, user={}))
        await published(client, namespace, {"serviceAccounts": ["builder"], "persistentVolumeClaims": []})
        assert (await client.get(TARGETS, "c2", namespace))["status"]["follow"] == []
        relay.err_after = lambda method, path: False

        async def told() -> bool:
            return len((await client.get(TARGETS, "c2", namespace))["status"]["follow"]) == 2

        await until(told)
        before = sum(is_review(*request) for request in relay.requests)
        for number in range(3):
            await account(client, namespace, f"later-{number}")
            want = ["builder", *(f"later-{each}" for each in range(number + 1))]
            await published(client, namespace, {"serviceAccounts": want, "persistentVolumeClaims": []})
        assert sum(is_review(*request) for request in relay.requests) == before
