"""`flotilla join`, `export` and `leave` between two real clusters with agents."""

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
import yaml

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_ROLES,
    CLUSTER_SOURCES,
    CLUSTER_SUMMARIES,
    CLUSTER_TARGETS,
    CRDS,
    LEASES,
    NAMESPACES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.roles import CLUSTER_SUMMARY_VIEWER_ROLE
from agent.base.clock import micro_stamp
from agent.cli.joining.fleet import AT_ONCE
from agent.kube import kubeconfig
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.token import claims
from hack.lab.sandbox import Cluster, Sandbox
from hack.lab.sandbox.objects import apply, connect, token
from tests.cli.command import flotilla
from tests.e2e import manifests
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

Raw = dict[str, Any]
NAMESPACE = "team"


class Lab:
    """Clusters `cd` and `us`, and a kubeconfig with a context for each."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.directory = sandbox.directory
        self.cd = connect(sandbox["cd"].kubeconfig, name="cd")
        self.us = connect(sandbox["us"].kubeconfig, name="us")
        self.files = os.pathsep.join(str(each.kubeconfig) for each in sandbox.clusters)
        self.document = kubeconfig.merged([each.kubeconfig for each in sandbox.clusters])

    async def close(self) -> None:
        for client in (self.cd, self.us):
            await client.session.close()

    async def type(self, *arguments: str, kubeconfig: str = "") -> tuple[int, str, str]:
        """Run a command. Return exit status, output and errors."""
        return await flotilla(*arguments, KUBECONFIG=kubeconfig or self.files)

    async def join(self, *arguments: str, namespace: str = NAMESPACE) -> Raw:
        """Join `cd` to `us` and return the report of the pair. Fails if the pair is not ready."""
        base = ("join", "--context", "cd", "--target-context", "us", "--allow-loopback", "-o", "json")
        code, output, errors = await self.type(*base, *(("-n", namespace) if namespace else ()), *arguments)
        assert code == 0, errors
        (report,) = json.loads(output)
        assert report["state"] == "ready"
        return dict(report)

    async def refused(self, *arguments: str, kubeconfig: str = "") -> str:
        """Return the errors of a command that has to fail."""
        code, _, errors = await self.type(*arguments, kubeconfig=kubeconfig)
        assert code == 1, errors
        return errors

    def kubeconfig(self, name: str, **changed: Raw) -> str:
        """Write a kubeconfig in which some users or clusters (by name) are replaced. Return its path."""
        document = json.loads(json.dumps(self.document))
        for section, key in (("users", "user"), ("clusters", "cluster")):
            for item in document[section]:
                if item["name"] in changed.get(section, {}):
                    item[key] = changed[section][item["name"]]
        file = self.directory / f"{name}.kubeconfig"
        file.write_text(yaml.safe_dump(document))
        return str(file)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def lab(two: Sandbox) -> AsyncIterator[Lab]:
    lab = Lab(two)
    try:
        for client, labels in ((lab.cd, {names.LABEL_ENABLED: names.ENABLED_VALUE}), (lab.us, {})):
            await apply(client, NAMESPACES, {**head(NAMESPACES), "metadata": {"name": NAMESPACE, "labels": labels}})
            # The agent, just started, has become leader.
            await until(lambda client=client: exists(client, CLUSTER_SUMMARIES, names.SUMMARY_NAME, None), 60)
        yield lab
    finally:
        await lab.close()


def head(kind: Kind) -> Raw:
    return {"apiVersion": kind.api_version, "kind": kind.name}


async def exists(client: Client, kind: Kind, name: str, namespace: str | None = NAMESPACE) -> bool:
    with contextlib.suppress(NotFound):
        await client.get(kind, name, namespace)
        return True
    return False


async def gone(client: Client, kind: Kind, name: str, namespace: str | None = NAMESPACE) -> bool:
    return not await exists(client, kind, name, namespace)


async def let_go(client: Client, name: str, namespace: str = NAMESPACE) -> None:
    """Wait until a deleted Secret no longer exists: the agent's finalizer keeps it as long as its Target."""
    with contextlib.suppress(NotFound):
        assert "deletionTimestamp" in (await client.get(SECRETS, name, namespace))["metadata"]
    await until(lambda: gone(client, SECRETS, name, namespace))


async def config_of(client: Client, name: str = "us", namespace: str = NAMESPACE) -> kubeconfig.Entry:
    data = (await client.get(SECRETS, name, namespace))["data"]
    return kubeconfig.document_of(base64.b64decode(data["config"]))


