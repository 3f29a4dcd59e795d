"""The verbs of `flotilla hub` against a hub at work: tokens, requests, acceptance, rejection, replacement, removal."""

import asyncio
import json
from typing import Any

import pytest
import yaml

from agent.api.kinds import CERTIFICATE_REQUESTS, CONFIGMAPS, LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS, NAMESPACES
from agent.cli.hubs.members import Members
from agent.cli.options import Failed
from agent.kube.errors import Forbidden, NotFound
from tests.cli.command import Told, flotilla
from tests.controllers.hub.conftest import ACCEPTED, Hub
from tests.controllers.hub.test_registration import WORKS, work
from tests.ocm import object_of
from tests.registrationagent import LEASE, RegistrationAgent
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


async def typed(hub: Hub, *words: str) -> Told:
    return await flotilla("hub", *words, "--kubeconfig", str(hub.admin))


async def agent_of(hub: Hub, cluster: str, *flags: str, name: str = "agent") -> RegistrationAgent:
    """Return an agent with the bootstrap kubeconfig that the verb prints."""
    status, output, errors = await typed(hub, "token", cluster, "--as", "kubeconfig", *flags)
    assert status == 0, errors
    document = yaml.safe_load(output)
    return RegistrationAgent(cluster, document["clusters"][0]["cluster"], document["users"][0]["user"], agent=name)


@pytest.fixture
async def public(hub: Hub) -> None:
    """Publish the hub's address."""
    try:
        await hub.client.get(CONFIGMAPS, "cluster-info", "kube-public")
    except NotFound:
        status, output, errors = await typed(hub, "init", "--allow-loopback")
        assert status == 0, errors
        assert f"clusters reach this hub at {hub.entry['server']}" in output


async def accepted(hub: Hub, cluster: str, name: str = "agent", *flags: str) -> RegistrationAgent:
    """Let an agent join as a person does with the verbs."""
    agent = await agent_of(hub, cluster, name=name)
    await agent.register()
    request = await agent.request()
    status, output, errors = await typed(hub, "accept", cluster, "--key", agent.fingerprint, *flags)
    assert status == 0, errors
    assert agent.fingerprint in output
    await agent.signed(request)
    return agent


async def test_a_hub_is_made_twice_and_anybody_with_a_token_reads_its_address(hub: Hub, public: None) -> None:
    status, output, _ = await typed(hub, "init", "--allow-loopback")
    assert (status, "which existed" in output) == (0, True)
    cluster = hub.name()
    agent = await agent_of(hub, cluster)
    assert agent.hub == hub.entry
    async with agent.client() as client:
        await client.get(CONFIGMAPS, "cluster-info", "kube-public")
        with pytest.raises(Forbidden):
            await client.get(CONFIGMAPS, "kube-root-ca.crt", "kube-system")
        with pytest.raises(Forbidden):
            await client.list(MANAGED_CLUSTERS)
    status, output, _ = await typed(hub, "token", cluster)
    assert output.startswith("clusteradm join --hub-token ")
    assert output.endswith(f"--hub-apiserver {hub.entry['server']} --cluster-name {cluster}\n")


