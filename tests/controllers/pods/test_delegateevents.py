"""Warnings about delegates are copied to their proxy pods, on a real API server that is both source and target."""

from typing import Any

import pytest

from agent.api.kinds import EVENTS, PODS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.pods.chaperon.controller import Chaperon
from agent.pods.events.controller import DelegateEvents
from agent.pods.feedback.controller import Feedback
from agent.scheduler.controller import ProxyScheduler
from hack.lab.sandbox import Cluster
from tests.controllers.proxies import chaperons, connected, create, elected, pod_where
from tests.controllers.starting import running
from tests.e2e.fleet import token_of
from tests.kube.relay import trusting
from tests.peers.contract import grant
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ALL = (Chaperon, Feedback, ProxyScheduler)
REASON = "FailedMount"
SELECTOR = "type=Warning,involvedObject.kind=Pod"


async def warn(client: Client, pod: Raw, name: str, **more: Any) -> None:
    """Create a Warning about a pod, as the kubelet of the node `n` does."""
    metadata = pod["metadata"]
    involved = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
    event = {
        "metadata": {"name": name},
        "involvedObject": involved,
        "type": "Warning",
        "reason": REASON,
        "message": f"cannot mount {name}",
        "source": {"component": "kubelet", "host": "n"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    await client.create(EVENTS, event | more, metadata["namespace"])


async def told(client: Client, proxy: Raw) -> list[Raw]:
    """Return the events that were copied to the proxy pod."""
    metadata = proxy["metadata"]
    found = await client.list(EVENTS, metadata["namespace"], fields=f"involvedObject.uid={metadata['uid']}")
    return [event for event in found if event["reason"] == REASON]


async def delegate_of(client: Client, namespace: str) -> Raw:
    (chaperon,) = await chaperons(client, namespace)
    return await client.get(PODS, chaperon["metadata"]["name"], namespace)


async def test_a_warning_is_told_once_with_target_and_node_also_by_the_next_agent(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL, DelegateEvents) as deps, connected(deps, client, namespace, me=None) as targets:
        await create(client, elected("web", namespace), [*targets.values()])
        proxy = await pod_where(client, namespace, "web", phase="Running")
        delegate = await delegate_of(client, namespace)
        await warn(client, delegate, "first")
        await warn(client, delegate, "quiet", type="Normal")
        await warn(client, proxy, "mine")

        async def one() -> list[Raw]:
            return [event for event in await told(client, proxy) if event["message"] != "cannot mount mine"]

        (event,) = await until(one)
        assert event["message"] == "[me/n] cannot mount first"
        assert event["type"] == "Warning"
        # The next agent does not know which events the first one copied.
        async with running(cluster, DelegateEvents) as others:
            await others.targets.connect((namespace, "me"), None, "first")
            await warn(client, delegate, "second")

            async def both() -> bool:
                return len(await one()) == 2

            await until(both)
        messages = sorted(event["message"] for event in await one())
        assert messages == ["[me/n] cannot mount first", "[me/n] cannot mount second"]
        assert [event["count"] for event in await one()] == [1, 1]


async def test_a_warning_from_before_the_agent_knew_whose_delegate_it_is_about_is_told(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with running(cluster, *ALL) as deps, connected(deps, client, namespace, me=None) as targets:
        await create(client, elected("web", namespace), [*targets.values()])
        proxy = await pod_where(client, namespace, "web", phase="Running")
        await warn(client, await delegate_of(client, namespace), "early")
        await let(client, namespace, "source", {"apiGroups": [""], "resources": ["events"], "verbs": ["list", "watch"]})
        async with running(cluster, DelegateEvents) as others:
            connection = await limited(cluster, client, namespace)
            target = await others.targets.connect((namespace, "me"), connection, "first")
            await until(lambda: bool(list(target.informer(EVENTS, fields=SELECTOR).store)))
            assert not target.ready
            await grant(client, namespace, "source")

            async def one() -> bool:
                return [event["message"] for event in await told(client, proxy)] == ["[me/n] cannot mount early"]

            await until(one)


async def let(client: Client, namespace: str, account: str, rule: Raw) -> None:
    """Create an account that has exactly this right in a namespace."""
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": account}}, namespace)
    await client.create(ROLES, {"metadata": {"name": "one"}, "rules": [rule]}, namespace)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    binding = {"metadata": {"name": "one"}, "roleRef": reference, "subjects": [subject]}
    await client.create(ROLE_BINDINGS, binding, namespace)


async def test_a_target_that_keeps_its_events_to_itself_disturbs_nothing(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    await grant(client, namespace, "source")
    async with (
        running(cluster, *ALL, DelegateEvents) as deps,
        connected(deps, client, namespace, me=await limited(cluster, client, namespace)) as targets,
    ):
        for name in ("web", "again"):
            await create(client, elected(name, namespace), [*targets.values()])
            proxy = await pod_where(client, namespace, name, phase="Running")
            assert await told(client, proxy) == []
            await client.delete(PODS, name, namespace)

        async def empty() -> bool:
            return not await client.list(PODS, namespace)

        await until(empty)


async def limited(cluster: Cluster, client: Client, namespace: str) -> Connection:
    """Connect to the cluster with the rights that Admiralty grants to sources, without events."""
    connection = load(str(cluster.kubeconfig))
    token = await token_of(client, "source", namespace)
    return Connection(connection.server, tls=trusting(connection), auth=StaticAuth(f"Bearer {token}"))