async def ready(client: Client, name: str, status: str) -> Raw | None:
    conditions = (await client.get(TARGETS, name, NAMESPACE)).get("status", {}).get("conditions")
    found = find_condition(conditions, "Ready") or {}
    return dict(found) if found.get("status") == status else None


@pytest.mark.asyncio(loop_scope="module")
async def test_joined_clusters_run_pods_and_joining_again_changes_nothing(lab: Lab) -> None:
    first = await lab.join()
    assert len(first["changes"]) == 6
    assert any("was reached from here" in note for note in first["notes"])
    document = await config_of(lab.cd)
    told = claims(kubeconfig.token_of(document))
    assert told is not None
    assert (told.namespace, told.account, told.seconds) == (NAMESPACE, "cd", 7 * 86400)
    assert first["token_ends"] == f"{told.expires:%Y-%m-%dT%H:%M:%SZ}"

    await until(lambda: exists(lab.us, SERVICE_ACCOUNTS, "default"), 60)
    await until(lambda: exists(lab.cd, SERVICE_ACCOUNTS, "default"), 60)
    await lab.cd.create(PODS, manifests.pod("web"), NAMESPACE)

    async def runs() -> bool:
        return (await lab.cd.get(PODS, "web", NAMESPACE))["status"].get("phase") == "Running"

    await until(runs, 60)

    assert (await lab.join())["changes"] == []
    renewed = await lab.join("--new-token", "--token-duration", "90m")
    assert len(renewed["changes"]) == 2
    shorter = claims(kubeconfig.token_of(await config_of(lab.cd)))
    assert shorter is not None
    assert shorter.seconds == 5400


@pytest.mark.asyncio(loop_scope="module")
async def test_a_target_that_has_come_to_stand_for_another_cluster_is_joined_with_that(lab: Lab) -> None:
    uid = (await lab.us.get(NAMESPACES, "kube-system"))["metadata"]["uid"]

    async def recorded() -> bool:
        return bool((await lab.cd.get(TARGETS, "us", NAMESPACE))["status"].get("clusterUID") == uid)

    await until(recorded)
    # State of objects that were created before a user accepted another cluster for the Target.
    for kind in (TARGETS, SECRETS):
        await lab.cd.patch(kind, "us", {"metadata": {"annotations": {names.ANNOTATION_CLUSTER_UID: "x"}}}, NAMESPACE)
    assert len((await lab.join())["changes"]) == 2
    for kind in (TARGETS, SECRETS):
        annotations = (await lab.cd.get(kind, "us", NAMESPACE))["metadata"]["annotations"]
        assert annotations[names.ANNOTATION_CLUSTER_UID] == uid


@pytest.mark.asyncio(loop_scope="module")
async def test_what_was_broken_by_hand_is_mended(lab: Lab) -> None:
    document = await config_of(lab.cd)
    kubeconfig.set_token(document, "revoked")
    data = {"config": base64.b64encode(json.dumps(document).encode()).decode()}
    await lab.cd.patch(SECRETS, "us", {"data": data}, NAMESPACE)
    condition = await until(lambda: ready(lab.cd, "us", "False"), 60)
    assert condition["reason"] == "Unauthorized"
    mended = await lab.join()
    assert [change.split()[0] for change in mended["changes"]] == ["token", "Secret"]


@pytest.mark.full("Both directions at once; the first tier joins in one direction.")
@pytest.mark.asyncio(loop_scope="module")
async def test_both_ways_in_all_namespaces(lab: Lab) -> None:
    arguments = ("--context", "cd", "--target-context", "us", "--both", "--cluster-scoped", "-o", "json")
    code, output, errors = await lab.type("join", *arguments, "--allow-loopback")
    assert code == 0, errors
    assert {(each["source_cluster"], each["target"]): each["state"] for each in json.loads(output)} == {
        ("cd", "us"): "ready",
        ("us", "cd"): "ready",
    }
    for client, target in ((lab.cd, "us"), (lab.us, "cd")):
        found = await client.get(CLUSTER_TARGETS, target)
        assert found["spec"]["kubeconfigSecret"] == {"name": target, "namespace": "kube-system"}
    code, output, errors = await lab.type("leave", *arguments)
    assert code == 0, errors
    for client, name in ((lab.cd, "us"), (lab.us, "cd")):
        assert await gone(client, CLUSTER_TARGETS, name, None)
        await let_go(client, name, "kube-system")
        assert await gone(client, CLUSTER_SOURCES, name, None)


