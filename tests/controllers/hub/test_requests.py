"""Certificate requests of members on a real API server with a real signer: what is approved, and what is said."""

from typing import Any

import pytest

from agent.api.kinds import CERTIFICATE_REQUESTS, MANAGED_CLUSTERS
from agent.hub.requests import RequestController
from agent.kube.errors import Forbidden
from tests.controllers.hub.conftest import ACCEPTED, Hub
from tests.ocm import object_of
from tests.registrationagent import COMMON, RegistrationAgent
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


async def is_approved(hub: Hub, request: str) -> bool:
    found = await hub.client.get(CERTIFICATE_REQUESTS, request)
    return any(each["type"] == "Approved" for each in (found.get("status") or {}).get("conditions") or ())


async def test_a_member_renews_its_certificate_with_another_key(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        before = agent.certificate
        await agent.renew()
        assert agent.certificate != before
        async with agent.client() as client:
            await client.get(MANAGED_CLUSTERS, cluster)
            (found,) = [
                each
                for each in await client.list(
                    CERTIFICATE_REQUESTS, labels=f"open-cluster-management.io/cluster-name={cluster}"
                )
                if each["spec"]["username"] == agent.user
            ]
    told = next(each for each in found["status"]["conditions"] if each["type"] == "Approved")
    assert told["reason"] == "AutoApprovedByHubCSRApprovingController"
    assert told["message"] == "Auto approving Managed cluster agent certificate after SubjectAccessReview."


async def test_a_denied_member_cannot_renew(hub: Hub) -> None:
    cluster = hub.name()
    async with hub.at_work():
        agent = await hub.joined(cluster)
        async with agent.client() as client:
            made = await client.create(CERTIFICATE_REQUESTS, agent.manifest())
            await until(lambda: is_approved(hub, made["metadata"]["name"]))
            await hub.accept(cluster, accepts=False)
            await hub.condition(cluster, ACCEPTED, "False")
            with pytest.raises(Forbidden):
                await client.create(CERTIFICATE_REQUESTS, agent.manifest())


async def test_a_member_cannot_forge_a_renewal_for_another_cluster(hub: Hub) -> None:
    mine, other = hub.name("us"), hub.name("us-east")
    async with hub.at_work():
        agent = await hub.joined(mine)
        await hub.joined(other)
        forged = agent.manifest(
            user=f"{COMMON}:{other}:agent",
            organisations=(f"{COMMON}:{other}", f"{COMMON}:managed-clusters"),
            label=other,
        )
        async with agent.client() as client:
            made = await client.create(CERTIFICATE_REQUESTS, forged)
        await hub.event(made["metadata"]["name"], "RequestIgnored", "which is an agent of another member")
        assert not await is_approved(hub, made["metadata"]["name"])


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"usages": ("server auth",)}, "spec.usages has server auth"),
        ({"hosts": ("kubernetes.default",)}, "asks for extensions"),
        ({"organisations": (f"{COMMON}:managed-clusters",)}, "the organisations in spec.request"),
        ({"user": "somebody"}, "the common name in spec.request"),
    ],
    ids=["usages", "names", "organisations", "user"],
)
async def test_a_request_that_breaks_a_rule_is_not_approved_and_says_which(hub: Hub, changes: Raw, rule: str) -> None:
    cluster = hub.name()
    async with hub.at_work(RequestController):
        agent = RegistrationAgent(cluster, hub.entry, {"token": await hub.token(cluster, accepts=cluster)})
        await agent.register()
        # The signer for clients refuses other usages at once, so that its own agent would never ask for them.
        manifest = agent.manifest(**changes)
        made = await hub.client.create(CERTIFICATE_REQUESTS, manifest)
        await hub.event(made["metadata"]["name"], "RequestIgnored", rule)
        assert not await is_approved(hub, made["metadata"]["name"])


async def test_a_token_for_one_name_registers_no_other(hub: Hub) -> None:
    mine, other = hub.name("mine"), hub.name("other")
    agent = await hub.agent(mine)
    thief = RegistrationAgent(other, hub.entry, agent.bootstrap)
    for attempt in (thief.register(), thief.request()):
        with pytest.raises(Forbidden, match=f'this token does not register "{other}"'):
            await attempt


async def test_a_bootstrap_token_accepts_no_cluster_by_itself(hub: Hub) -> None:
    cluster = hub.name()
    agent = await hub.agent(cluster)
    with pytest.raises(Forbidden, match="cannot update the HubAcceptsClient field"):
        await agent.register(hubAcceptsClient=True)


async def test_a_token_that_accepts_its_cluster_does_so_once(hub: Hub) -> None:
    cluster = hub.name()
    bootstrap = {"token": await hub.token(cluster, accepts=cluster)}
    agent, thief = (RegistrationAgent(cluster, hub.entry, bootstrap, agent=name) for name in ("a", "b"))
    async with hub.at_work():
        await agent.register()
        first = await agent.request()
        await agent.signed(first)
        await hub.condition(cluster, ACCEPTED, "True")
        # Whoever has stolen the token meanwhile needs a person.
        second = await thief.request()
        await hub.event(second, "WaitsForAcceptance")
        assert not await is_approved(hub, second)
        # A cluster that is denied stays denied.
        await hub.accept(cluster, accepts=False)
        third = await thief.request()
        await hub.event(third, "WaitsForAcceptance")
    assert not await is_approved(hub, third)


async def test_an_agent_that_ends_between_acceptance_and_approval_is_followed_by_one_that_approves(hub: Hub) -> None:
    cluster = hub.name()
    agent = RegistrationAgent(cluster, hub.entry, {"token": await hub.token(cluster, accepts=cluster)})
    await agent.register()
    request = await agent.request()
    uid = (await hub.client.get(CERTIFICATE_REQUESTS, request))["metadata"]["uid"]
    notes = {
        "multicluster/accepted-request": uid,
        "open-cluster-management.io/automatically-accepted-on": "2026-01-01T00:00:00Z",
    }
    body = {"metadata": {"annotations": notes}, "spec": {"hubAcceptsClient": True}}
    await hub.client.patch(MANAGED_CLUSTERS, cluster, body)
    async with hub.at_work():
        await agent.signed(request)


async def test_a_name_of_a_targets_managed_cluster_is_taken(hub: Hub) -> None:
    cluster = hub.name()
    labels = {"multicluster/ours": "true"}
    body = object_of(MANAGED_CLUSTERS, cluster, metadata={"labels": labels}, spec={"hubAcceptsClient": True})
    await hub.client.create(MANAGED_CLUSTERS, body)
    async with hub.at_work():
        agent = await hub.agent(cluster)
        await agent.register()
        request = await agent.request()
        await hub.event(request, "NameTaken", "belongs to a Target")
