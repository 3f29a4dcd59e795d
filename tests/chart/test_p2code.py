"""The service account that applies manifests: the chart's objects for it, and that its rights are minimal."""

import asyncio
import contextlib
from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, NAMESPACES, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.errors import AlreadyExists, Forbidden
from agent.kube.session import Session
from hack.lab.sandbox import Cluster
from tests.chart.helm import NAMESPACE, Failed, template
from tests.kube.relay import trusting
from tests.waiting import until

pytestmark = pytest.mark.full("Needs Helm.")

Raw = dict[str, Any]

ON = "agent.p2code.enabled=true"


def made(*settings: str) -> list[Raw]:
    """Return the objects in namespaces other than the chart's own."""
    usual = {each["metadata"].get("namespace") for each in template()}
    return [each for each in template(*settings) if each["metadata"].get("namespace") not in usual]


def test_without_namespaces_nobody_is_impersonated_and_without_the_feature_neither() -> None:
    assert made(ON) == []
    assert made("agent.p2code.namespaces={shop}") == []
    for each in (*template(ON), *template("agent.p2code.namespaces={shop}")):
        assert not any("impersonate" in rule["verbs"] for rule in each.get("rules") or () if "verbs" in rule)


def test_each_namespace_has_an_account_its_binding_and_the_right_to_impersonate_that_account_alone() -> None:
    found = made(ON, "agent.p2code.namespaces={shop,lab,shop}", "agent.p2code.role=view")
    assert sorted({each["metadata"]["namespace"] for each in found}) == ["lab", "shop"]
    of = {(each["kind"], each["metadata"]["name"]): each for each in found if each["metadata"]["namespace"] == "lab"}
    assert of.pop(("ServiceAccount", "p2code"))["automountServiceAccountToken"] is False
    binding, impersonation = of.pop(("RoleBinding", "p2code")), of.pop(("RoleBinding", "flotilla-p2code"))
    role = of.pop(("Role", "flotilla-p2code"))
    assert of == {}
    assert binding["roleRef"] == {"apiGroup": ROLES.group, "kind": "ClusterRole", "name": "view"}
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "p2code", "namespace": "lab"}]
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["serviceaccounts"], "resourceNames": ["p2code"], "verbs": ["impersonate"]}
    ]
    assert impersonation["roleRef"]["name"] == role["metadata"]["name"]
    assert impersonation["subjects"] == [{"kind": "ServiceAccount", "name": "flotilla-agent", "namespace": NAMESPACE}]


def test_to_write_manifest_works_there_is_a_role_that_nobody_has() -> None:
    def about_works(*settings: str) -> list[Raw]:
        named = (each for each in template(*settings) if each["kind"].endswith(("Role", "Binding")))
        return [each for each in named if "p2code-works" in str((each["metadata"]["name"], each.get("roleRef")))]

    assert about_works(ON) == []
    (role,) = about_works(ON, "agent.p2code.works=true", "agent.p2code.namespaces={shop}")
    assert (role["kind"], role["metadata"]["name"]) == ("ClusterRole", "flotilla-p2code-works")
    (rule,) = role["rules"]
    assert rule["resources"] == ["manifestworks"]
    assert rule["verbs"] == ["get", "list", "create", "patch", "delete"]


def test_works_are_no_default_where_the_agent_may_not_read_them() -> None:
    with pytest.raises(Failed, match=r"set agent\.p2code\.works=true, or distribution=elect"):
        template(ON, "agent.p2code.distribution=works")
    template(ON, "agent.p2code.distribution=works", "agent.p2code.works=true")


@pytest.mark.parametrize(
    "value", ["agent.p2code.namespaces={Shop}", "agent.p2code.namespaces=shop", "agent.p2code.role="]
)
def test_what_names_no_namespace_and_no_role_is_refused(value: str) -> None:
    with pytest.raises(Failed):
        template(ON, value)


@pytest.mark.cluster
async def test_with_these_rights_the_agent_may_do_what_the_account_may_and_nowhere_else(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    kinds = {kind.name: kind for kind in (SERVICE_ACCOUNTS, ROLES, ROLE_BINDINGS)}
    # Account without any other rights.
    name = f"agent-of-{namespace}"
    settings = (ON, f"agent.p2code.namespaces={{{namespace}}}", f"agent.serviceAccount.name={name}")
    for each in await asyncio.to_thread(made, *settings):
        await client.create(kinds[each["kind"]], each)
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": name}}, NAMESPACE)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": name}}
    token = (await client.create(SERVICE_ACCOUNTS, request, NAMESPACE, sub="token"))["status"]["token"]
    connection = load(str(cluster.kubeconfig))
    auth = StaticAuth(f"Bearer {token}")
    async with Session(Connection(connection.server, trusting(connection), auth)) as session:
        agent = Client(session)
        account = agent.as_user(f"system:serviceaccount:{namespace}:p2code")
        secret = {"metadata": {"name": "db"}}
        await until(lambda: account.create(SECRETS, secret, namespace), forgiven=Forbidden)
        for other in (agent, agent.as_user(f"system:serviceaccount:{namespace}:default"), agent.as_user("admin")):
            with pytest.raises(Forbidden):
                await other.list(SECRETS, namespace)
        for kind, where in ((CONFIGMAPS, "default"), (ROLES, namespace)):
            with pytest.raises(Forbidden):
                await account.create(kind, {"metadata": {"name": "x"}}, where)
    await client.delete(SERVICE_ACCOUNTS, name, NAMESPACE)
