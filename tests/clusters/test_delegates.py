"""Delegates without their chaperon on a real API server, as the rights of a source show them."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, PODS, SERVICE_ACCOUNTS
from agent.clusters.stores.delegates import Delegates
from agent.clusters.stores.deleted_chaperons import Departure
from agent.clusters.target import Target
from agent.kube.client import Client, encode
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.store import Object
from hack.lab.sandbox import Cluster
from tests.clusters.test_target import registry
from tests.e2e.fleet import token_of
from tests.kube.relay import Relay, trusting
from tests.peers.contract import grant

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
UID = "uid-web"
OURS = names.chaperon("web", UID)


def proxy(namespace: str, *, claimed: bool = True) -> Object:
    annotations = {names.ANNOTATION_CLAIM: "eu"} if claimed else {}
    metadata = {"name": "web", "namespace": namespace, "uid": UID, "annotations": annotations}
    return Object(PODS, encode({"metadata": metadata}))


async def delegate(client: Client, namespace: str, name: str, uid: str = UID, **owner: Any) -> Raw:
    """Create a pod owned by an existing chaperon of another name, so that the garbage collector keeps the pod."""
    head = {"apiVersion": CHAPERONS.api_version, "kind": CHAPERONS.name}
    holder = await client.create(CHAPERONS, {**head, "metadata": {"name": f"of-{name}"}, "spec": {}}, namespace)
    reference = {**head, "name": f"of-{name}", "uid": holder["metadata"]["uid"], "controller": True, **owner}
    metadata = {"name": name, "labels": {names.LABEL_PARENT_UID: uid}, "ownerReferences": [reference]}
    spec = {"containers": [{"name": "main", "image": "busybox"}], "schedulerName": "nobody"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    await client.create(PODS, made, namespace)
    return holder


@contextlib.asynccontextmanager
async def target(cluster: Cluster, client: Client, namespace: str, rights: str) -> AsyncIterator[tuple[Target, Relay]]:
    """Connect to the cluster as a target with all rights, with those of Admiralty's roles, or with none."""
    admin = load(str(cluster.kubeconfig))
    upstream, token = admin, ""
    if rights != "all":
        if rights == "Admiralty's":
            await grant(client, namespace, "source")
        else:
            await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "source"}}, namespace)
        upstream = Connection(admin.server, tls=trusting(admin))
        token = await token_of(client, "source", namespace)
    async with Relay.started(upstream) as relay, registry(admin) as targets:
        server = relay.connection.server
        connection = Connection(server, auth=StaticAuth(f"Bearer {token}")) if token else Connection(server)
        yield await targets.connect((namespace, "eu"), connection, "1"), relay


def pods(relay: Relay, fits: Callable[[str], bool] = lambda path: True) -> int:
    return sum(method == "GET" and "/pods" in path and fits(path) for method, path in relay.requests)


@pytest.mark.parametrize("rights", ["all", "Admiralty's"])
async def test_a_delegate_is_found_by_the_name_of_its_chaperon_with_the_rights_of_either_agent(
    cluster: Cluster, client: Client, namespace: str, rights: str
) -> None:
    async with target(cluster, client, namespace, rights) as (eu, relay):
        asked, pod = Delegates(), proxy(namespace)
        departure = Departure(OURS, "gone", ended=False, at=0.0)
        assert not await asked.is_there(eu, pod, departure)
        assert not await asked.is_there(eu, pod, None)
        await delegate(client, namespace, OURS)
        assert await asked.is_there(eu, pod, departure)
        assert await asked.is_there(eu, pod, None)
        await client.delete(PODS, OURS, namespace, grace=0)
        assert not await asked.is_there(eu, pod, departure)
        # A read that is forbidden by name is not retried at every check.
        by_name = pods(relay, lambda path: path.endswith(OURS))
        assert (by_name, pods(relay)) == ((5, 5) if rights == "all" else (1, 6))


async def test_a_delegate_whose_chaperon_another_agent_named_is_found_by_its_pod(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with target(cluster, client, namespace, "all") as (eu, _):
        asked, pod = Delegates(), proxy(namespace, claimed=False)
        await delegate(client, namespace, "web-x7abc", "uid-another")
        assert not await asked.is_there(eu, pod, None)
        await delegate(client, namespace, "web-fghij")
        assert await asked.is_there(eu, pod, None)


async def test_a_target_that_lets_no_pods_be_seen_is_believed(cluster: Cluster, client: Client, namespace: str) -> None:
    async with target(cluster, client, namespace, "none") as (eu, relay):
        await delegate(client, namespace, OURS)
        assert not await Delegates().is_there(eu, proxy(namespace), None)
        assert pods(relay) == 2


async def test_a_pod_that_merely_has_the_name_or_was_orphaned_on_purpose_is_no_delegate(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async with target(cluster, client, namespace, "all") as (eu, _):
        asked, pod = Delegates(), proxy(namespace)
        holder = await delegate(client, namespace, OURS, "uid-another")
        assert not await asked.is_there(eu, pod, None)
        # A delegate whose labels were removed is identified by its owner.
        assert await asked.is_there(eu, pod, Departure(OURS, holder["metadata"]["uid"], ended=False, at=0.0))
        orphaned = {"metadata": {"labels": {names.LABEL_PARENT_UID: UID}, "ownerReferences": None}}
        await client.patch(PODS, OURS, orphaned, namespace)
        assert not await asked.is_there(eu, pod, None)
