"""`flotilla upgrade`: subjects of the source role keep its former rights. On a real API server."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from agent.api import names
from agent.api.hookroles import UPGRADE
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS
from agent.api.roles import EVERYTHING, FEATURES, NAMED_FEATURES, SOURCE_ROLE, rules, source_cluster_role
from agent.cli.upgrade import companions, held, keep_rights
from agent.kube.client import Client
from agent.targets.source.decide import Roles, wanted_bindings
from hack.lab.sandbox import Cluster, Sandbox, kubeconfig
from hack.lab.sandbox.objects import account_token, apply, connect

Raw = dict[str, Any]

REFERENCE = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": SOURCE_ROLE}
SUBJECTS = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "cd"}]
ROLES = Roles(SOURCE_ROLE, "viewer")
BY_DEFAULT = [name for name in FEATURES if name not in NAMED_FEATURES]
BEFORE = {**source_cluster_role(), "rules": rules(EVERYTHING)}
"""The role from when it held all features' rights."""


def test_a_role_that_holds_no_features_any_more_needs_nothing() -> None:
    assert held(BEFORE) == BY_DEFAULT
    assert held(source_cluster_role()) == []
    assert held({"rules": None}) == []


@pytest.mark.parametrize("key", [("team", "cd"), ("", "cd"), ("team", "cd-volumes")])
def test_companions_of_a_sources_binding_are_those_that_the_agent_makes(key: tuple[str, str]) -> None:
    source = {"metadata": {"name": key[1], "uid": "u1"}, "spec": {"userName": "cd"}}
    bindings = wanted_bindings(key, source, ROLES)
    (kind, _), old = next(iter(bindings.items()))
    made = {each["metadata"]["name"]: each for each in companions(kind, old, BY_DEFAULT)}
    assert made == {name: manifest for (_, name), manifest in list(bindings.items())[2:]}


def test_bindings_to_other_roles_have_none() -> None:
    other = {"metadata": {"name": "x"}, "roleRef": {**REFERENCE, "name": "view"}, "subjects": SUBJECTS}
    assert not list(companions(ROLE_BINDINGS, other, BY_DEFAULT))
    role = {"metadata": {"name": "x"}, "roleRef": {**REFERENCE, "kind": "Role"}, "subjects": SUBJECTS}
    assert not list(companions(ROLE_BINDINGS, role, BY_DEFAULT))


@pytest_asyncio.fixture
async def hook(sandbox: Sandbox, cluster: Cluster, client: Client) -> AsyncIterator[Client]:
    """Client with only the rights of the chart's hook."""
    token = await account_token(client, UPGRADE)
    authority = (sandbox.directory / cluster.name / "pki" / "ca.crt").read_bytes()
    file = sandbox.directory / "upgrade.kubeconfig"
    file.write_text(kubeconfig.render(cluster.name, cluster.server, authority, token=token))
    found = connect(file)
    async with found.session:
        yield found


@pytest.mark.cluster
async def test_those_who_were_bound_by_hand_keep_their_rights_too(client: Client, hook: Client, namespace: str) -> None:
    binding = {"metadata": {"name": "by-hand"}, "roleRef": REFERENCE, "subjects": SUBJECTS}
    name = f"by-hand-{namespace}"
    said: list[str] = []
    try:
        await apply(client, CLUSTER_ROLES, BEFORE)
        await client.create(ROLE_BINDINGS, binding, namespace)
        await client.create(CLUSTER_ROLE_BINDINGS, {**binding, "metadata": {"name": name}})
        for _ in range(2):
            # The second run covers a retry after an interrupted first run.
            await keep_rights(hook, said.append)
        made = await client.list(ROLE_BINDINGS, namespace)
        assert {each["metadata"]["name"] for each in made} == {"by-hand", *(f"by-hand-{each}" for each in BY_DEFAULT)}
        for feature in BY_DEFAULT:
            for kind, base, place in ((ROLE_BINDINGS, "by-hand", namespace), (CLUSTER_ROLE_BINDINGS, name, None)):
                companion = await client.get(kind, names.join(253, (base, feature), constant=(1,)), place)
                assert companion["roleRef"]["name"] == f"{SOURCE_ROLE}-{feature}"
                assert companion["subjects"] == SUBJECTS
    finally:
        await apply(client, CLUSTER_ROLES, source_cluster_role())
        for each in ("", *(f"-{feature}" for feature in BY_DEFAULT)):
            await client.delete(CLUSTER_ROLE_BINDINGS, f"{name}{each}")
    said.clear()
    await keep_rights(hook, said.append)
    assert said == [f"ClusterRole {SOURCE_ROLE} holds no rules of features: nothing to do"]
