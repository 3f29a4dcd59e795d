"""Roles, RoleBindings and NetworkPolicies follow if the namespace requests it, between real API servers."""

from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import NAMESPACES, NETWORK_POLICIES, ROLE_BINDINGS, ROLES, Kind
from agent.api.names.links import ADMIT_GATEWAY
from agent.api.roles import EVERYTHING, SOURCE_RULES, SOURCE_RULES_ROLE, rules
from agent.dependencies.rules import NetworkPolicyController, RoleBindingController, RoleController
from agent.dependencies.rules.copies import GATEWAYS
from agent.kube.config import Connection, parse
from tests.controllers.dependencies.test_follow import told
from tests.controllers.pair import Pair
from tests.controllers.target_links import kubeconfig
from tests.e2e.fleet import token_of

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
CONTROLLERS = (RoleController, RoleBindingController, NetworkPolicyController)
READ = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]
WRITE = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]


async def asks(pair: Pair, **annotations: str | None) -> None:
    """Set the annotations by which the namespace requests what follows; None removes one."""
    keys = {names.SHORT_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
    labels = {names.LABEL_ENABLED: names.ENABLED_VALUE}
    await pair.here.patch(NAMESPACES, pair.namespace, {"metadata": {"labels": labels, "annotations": keys}})


def reference(name: str, kind: str = "Role") -> Raw:
    return {"apiGroup": ROLES.group, "kind": kind, "name": name}


def account(name: str, namespace: str) -> Raw:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


async def rights(pair: Pair) -> None:
    """Create a Role, and bindings of it for the pods' service account and for a user."""
    await pair.create(ROLES, "reader", rules=READ)
    subjects = [account("default", pair.namespace), {"apiGroup": ROLES.group, "kind": "User", "name": "ann"}]
    await pair.create(ROLE_BINDINGS, "readers", roleRef=reference("reader"), subjects=subjects)
    await pair.create(ROLE_BINDINGS, "ann", roleRef=reference("reader"), subjects=subjects[1:])


async def names_of(pair: Pair, kind: Kind) -> set[str]:
    return {each["metadata"]["name"] for each in await pair.there.list(kind, pair.namespace)}


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_rights_of_service_accounts_follow_where_the_namespace_asks_and_go_when_it_does_not(pair: Pair) -> None:
    await rights(pair)
    async with pair.at_work(*CONTROLLERS) as target:
        watched = {informer.kind for informer in target.cluster.informers}
        assert not watched & {ROLES, ROLE_BINDINGS, NETWORK_POLICIES}, "nobody asked for any"
        await asks(pair, follow_roles="true")
        binding = await pair.copy(ROLE_BINDINGS, "readers")
        assert [each["name"] for each in binding["subjects"]] == ["default"]
        assert (await pair.copy(ROLES, "reader"))["rules"] == READ
        assert "ann" not in await names_of(pair, ROLE_BINDINGS)
        await pair.here.patch(ROLES, "reader", {"rules": WRITE}, pair.namespace)
        await pair.copy(ROLES, "reader", lambda copy: copy["rules"] == WRITE)

        await pair.create(ROLES, "other", rules=READ)
        await pair.here.delete(ROLE_BINDINGS, "readers", pair.namespace)
        subjects = [account("default", pair.namespace)]
        await pair.create(ROLE_BINDINGS, "readers", roleRef=reference("other"), subjects=subjects)
        await pair.copy(ROLE_BINDINGS, "readers", lambda copy: copy["roleRef"]["name"] == "other")
        await asks(pair, follow_roles=None)
        for kind, name in ((ROLE_BINDINGS, "readers"), (ROLES, "reader"), (ROLES, "other")):
            await pair.gone(kind, name)


async def test_what_concerns_a_pod_that_asks_follows_and_the_rest_stays_at_home(pair: Pair) -> None:
    await rights(pair)
    await pair.create(ROLES, "unbound", rules=READ)
    for name in ("web", "db"):
        await pair.create(NETWORK_POLICIES, name, spec={"podSelector": {"matchLabels": {"app": name}}})
    async with pair.at_work(*CONTROLLERS):
        asked = {names.SHORT_PREFIX + key: "true" for key in (names.FOLLOW_ROLES, names.FOLLOW_POLICIES)}
        await pair.pod("web", annotations=asked)
        policy = await pair.copy(NETWORK_POLICIES, "web")
        assert pair.deps is not None
        assert policy["spec"]["podSelector"]["matchLabels"] == {
            "multicluster/U_app": "web",
            names.LABEL_PARENT_CLUSTER_UID: pair.deps.cluster_uid,
        }
        await pair.copy(ROLE_BINDINGS, "readers")
        assert await names_of(pair, ROLES) == {"reader"}
        assert await names_of(pair, NETWORK_POLICIES) == {"web"}
        await pair.end("web")
        for kind, name in ((ROLE_BINDINGS, "readers"), (ROLES, "reader"), (NETWORK_POLICIES, "web")):
            await pair.gone(kind, name)


async def test_a_policy_lets_in_gateways_where_it_follows_for_as_long_as_it_says_so(pair: Pair) -> None:
    some = {"ipBlock": {"cidr": "10.0.0.0/8"}}
    await pair.create(NETWORK_POLICIES, "web", spec={"podSelector": {}, "ingress": [{"from": [some]}]})
    await asks(pair, follow_network_policies="true")

    async def lets_in(said: str | None, *callers: Raw) -> None:
        annotations = {names.SHORT_PREFIX + ADMIT_GATEWAY: said}
        await pair.here.patch(NETWORK_POLICIES, "web", {"metadata": {"annotations": annotations}}, pair.namespace)
        await pair.copy(NETWORK_POLICIES, "web", lambda copy: copy["spec"]["ingress"] == [{"from": list(callers)}])

    async with pair.at_work(NetworkPolicyController):
        await lets_in(None, some)
        await lets_in("true", some, GATEWAYS)
        own = await pair.here.get(NETWORK_POLICIES, "web", pair.namespace)
        assert own["spec"]["ingress"] == [{"from": [some]}]
        await lets_in(None, some)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_copies_of_a_time_when_somebody_asked_are_found_and_taken_away(pair: Pair) -> None:
    await pair.create(NETWORK_POLICIES, "web", spec={"podSelector": {}})
    await asks(pair, follow_network_policies="true")
    async with pair.at_work(NetworkPolicyController):
        await pair.copy(NETWORK_POLICIES, "web")
    await asks(pair, follow_network_policies=None)
    async with pair.at_work(NetworkPolicyController):
        await pair.gone(NETWORK_POLICIES, "web")


async def source(pair: Pair, granted: list[Raw]) -> Connection:
    """Return credentials of a source with these rights."""
    body = {"metadata": {"name": "of-source"}, "rules": granted}
    await pair.there.create(ROLES, body, pair.namespace)
    subjects = [account("default", pair.namespace)]
    bound = {"metadata": {"name": "of-source"}, "roleRef": reference("of-source"), "subjects": subjects}
    await pair.there.create(ROLE_BINDINGS, bound, pair.namespace)
    token = await token_of(pair.there, "default", pair.namespace)
    return parse(kubeconfig(pair.clusters[1], user={"token": token}).encode(), None)


async def test_a_source_hands_on_no_rights_that_it_does_not_hold_and_says_so(pair: Pair) -> None:
    connection = await source(pair, rules(EVERYTHING))
    await rights(pair)
    await pair.create(ROLES, "writer", rules=WRITE)
    await asks(pair, follow_roles="true")
    async with pair.at_work(*CONTROLLERS, connection=connection):
        message = await told(pair, "Role", "reader", "forbidden")
        assert f"bind ClusterRole {SOURCE_RULES_ROLE}" in message
        await pair.there.patch(ROLES, "of-source", {"rules": rules([*EVERYTHING, *SOURCE_RULES])}, pair.namespace)
        await pair.copy(ROLE_BINDINGS, "readers")
        message = await told(pair, "Role", "writer", "not currently held")
        assert "grant its account these rights, or the verbs escalate and bind on roles" in message
        assert await pair.no_copy(ROLES, "writer")


async def test_a_network_policy_that_is_very_long_is_not_copied_and_an_event_says_so(pair: Pair) -> None:
    await asks(pair, follow_network_policies="true")
    rules = [{"ports": [{"port": index + 1}]} for index in range(20_000)]
    async with pair.at_work(NetworkPolicyController):
        await pair.create(NETWORK_POLICIES, "long", spec={"podSelector": {}, "ingress": rules})
        await pair.create(NETWORK_POLICIES, "short", spec={"podSelector": {}, "ingress": rules[:10]})
        message = await told(pair, "NetworkPolicy", "long", "is not copied")
        assert "524288 are allowed: split it into several" in message
        await pair.copy(NETWORK_POLICIES, "short")
        assert await pair.no_copy(NETWORK_POLICIES, "long")