@pytest.mark.asyncio(loop_scope="module")
async def test_no_account_with_rights_everywhere_is_made_where_pods_are_elected(lab: Lab) -> None:
    scoped = ("--cluster-scoped", "--allow-loopback", "-n", NAMESPACE)
    pairs = (("cd", "us"), ("us", "cd"))
    # Both directions elect pods of this namespace in cd: once as the source, once as the target.
    for source, target in pairs:
        why = await lab.refused("join", "--context", source, "--target-context", target, *scoped)
        assert f"pods of namespace {NAMESPACE} in cluster cd are elected" in why
        assert f"ServiceAccount {NAMESPACE}/{source} of cluster {target}" in why
        assert f"kubectl --context cd label namespace {NAMESPACE} {names.LABEL_ENABLED}-" in why
    why = await lab.refused("export", "wide", "--context", "cd", "--create", *scoped)
    assert f"pods of namespace {NAMESPACE} in cluster cd are elected" in why
    for client, name in ((lab.us, "cd"), (lab.cd, "us"), (lab.cd, "wide")):
        assert await gone(client, CLUSTER_SOURCES, name, None)
    # Joining an existing pair again succeeds with a note.
    made = {"metadata": {"name": "cd"}, "spec": {"serviceAccount": {"name": "cd", "namespace": NAMESPACE}}}
    await lab.us.create(CLUSTER_SOURCES, {**head(CLUSTER_SOURCES), **made})
    again = await lab.join("--cluster-scoped")
    assert any(f"pods of namespace {NAMESPACE} in cluster cd are elected" in note for note in again["notes"])
    code, _, errors = await lab.type("leave", "--context", "cd", "--target-context", "us", *scoped[:1], *scoped[2:])
    assert code == 0, errors


@pytest.mark.full("Many targets at once; the first tier joins one.")
@pytest.mark.asyncio(loop_scope="module")
async def test_many_targets_are_joined_and_left_at_once_also_one_cluster_under_several_names(lab: Lab) -> None:
    document = yaml.safe_load(json.dumps(lab.document))
    (us,) = (each for each in document["contexts"] if each["name"] == "us")
    contexts = [f"us{number}" for number in range(AT_ONCE + 2)]
    document["contexts"] += [{**us, "name": name} for name in contexts]
    file = lab.directory / "many.kubeconfig"
    await asyncio.to_thread(file.write_text, yaml.safe_dump(document))
    where = ("--context", "cd", "-n", NAMESPACE, "--source-name", "many", "-o", "json")
    where += tuple(word for name in contexts for word in ("--target-context", name))
    for verb, state in (("join", "ready"), ("leave", "left")):
        more = ("--allow-loopback",) if verb == "join" else ()
        code, output, errors = await lab.type(verb, *where, *more, kubeconfig=str(file))
        assert code == 0, errors
        assert {each["target"]: each["state"] for each in json.loads(output)} == dict.fromkeys(contexts, state)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_exported_secret_joins_clusters_of_which_nobody_has_both_contexts(lab: Lab) -> None:
    where = ("--context", "us", "-n", NAMESPACE, "--allow-loopback")
    refused = await lab.refused("export", "north", *where)
    assert "there is no Source team/north in cluster us" in refused
    assert "--create" in refused
    code, output, errors = await lab.type("export", "north", *where, "--as", "far", "--create", "--with-target")
    assert (code, errors) == (0, "")
    secret, target = yaml.safe_load_all(output)
    # For a Source made by hand, the token is renewed only if its account has the right.
    for kind in (ROLES, ROLE_BINDINGS):
        await lab.us.delete(kind, names.source_renewal("north"), NAMESPACE)
    code, output, errors = await lab.type("export", "north", *where, "-o", "json")
    assert (code, json.loads(output)["kind"]) == (0, "Secret")
    assert "its account may not renew it: --create makes Role team/admiralty-source-north-token" in errors
    assert (await lab.type("export", "north", *where, "--create"))[2] == ""
    assert await exists(lab.us, ROLE_BINDINGS, names.source_renewal("north"))
    await apply(lab.cd, SECRETS, secret)
    await apply(lab.cd, TARGETS, target)
    await until(lambda: ready(lab.cd, "far", "True"), 60)
    code, output, errors = await lab.type(
        "leave", "--context", "cd", "--target-name", "far", "--source-name", "north", "-n", NAMESPACE
    )
    assert code == 0, errors
    assert "Source team/north stays in the target" in errors
    assert await gone(lab.cd, TARGETS, "far")
    await let_go(lab.cd, "far")
    assert await exists(lab.us, SOURCES, "north")


