"""A stolen token of the webhook grants no foreign permissions: policies refuse requests that RBAC cannot refuse."""

import base64
import copy
import datetime
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest

from agent.api import ownroles
from agent.api.accounts import role_objects
from agent.api.admission import policies
from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    MUTATING_WEBHOOKS,
    POLICIES,
    POLICY_BINDINGS,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.api.ownroles import WEBHOOK, WEBHOOK_SECRET
from agent.api.webhookpolicies import CONFIGURATIONS, REGISTERS_ITSELF, TOKENS
from agent.base import certificates
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import Forbidden
from agent.kube.session import Session
from agent.model.proxypod import is_proxy
from hack.lab.sandbox.manifests import empty_secret
from tests.controllers.target_links import kubeconfig
from tests.e2e.fleet import token_of
from tests.waiting import until
from tests.webhook.replica import Place, elected
from tests.webhook.test_rights import WITHOUT_REGISTERING, account_with, rules_of
from webhook.configurations import by_url, mutating, validating
from webhook.registration import Registration

Raw = dict[str, Any]

CONFIGURED = pytest.mark.parametrize("kind", [MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS], ids=lambda kind: kind.plural)
TOKEN_TYPE = "kubernetes.io/service-account-token"
NOWHERE = {"matchLabels": {"multicluster/no-such-label": "x"}}


def test_the_charts_role_neither_creates_nor_reads_secrets_of_others() -> None:
    # As with webhook.checkSecrets=false, which is the default.
    without = {ownroles.SECRETS_OF_TARGETS, ownroles.ASK_FOR_USERS, ownroles.REGISTER}
    for role in role_objects(WEBHOOK, "home", without=without):
        for rule in role.get("rules", ()):
            if "secrets" in rule["resources"]:
                assert rule["resourceNames"] == [WEBHOOK_SECRET]
                assert "create" not in rule["verbs"]
            if any(each.endswith("webhookconfigurations") for each in rule["resources"]):
                assert rule["resourceNames"] == [ownroles.CONFIGURATION]
                assert not {"create", "update", "delete"} & set(rule["verbs"])


@pytest.fixture
async def guarded(place: Place) -> AsyncIterator[Place]:
    """Environment with both policies in force for its accounts `agent` and `hook`."""
    user = f"system:serviceaccount:{place.namespace}:"
    made: list[tuple[Kind, str]] = []
    for obj in policies(f"{user}agent", place.namespace, f"{user}hook"):
        if obj["metadata"]["name"] not in (CONFIGURATIONS, TOKENS):
            continue
        kind = POLICIES if obj["kind"] == POLICIES.name else POLICY_BINDINGS
        own = copy.deepcopy(obj)
        own["metadata"]["name"] = f"{place.namespace}-{obj['metadata']['name']}"
        if kind is POLICY_BINDINGS:
            own["spec"]["policyName"] = own["metadata"]["name"]
        await place.client.create(kind, own)
        made.append((kind, own["metadata"]["name"]))
    try:
        yield place
    finally:
        for kind, name in made:
            await place.client.delete(kind, name)


@pytest.fixture
async def thieves(guarded: Place) -> AsyncIterator[dict[str, Client]]:
    """Clients with the tokens of agent and webhook, to which RBAC permits everything: only policies refuse."""
    name = guarded.namespace
    subjects = [{"kind": "ServiceAccount", "name": each, "namespace": name} for each in ("agent", "hook")]
    for subject in subjects:
        await guarded.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": subject["name"]}}, name)
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": f"{name}-all"}, "roleRef": role, "subjects": subjects}
    await guarded.client.create(CLUSTER_ROLE_BINDINGS, binding)
    sessions = {}
    try:
        for subject in subjects:
            token = await token_of(guarded.client, subject["name"], name)
            text = kubeconfig(guarded.cluster, user={"token": token})
            sessions[subject["name"]] = Session(config.parse(text.encode()))
        clients = {each: Client(session) for each, session in sessions.items()}
        await until(lambda: _is_refused(clients["hook"], name), what="the policies in force")
        yield clients
    finally:
        for session in sessions.values():
            await session.close()
        await guarded.client.delete(CLUSTER_ROLE_BINDINGS, f"{name}-all")