async def test_a_person_sees_who_asks_and_accepts_one_key(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent, thief = await agent_of(hub, cluster, name="a"), await agent_of(hub, cluster, name="b")
        await agent.register()
        request, stolen = await agent.request(), await thief.request()
        _, output, _ = await typed(hub, "requests", cluster, "-o", "json")
        asked = {each["name"]: each for each in json.loads(output)["requests"]}
        assert {name: (each["key"], each["state"]) for name, each in asked.items()} == {
            request: (agent.fingerprint, "waits"),
            stolen: (thief.fingerprint, "waits"),
        }
        status, _, errors = await typed(hub, "accept", cluster)
        assert status == 1
        assert f"several agents ask to be {cluster}" in errors
        status, _, errors = await typed(hub, "accept", cluster, "--key", "sha256:" + "0" * 64)
        assert (status, "another one asks by this name" in errors) == (1, True)
        status, _, errors = await typed(hub, "accept", cluster, "--key", agent.fingerprint[:30])
        assert status == 0, errors
        await agent.signed(request)
        status, output, _ = await typed(hub, "reject", cluster, "--key", thief.fingerprint)
        assert (status, stolen in output) == (0, True)
        await hub.condition(cluster, ACCEPTED, "True")
    conditions = (await hub.client.get(CERTIFICATE_REQUESTS, stolen))["status"]["conditions"]
    assert [each["type"] for each in conditions] == ["Denied"]


async def test_a_request_that_takes_the_name_of_the_accepted_one_is_not_approved(hub: Hub, public: None) -> None:
    cluster = hub.name()
    agent, thief = await agent_of(hub, cluster, name="a"), await agent_of(hub, cluster, name="b")
    await agent.register()
    request = await agent.request()

    async def replace(line: str) -> None:
        """Replace the request while the verb waits for the hub, which is not at work yet."""
        await hub.client.delete(CERTIFICATE_REQUESTS, request)
        manifest = thief.manifest()
        manifest["metadata"] |= {"name": request, "generateName": ""}
        async with thief.client() as client:
            await client.create(CERTIFICATE_REQUESTS, manifest)

    replaced: list[asyncio.Task[None]] = []
    members = Members(hub.client, 30.0, lambda line: replaced.append(asyncio.ensure_future(replace(line))))
    accepting = asyncio.ensure_future(members.accept(cluster, agent.fingerprint, replace=False))
    await until(lambda: bool(replaced))
    await replaced[0]
    async with hub.at_work():
        with pytest.raises(Failed, match="has been replaced by another one"):
            await accepting
    assert "conditions" not in ((await hub.client.get(CERTIFICATE_REQUESTS, request)).get("status") or {})


async def test_a_token_that_accepts_needs_no_person(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await agent_of(hub, cluster, "--accept")
        await agent.register()
        await agent.signed(await agent.request())
        await hub.condition(cluster, ACCEPTED, "True")


async def test_a_new_agent_of_a_member_takes_all_rights_from_the_former(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        former = await accepted(hub, cluster, "a")
        agent = await agent_of(hub, cluster, name="b")
        request = await agent.request()
        async with hub.serving(former):
            pass
        status, _, errors = await typed(hub, "accept", cluster)
        assert (status, "has joined already" in errors) == (1, True)
        status, _, errors = await typed(hub, "accept", cluster, "--key", agent.fingerprint)
        assert status == 0, errors
        await agent.signed(request)
        async with agent.client() as client:
            await until(lambda: client.get(LEASES, LEASE, cluster), forgiven=Forbidden)
            await agent.renew()
        async with former.client() as client:
            for refused in (
                client.get(MANAGED_CLUSTERS, cluster),
                client.get(LEASES, LEASE, cluster),
                client.list(MANIFEST_WORKS, cluster),
                client.create(CERTIFICATE_REQUESTS, former.manifest()),
            ):
                with pytest.raises(Forbidden):
                    await refused


async def test_another_cluster_takes_the_place_of_a_member(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        former = await accepted(hub, cluster, "a")
        await hub.client.create(MANIFEST_WORKS, work("w", cluster))
        uid = (await hub.get(cluster))["metadata"]["uid"]
        same = await agent_of(hub, cluster, name="a")
        await same.request()
        status, _, errors = await typed(hub, "accept", cluster, "--key", same.fingerprint, "--replace")
        assert (status, "has the same ID as the former" in errors) == (1, True)
        await accepted(hub, cluster, "b", "--replace")
        assert (await hub.get(cluster))["metadata"]["uid"] != uid
        async with former.client() as client:
            with pytest.raises(Forbidden):
                await client.get(MANAGED_CLUSTERS, cluster)
    with pytest.raises(NotFound):
        await hub.client.get(MANIFEST_WORKS, "w", cluster)


async def test_a_removed_member_has_no_rights_if_its_cluster_joins_again_by_a_token(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        former = await accepted(hub, cluster, "a")
        status, _, errors = await typed(hub, "remove", cluster)
        assert status == 0, errors
        agent = await agent_of(hub, cluster, "--accept", name="b")
        await agent.register()
        await agent.signed(await agent.request())
        async with agent.client() as client:
            await until(lambda: client.get(LEASES, LEASE, cluster), forgiven=Forbidden)
        async with former.client() as client:
            with pytest.raises(Forbidden):
                await client.get(MANAGED_CLUSTERS, cluster)


async def test_a_removed_member_does_not_limit_the_next_that_kubectl_accepts(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await accepted(hub, cluster, "a")
        status, _, errors = await typed(hub, "remove", cluster)
        assert status == 0, errors
        agent = await hub.joined(cluster, agent="b")
        async with agent.client() as client:
            await until(lambda: client.get(LEASES, LEASE, cluster), forgiven=Forbidden)


async def test_a_cluster_that_is_being_deleted_is_not_accepted(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await accepted(hub, cluster)
        await hub.client.create(MANIFEST_WORKS, work("w", cluster, finalizers=[WORKS]))
        await hub.client.delete(MANAGED_CLUSTERS, cluster)
        agent = await agent_of(hub, cluster, name="b")
        request = await agent.request()
        status, _, errors = await typed(hub, "accept", cluster, "--key", agent.fingerprint)
        assert (status, f"ManagedCluster {cluster} is being deleted" in errors) == (1, True), errors
        status, _, errors = await typed(hub, "remove", cluster, "--abandon")
        assert status == 0, errors
    assert "conditions" not in ((await hub.client.get(CERTIFICATE_REQUESTS, request)).get("status") or {})


async def test_a_member_is_rejected_and_removed(hub: Hub, public: None) -> None:
    cluster = hub.name()
    async with hub.at_work():
        await accepted(hub, cluster)
        status, output, _ = await typed(hub, "reject", cluster)
        assert (status, "is no longer accepted" in output) == (0, True)
        await hub.condition(cluster, ACCEPTED, "False", "HubClusterAdminDenied")
        await hub.client.create(MANIFEST_WORKS, work("w", cluster, finalizers=[WORKS]))
        status, _, errors = await typed(hub, "remove", cluster, "--timeout", "3s")
        assert status == 1
        assert f"w waits for {WORKS}" in errors
        status, output, errors = await typed(hub, "remove", cluster, "--abandon")
        assert status == 0, errors
        await gone(lambda: hub.get(cluster))
        await hub.client.get(NAMESPACES, cluster)


async def test_a_name_that_no_cluster_can_have_is_refused(hub: Hub, public: None) -> None:
    for name in ("Not_A.Name", "registration", "work"):
        status, _, errors = await typed(hub, "token", name)
        assert (status, "is no name of a cluster" in errors) == (1, True)
    for name in ("registration", "work"):
        with pytest.raises(Forbidden, match="a ClusterRole that all members share"):
            await hub.client.create(MANAGED_CLUSTERS, object_of(MANAGED_CLUSTERS, name, spec={}))