@pytest.mark.asyncio(loop_scope="module")
async def test_addresses_are_tried_before_anything_is_written(lab: Lab) -> None:
    base = ("join", "--context", "cd", "--target-context", "us", "--target-name", "other", "-n", NAMESPACE)
    for server, want in (
        ("https://127.0.0.1:6443", "is a loopback address: pods of the source cannot reach it"),
        (kubeconfig.cluster_of(lab.document, "cd")["server"], "shows a certificate that is not trusted"),
    ):
        loopback = () if "127.0.0.1" in server else ("--allow-loopback",)
        refused = await lab.refused(*base, "--server", server, *loopback)
        assert want in refused
        assert "Done before that: nothing" in refused
    authority = lab.directory / "cd" / "pki" / "ca.crt"
    cd = kubeconfig.cluster_of(lab.document, "cd")["server"]
    refused = await lab.refused(*base, "--server", cd, "--ca-file", str(authority), "--allow-loopback")
    assert "does this address lead to another cluster?" in refused
    unreachable = ("--server", "https://127.0.0.1:1", "--allow-loopback", "--timeout", "5")
    refused = await lab.refused(*base, *unreachable)
    assert "https://127.0.0.1:1 cannot be reached from here" in refused
    assert "Target team/other of cluster cd is not Ready: Unreachable" in refused
    assert "pods of cluster cd do not reach https://127.0.0.1:1" in refused
    assert "--server us=https://HOST:PORT" in refused
    assert "Target team/other in cluster cd created" in refused
    leave = ("leave", "--context", "cd", "--target-name", "other", "-n", NAMESPACE)
    assert (await lab.type(*leave))[0] == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_each_failure_names_its_remedy(lab: Lab) -> None:
    base = ("join", "--context", "cd", "--target-context", "us", "-n", NAMESPACE, "--allow-loopback")
    assert (await lab.type("join", "-n", "x"))[0] == 2
    assert (await lab.type(*base, "--token-duration", "1w"))[0] == 2
    assert "no context named 'eu' (it has: cd, us)" in await lab.refused("join", "--target-context", "eu")

    expired = lab.kubeconfig("expired", users={"us": {"token": "expired"}})
    assert "cluster us refuses your credentials" in await lab.refused(*base, kubeconfig=expired)

    server = {**kubeconfig.cluster_of(lab.document, "us"), "server": "https://127.0.0.1:1"}
    away = lab.kubeconfig("away", clusters={"us": server})
    assert "cluster us cannot be reached" in await lab.refused(*base, kubeconfig=away)

    refused = await lab.refused(*base[:-3], "-n", "nowhere", "--allow-loopback")
    for name in ("cd", "us"):
        assert f"kubectl --context {name} create namespace nowhere" in refused

    await apply(
        lab.us, SERVICE_ACCOUNTS, {**head(SERVICE_ACCOUNTS), "metadata": {"name": "nobody", "namespace": NAMESPACE}}
    )
    weak = lab.kubeconfig("weak", users={"us": {"token": await token(lab.us, NAMESPACE, "nobody")}})
    refused = await lab.refused(*base, kubeconfig=weak)
    assert "cluster us does not let you" in refused
    assert 'cannot list resource "sources"' in refused

    await lab.us.patch(SOURCES, "cd", {"metadata": {"annotations": {names.ANNOTATION_CLUSTER_UID: "x"}}}, NAMESPACE)
    assert "Source team/cd of cluster us stands for another cluster" in await lab.refused(*base)
    annotations = {names.ANNOTATION_CLUSTER_UID: None}
    await lab.us.patch(SOURCES, "cd", {"metadata": {"annotations": annotations}}, NAMESPACE)

    granted = (await lab.us.get(CLUSTER_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE))["rules"]
    fewer = [rule for rule in granted if "clustersummaries" not in rule["resources"]]
    await lab.us.patch(CLUSTER_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE, {"rules": fewer})
    refused = await lab.refused(*base, "--timeout", "1s")
    await lab.us.patch(CLUSTER_ROLES, CLUSTER_SUMMARY_VIEWER_ROLE, {"rules": granted})
    assert 'cannot list resource "clustersummaries"' in refused
    assert CLUSTER_SUMMARY_VIEWER_ROLE in refused