async def _is_refused(client: Client, namespace: str) -> bool:
    try:
        await client.create(MUTATING_WEBHOOKS, _harmless(MUTATING_WEBHOOKS, f"{namespace}-probe"))
        await client.delete(MUTATING_WEBHOOKS, f"{namespace}-probe")
    except Forbidden as error:
        return "creates and deletes no" in str(error)
    return False


def _token_secret(name: str, account: str = "default") -> Raw:
    annotations = {"kubernetes.io/service-account.name": account}
    return {"metadata": {"name": name, "annotations": annotations}, "type": TOKEN_TYPE}


def _harmless(kind: Kind, name: str) -> Raw:
    """Return a configuration like the chart's that matches no object."""
    reach, ca = by_url("https://127.0.0.1:1"), certificates_of_nobody()
    made = mutating(name, reach, ca) if kind is MUTATING_WEBHOOKS else validating(name, reach, ca, placements=True)
    for entry in made["webhooks"]:
        entry["namespaceSelector"] = entry["objectSelector"] = NOWHERE
    return made


def certificates_of_nobody() -> bytes:
    """Return a CA certificate that nothing is signed with."""
    now = datetime.datetime.now(datetime.UTC)
    return certificates.authority("nobody", now, datetime.timedelta(days=1)).certificate


async def refused(said: str, asking: Awaitable[object]) -> None:
    """Check that a policy refuses a request for this reason."""
    with pytest.raises(Forbidden, match=said) as caught:
        await asking
    assert "ValidatingAdmissionPolicy" in str(caught.value)


@pytest.mark.cluster
@CONFIGURED
async def test_of_a_webhook_configuration_only_the_ca_bundle_changes(
    guarded: Place, thieves: dict[str, Client], kind: Kind
) -> None:
    name, hook = guarded.namespace, thieves["hook"]
    await guarded.client.create(kind, _harmless(kind, name))
    await until(lambda: _refuses_rules(hook, kind, name), what="the policy in force")
    there = (await hook.get(kind, name))["webhooks"]
    trusting = copy.deepcopy(there)
    for entry in trusting:
        entry["clientConfig"]["caBundle"] = base64.b64encode(certificates_of_nobody()).decode()
    await hook.patch(kind, name, {"webhooks": trusting})
    everything = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]
    only = r"changes clientConfig\.caBundle only"
    changes: list[Raw] = [
        {"rules": everything},
        {"clientConfig": {"url": "https://127.0.0.1:2/"}},
        {"namespaceSelector": {}},
        {"objectSelector": {}},
        {"matchConditions": [{"name": "all", "expression": "true"}]},
        {"timeoutSeconds": 1},
        {"failurePolicy": "Ignore" if there[0].get("failurePolicy") == "Fail" else "Fail"},
        {"matchPolicy": "Exact"},
        {"name": "other.example.test"},
    ]
    for change in changes:
        await refused(only, hook.patch(kind, name, {"webhooks": [{**trusting[0], **change}, *trusting[1:]]}))
    await refused(only, hook.patch(kind, name, {"webhooks": [*trusting, {**trusting[0], "name": "more.example.test"}]}))
    await refused(only, hook.patch(kind, name, {"webhooks": trusting[1:]}))
    for field in ("labels", "annotations"):
        await refused(rf"metadata\.{field}", hook.patch(kind, name, {"metadata": {field: {REGISTERS_ITSELF: "true"}}}))
    await refused("finalizers", hook.patch(kind, name, {"metadata": {"finalizers": ["example.test/kept"]}}))
    await refused("creates and deletes no", hook.delete(kind, name))
    await refused("creates and deletes no", hook.create(kind, _harmless(kind, f"{name}-b")))
    # Administrators are exempt.
    await guarded.client.patch(kind, name, {"metadata": {"labels": {"example.test/kept": "true"}}})


