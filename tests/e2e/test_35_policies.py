"""Promise 35: NetworkPolicies copied to a target select every delegate in it for as long as it serves.

Default-deny and a policy that allows callers by label are evaluated at each version of delegates,
EndpointSlices and policies that the target's API server stores. If a withdrawal removed labels that policies
select by, only default-deny would select a delegate that still serves. Callers are pods of the same cluster:
policies cannot select pods of other clusters by label.
"""

import functools

import pytest

from agent.api.kinds import CLUSTER_ROLES, NETWORK_POLICIES, ROLE_BINDINGS, SERVICES
from agent.api.names import FOLLOW_POLICIES, SHORT_PREFIX
from agent.api.roles import SOURCE_RULES_ROLE
from agent.kube.reviews import is_allowed
from tests.e2e import manifests, shared
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS
from tests.e2e.policyhistory import POLICIES, RECORDED, judge
from tests.e2e.recorder import recording
from tests.e2e.webpods import TARGETS, in_clusters, say
from tests.waiting import until

REPLICAS = 3


async def allow_rules(fleet: Fleet, namespace: str, target: str) -> None:
    """Allow the source to write policies in a target, and wait until the target's authorizer has observed it."""
    client, account = fleet.clients[target], {"kind": "ServiceAccount", "name": "cd", "namespace": namespace}
    role = {"apiGroup": CLUSTER_ROLES.group, "kind": CLUSTER_ROLES.name, "name": SOURCE_RULES_ROLE}
    binding = {"metadata": {"name": "rules"}, "roleRef": role, "subjects": [account]}
    await client.create(ROLE_BINDINGS, binding, namespace)
    user = {"user": f"system:serviceaccount:{namespace}:cd"}
    asked = {
        "namespace": namespace,
        "verb": "list",
        "group": NETWORK_POLICIES.group,
        "resource": NETWORK_POLICIES.plural,
    }
    probe = functools.partial(is_allowed, client, user, asked)
    await fleet.until(f"{target} allows the source's policies", probe, about=namespace)


async def policies_follow(fleet: Fleet, namespace: str) -> None:
    """Create the policies in the source, and wait for their copies."""
    for target in ("us", "eu"):
        await allow_rules(fleet, namespace, target)
    for name, spec in POLICIES.items():
        await fleet.source.create(NETWORK_POLICIES, {"metadata": {"name": name}, "spec": spec}, namespace)
    await say(fleet, namespace, {TARGETS: "eu", SHORT_PREFIX + FOLLOW_POLICIES: "true"})
    for target in ("us", "eu"):
        for name in POLICIES:
            await shared.has(fleet, target, NETWORK_POLICIES, namespace, name, bool)


async def replaced(fleet: Fleet, namespace: str, before: set[str], target: str) -> set[str]:
    """Wait until these pods have been deleted and replaced by ready pods in a target; return the new names."""

    async def probe() -> bool:
        return before.isdisjoint(pod["metadata"]["name"] for pod in await fleet.pods(namespace, "web"))

    await fleet.until("the pods are replaced", probe, about=namespace)
    return await in_clusters(fleet, namespace, {target}, REPLICAS)


@pytest.mark.full("Waits for pods of a rollout, a deletion and a move to serve on for seconds each.")
async def test_policies_select_every_delegate_by_its_labels_for_as_long_as_it_serves(fleet: Fleet) -> None:
    async with (
        fleet.namespace() as namespace,
        recording(fleet.clients["eu"], namespace, RECORDED) as left,
        recording(fleet.clients["us"], namespace, RECORDED) as reached,
    ):
        await policies_follow(fleet, namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("client", 1), namespace)
        await in_clusters(fleet, namespace, {"eu"}, 1, app="client")
        await fleet.source.create(SERVICES, shared.service("web"), namespace)
        await fleet.source.create(DEPLOYMENTS, manifests.deployment("web", REPLICAS), namespace)
        first = await in_clusters(fleet, namespace, {"eu"}, REPLICAS)
        await fleet.kubectl("cd", "-n", namespace, "rollout", "restart", "deployment/web")
        second = await replaced(fleet, namespace, first, "eu")
        await fleet.kubectl("cd", "-n", namespace, "delete", "pod", min(second))
        third = await replaced(fleet, namespace, {min(second)}, "eu")
        await say(fleet, namespace, {TARGETS: "us"})
        await replaced(fleet, namespace, third, "us")
        ended = len(first) + len(second) + 1
        await until(lambda: len(judge(left).deleted) == ended, what="the end of each delegate is recorded")
        await until(lambda: len(judge(reached).served) == REPLICAS, what="all delegates in us are recorded")
    eu, us = judge(left), judge(reached)
    assert eu.faults == us.faults == []
    assert set(eu.served) == eu.called == eu.withdrawn == eu.deleted
    assert us.withdrawn == set()