@pytest.mark.asyncio(loop_scope="module")
async def test_who_may_not_do_all_of_it_is_told_of_all_that_is_missing(lab: Lab) -> None:
    reader = {
        **head(ROLES),
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "rules": [{"apiGroups": [names.GROUP], "resources": ["sources"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": ROLES.api_version,
        "kind": "RoleBinding",
        "metadata": {"name": "reader", "namespace": NAMESPACE},
        "roleRef": {"apiGroup": ROLES.group, "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "nobody", "namespace": NAMESPACE}],
    }
    await lab.us.create(ROLES, reader)
    await lab.us.create(Kind(ROLES.group, "v1", "rolebindings", "RoleBinding"), binding)
    weak = lab.kubeconfig("weak", users={"us": {"token": await token(lab.us, NAMESPACE, "nobody")}})
    base = ("join", "--context", "cd", "--target-context", "us", "-n", NAMESPACE, "--allow-loopback")

    async def told() -> str:
        refused = await lab.refused(*base, kubeconfig=weak)
        return refused if "serviceaccounts/token" in refused else ""

    refused = await until(told, 30)
    assert "create sources.multicluster.admiralty.io in namespace team" in refused
    assert "create serviceaccounts/token in namespace team (the source's token)" in refused
    assert "Done before that: nothing" in refused


@pytest.mark.asyncio(loop_scope="module")
async def test_leaving_drains_the_target_and_takes_away_what_was_made(lab: Lab) -> None:
    assert await exists(lab.cd, PODS, "web")
    code, output, errors = await lab.type(
        "leave", "--context", "cd", "--target-context", "us", "-n", NAMESPACE, "-o", "json"
    )
    assert code == 0, errors
    (report,) = json.loads(output)
    assert [change.split()[0] for change in report["changes"]] == ["Target", "Secret", "Source"]
    assert await gone(lab.cd, PODS, "web")
    assert not await lab.us.list(CHAPERONS, NAMESPACE)
    assert await gone(lab.cd, TARGETS, "us")
    await let_go(lab.cd, "us")
    for kind in (SERVICE_ACCOUNTS, ROLES):
        name = "cd" if kind == SERVICE_ACCOUNTS else names.source_renewal("cd")
        await until(lambda kind=kind, name=name: gone(lab.us, kind, name), 60)


@pytest.mark.asyncio(loop_scope="module")
async def test_leaving_a_target_that_is_out_of_reach_says_what_remains(lab: Lab) -> None:
    await lab.join()
    server = {**kubeconfig.cluster_of(lab.document, "us"), "server": "https://127.0.0.1:1"}
    away = lab.kubeconfig("away", clusters={"us": server})
    leave = ("leave", "--context", "cd", "--target-context", "us", "-n", NAMESPACE, "--force")
    refused = await lab.refused(*leave, kubeconfig=away)
    assert "cluster us cannot be reached" in refused
    assert "Source team/cd remains in cluster us" in refused
    assert "kubectl --context us delete sources -n team cd" in refused
    assert "Target team/us in cluster cd deleted" in refused
    assert (await lab.type(*leave))[0] == 0
    assert await gone(lab.us, SOURCES, "cd")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_cluster_without_the_chart_is_told_from_one_that_has_it(lab: Lab) -> None:
    await lab.us.delete(CRDS, str(SOURCES))
    await until(lambda: gone(lab.us, CRDS, str(SOURCES), None), 30)
    base = ("join", "--context", "cd", "--target-context", "us", "-n", NAMESPACE, "--allow-loopback")

    async def told() -> str:
        refused = await lab.refused(*base)
        return refused if "does not serve" in refused else ""

    refused = await until(told, 30)
    assert "does not serve sources.multicluster.admiralty.io: install the chart there" in refused


async def test_where_only_admiralty_is_installed_nothing_is_joined(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    async def refused() -> str:
        where = ("--kubeconfig", str(cluster.kubeconfig), "--target-context", cluster.name)
        code, _, errors = await flotilla("join", *where, "--target-name", "other", "-n", namespace)
        assert code == 1
        return errors

    with contextlib.suppress(NotFound):
        await client.delete(CLUSTER_SUMMARIES, names.SUMMARY_NAME)
    text = await refused()
    assert "has the CRDs of Admiralty or Flotilla, but no agent of Flotilla is at work there" in text
    assert "--without-agent" in text
    spec = {"holderIdentity": "someone", "leaseDurationSeconds": 15, "renewTime": micro_stamp(datetime.now(UTC))}
    lease = {**head(LEASES), "metadata": {"name": names.LEASE_CONTROLLERS, "namespace": namespace}, "spec": spec}
    await client.create(LEASES, lease)
    try:
        assert "is not one of Flotilla, but Admiralty's" in await refused()
    finally:
        await client.delete(LEASES, names.LEASE_CONTROLLERS, namespace)