async def _refuses_rules(client: Client, kind: Kind, name: str) -> bool:
    try:
        await client.patch(kind, name, {"metadata": {"labels": {"probe": "x"}}})
    except Forbidden:
        return True
    return False


@pytest.mark.cluster
async def test_neither_the_webhook_nor_the_agent_creates_a_secret_with_a_token(
    guarded: Place, thieves: dict[str, Client]
) -> None:
    name = guarded.namespace
    for who, client in thieves.items():
        await refused(
            f"type of secret {name}/steal: agent and webhook", client.create(SECRETS, _token_secret("steal"), name)
        )
        await client.create(SECRETS, {"metadata": {"name": f"of-{who}"}, "type": "Opaque"}, name)
    await guarded.client.create(SECRETS, _token_secret("administrators"), name)
    change = {"metadata": {"annotations": {"example.test/x": "y"}}}
    await refused("type of secret", thieves["hook"].patch(SECRETS, "administrators", change, name))


@pytest.mark.cluster
async def test_a_webhook_of_the_chart_works_with_its_rights_under_the_policies(guarded: Place, tmp_path: Path) -> None:
    port = guarded.flags()[2].rpartition(":")[2]
    url = guarded.flags(port=int(port))[2].removeprefix("--url=")
    await guarded.client.create(SECRETS, empty_secret(WEBHOOK_SECRET, guarded.namespace), guarded.namespace)
    for kind, make in ((MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating)):
        made = make(guarded.namespace, by_url(url), b"")
        for entry in made["webhooks"]:
            del entry["clientConfig"]["caBundle"]
        await guarded.client.create(kind, made)
    async with (
        account_with(guarded, rules_of(WITHOUT_REGISTERING), tmp_path / "config") as flag,
        guarded.replica(flag, "--register=false", port=int(port), ready=False) as webhook,
    ):
        await until(lambda: guarded.is_ready(webhook), what="replica ready")
        await until(guarded.mutates, what="API server calls the webhook")
        assert is_proxy(await guarded.create(elected(), dry_run=True))
        # Emptying the Secret requests a new CA, which is trusted once it has been written.
        before = await guarded.secret()
        await guarded.client.patch(SECRETS, WEBHOOK_SECRET, {"data": None}, guarded.namespace)
        await until(lambda: _has_another_ca(guarded, before["ca.key"]), what="another CA")
        await until(guarded.mutates, what="API server calls the webhook again")


async def _has_another_ca(place: Place, before: bytes) -> bool:
    secret = await place.client.get(SECRETS, WEBHOOK_SECRET, place.namespace)
    key = (secret.get("data") or {}).get("ca.key")
    return key is not None and base64.b64decode(key) != before


@pytest.mark.cluster
async def test_a_webhook_that_may_not_adopt_a_configuration_still_keeps_its_ca_bundle(
    guarded: Place, thieves: dict[str, Client], caplog: pytest.LogCaptureFixture
) -> None:
    # Created by an earlier version with --register, without the annotation that exempts it.
    name, kind = guarded.namespace, MUTATING_WEBHOOKS
    await guarded.client.create(kind, _harmless(kind, name))
    ca = certificates_of_nobody()
    for _ in range(2):
        await Registration(thieves["hook"], name, by_url("https://127.0.0.1:2"), create=True).ensure(ca)
    (entry, *_) = (await guarded.client.get(kind, name))["webhooks"]
    assert base64.b64decode(entry["clientConfig"]["caBundle"]) == ca
    remedy = f"kubectl annotate {kind.plural} {name} {REGISTERS_ITSELF}=true"
    assert remedy in caplog.text
