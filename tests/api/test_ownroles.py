from collections import defaultdict

import pytest

from agent.api.accounts import HOME, Account, blocks
from agent.api.accounts import role_objects as objects
from agent.api.gatewayroles import GATEWAY_HOSTS
from agent.api.hookroles import ACCOUNTS as OF_HOOKS
from agent.api.hubroles import HUB
from agent.api.kinds import CLUSTER_ROLES, SECRETS
from agent.api.names.hub import REGISTRATION_ROLE, WORK_ROLE
from agent.api.ownroles import (
    ACCOUNTS,
    AGENT,
    CONFIGURATION,
    FEATURE_ROLES,
    LINK_NAMESPACES,
    MOVES,
    SERVE_MCS,
    SOURCE,
    WEBHOOK,
    WEBHOOK_SECRET,
)
from agent.api.placementroles import AC3_NETWORKS, P2CODE, P2CODE_WORKS
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE, SOURCE_ROLE
from webhook.settings import parse

EVERY = pytest.mark.parametrize("account", [*ACCOUNTS, *OF_HOOKS], ids=lambda account: account.name)


@EVERY
def test_no_verb_is_granted_twice_but_to_what_is_switched_on_by_itself(account: Account) -> None:
    alone = {MOVES, P2CODE, AC3_NETWORKS, LINK_NAMESPACES, SERVE_MCS, GATEWAY_HOSTS, SOURCE, HUB, P2CODE_WORKS}
    for grants in account.grants.values():
        features = defaultdict(list)
        for grant in grants:
            features[str(grant.kind), grant.sub, grant.verb, grant.names].append(grant.feature)
        twice = {key: found for key, found in features.items() if len(found) > 1}
        assert {key: found for key, found in twice.items() if not set(found) <= alone} == {}
        assert all(len(set(found)) == len(found) for found in twice.values())


@EVERY
def test_nobody_gets_everything(account: Account) -> None:
    for role in objects(account, "here"):
        for rule in role.get("rules", ()):
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert not {"escalate", "impersonate", "deletecollection"} & set(rule["verbs"])


def test_the_agent_may_hand_on_the_roles_of_sources_and_of_members_and_no_others() -> None:
    bind = [grant for grant in AGENT.grants[""] if grant.verb == "bind"]
    assert {grant.kind for grant in bind} == {CLUSTER_ROLES}
    assert {grant.feature: grant.names for grant in bind} == {
        SOURCE: (SOURCE_ROLE, *FEATURE_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE),
        HUB: (REGISTRATION_ROLE, WORK_ROLE),
    }


def test_the_webhook_writes_no_secret_but_its_own() -> None:
    written = [
        (scope, grant.verb, grant.names)
        for scope, grants in WEBHOOK.grants.items()
        for grant in grants
        if grant.kind is SECRETS and grant.verb not in ("get", "list", "watch")
    ]
    assert written == [(HOME, "patch", (WEBHOOK_SECRET,))]


def test_roles_name_the_objects_that_the_webhook_calls_its_own() -> None:
    settings = parse(["--url=https://127.0.0.1:1"], {})
    assert (settings.configuration_name, settings.certificate_secret) == (CONFIGURATION, WEBHOOK_SECRET)


def test_a_role_counts_where_its_process_runs_or_where_it_says() -> None:
    found = {(each["kind"], each["metadata"].get("namespace")) for each in objects(AGENT, "here")}
    assert found == {
        ("ClusterRole", None),
        ("ClusterRoleBinding", None),
        ("Role", "here"),
        ("RoleBinding", "here"),
        ("Role", "kube-node-lease"),
        ("RoleBinding", "kube-node-lease"),
        ("Role", "kube-system"),
        ("RoleBinding", "kube-system"),
    }


def test_a_feature_that_is_switched_off_takes_its_verbs_with_it() -> None:
    (role, *_) = objects(AGENT, "here", without=[SOURCE, HUB])
    resources = {name for rule in role["rules"] for name in rule["resources"]}
    assert not {"sources/status", "clusterroles", "clusterrolebindings"} & resources
    # Their policies count all the same.
    assert {"sources", "clustersources"} <= resources


@EVERY
def test_blocks_hold_every_verb(account: Account) -> None:
    in_blocks = sum(
        len(rule["verbs"]) for scope in blocks(account).values() for block in scope for rule in block["rules"]
    )
    assert in_blocks == sum(len(grants) for grants in account.grants.values())
