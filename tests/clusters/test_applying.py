"""Manifests applied with the rights of a service account, on a real API server behind a relay."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from agent.api.kinds import (
    CONFIGMAPS,
    DEPLOYMENTS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    Kind,
)
from agent.api.names.p2code import ANNOTATION_APPLIED_KINDS, LABEL_OWNER, LABEL_PSM_UID
from agent.clusters.cluster import Cluster as Ours
from agent.clusters.copies.applying import Applier
from agent.clusters.copies.outcomes import Refusal, Remaining
from agent.kube.client import Client
from agent.kube.config import Connection, StaticAuth, load
from agent.kube.discovery import Discovery
from agent.kube.errors import KubeError, NotFound
from agent.kube.informer import Informer
from agent.kube.session import Session
from agent.model.applied import Place
from hack.lab.sandbox import Cluster
from tests.kube.relay import Relay, trusting
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]

ALL = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]


@pytest.fixture
def connection(cluster: Cluster) -> Connection:
    return load(str(cluster.kubeconfig))


@dataclass
class Stage:
    """An owner of applied objects (a ConfigMap), and an account with rights that the test grants."""

    client: Client
    namespace: str
    relay: Relay
    owners: Informer
    discovery: Discovery

    def applier(self) -> Applier:
        """Return an applier as a new process creates it."""
        owner = self.owners.store.get((self.namespace, "owner"))
        assert owner is not None
        return Applier(self.owners, owner, "p2code", self.discovery)

    async def apply(self, *manifests: Raw) -> list[Refusal]:
        return await self.applier().apply(manifests)

    async def delete(self) -> list[Remaining]:
        return await self.applier().delete()

    async def get(self, kind: Kind, name: str) -> Raw:
        return await self.client.get(kind, name, self.namespace)

    def writes(self) -> list[str]:
        """Return method and plural of the writes since the last call."""
        made = [(method, path) for method, path in self.relay.requests if method != "GET"]
        self.relay.requests.clear()
        return [f"{method} {path.split('/')[-2]}" for method, path in made]


@asynccontextmanager
async def staged(connection: Connection, client: Client, namespace: str, rules: list[Raw]) -> AsyncIterator[Stage]:
    group = ROLES.group
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "p2code"}}, namespace)
    await client.create(ROLES, {"metadata": {"name": "p2code"}, "rules": rules}, namespace)
    subject = {"kind": "ServiceAccount", "name": "p2code", "namespace": namespace}
    role = {"apiGroup": group, "kind": "Role", "name": "p2code"}
    binding = {"metadata": {"name": "p2code"}, "subjects": [subject], "roleRef": role}
    await client.create(ROLE_BINDINGS, binding, namespace)
    await client.create(CONFIGMAPS, {"metadata": {"name": "owner"}}, namespace)
    async with Relay.started(connection) as relay:
        cluster = Ours(relay.connection, "here")
        try:
            owners = cluster.informer(CONFIGMAPS, namespace)
            await owners.synced.wait()
            stage = Stage(client, namespace, relay, owners, Discovery(cluster.client))
            await until(lambda: _has_rights(client, namespace))
            stage.writes()
            yield stage
        finally:
            await cluster.close()


async def _has_rights(client: Client, namespace: str) -> bool:
    """Return whether the API server has observed the binding, which it watches."""
    as_account = client.as_user(f"system:serviceaccount:{namespace}:p2code")
    try:
        await as_account.list(CONFIGMAPS, namespace)
    except KubeError:
        return False
    return True


@pytest.fixture
async def stage(connection: Connection, client: Client, namespace: str) -> AsyncIterator[Stage]:
    async with staged(connection, client, namespace, ALL) as stage:
        yield stage


def of(api_version: str, kind: str, name: str, namespace: str, **fields: Any) -> Raw:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        **fields,
    }


def config_map(namespace: str, name: str = "settings", **data: str) -> Raw:
    return of("v1", "ConfigMap", name, namespace, data=data or {"colour": "red"})


def secret(namespace: str) -> Raw:
    return of("v1", "Secret", "db", namespace, stringData={"password": "x"})


def template(**spec: Any) -> Raw:
    container = {
        "name": "web",
        "image": "busybox:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}],
        "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}, "limits": {"cpu": "1000m"}},
        "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 10},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        "args": [],
    }
    volumes = [{"name": "tmp", "emptyDir": {}}, {"name": "c", "configMap": {"name": "settings", "optional": True}}]
    return {
        "metadata": {"labels": {"app": "web"}, "annotations": None},
        "spec": {"containers": [container], "volumes": volumes, "nodeSelector": {"nowhere": "true"}, **spec},
    }


def deployment(namespace: str, replicas: int = 1, **fields: Any) -> Raw:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}
    return of("apps/v1", "Deployment", "web", namespace, spec=spec, **fields)


def scaler(namespace: str) -> Raw:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    metric = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    }
    spec = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 3, "metrics": [metric]}
    return of("autoscaling/v2", "HorizontalPodAutoscaler", "web", namespace, spec=spec)


def application(ns: str) -> list[Raw]:
    """Return one object of most kinds in applications, with values that API servers normalize."""
    chosen = {"matchLabels": {"app": "web"}}
    account = {"kind": "ServiceAccount", "name": "web", "namespace": ns}
    rbac = "rbac.authorization.k8s.io"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    path = {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
    stateful = {
        "serviceName": "web",
        "replicas": 0,
        "selector": chosen,
        "template": template(),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    job = {"template": template(restartPolicy="Never")}
    peers = [{"podSelector": {}}, {"namespaceSelector": chosen}]
    return [
        scaler(ns),
        of("networking.k8s.io/v1", "Ingress", "web", ns, spec={"rules": [{"host": "a.b", "http": {"paths": [path]}}]}),
        deployment(ns, status={"replicas": 3}),
        of("apps/v1", "StatefulSet", "db", ns, spec=stateful),
        of("batch/v1", "CronJob", "tidy", ns, spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}}),
        of(
            "v1", "Service", "web", ns, spec={"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
        ),
        config_map(ns),
        secret(ns),
        of("v1", "PersistentVolumeClaim", "files", ns, spec=claim),
        of("v1", "ServiceAccount", "web", ns),
        of(f"{rbac}/v1", "Role", "web", ns, rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]),
        of(
            f"{rbac}/v1",
            "RoleBinding",
            "web",
            ns,
            roleRef={"apiGroup": rbac, "kind": "Role", "name": "web"},
            subjects=[account],
        ),
        of("policy/v1", "PodDisruptionBudget", "web", ns, spec={"maxUnavailable": "20%", "selector": chosen}),
        of(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "web",
            ns,
            spec={"podSelector": {}, "ingress": [{"from": peers, "ports": [{"port": 80}]}]},
        ),
    ]


async def test_what_is_to_be_kept_stays_and_is_found_and_some_of_it_is_deleted_apart(stage: Stage) -> None:
    def is_secret(place: Place) -> bool:
        return place.kind.name == "Secret"

    where = stage.namespace
    assert await stage.apply(config_map(where), secret(where)) == []
    manifests = [config_map(where)]
    assert await stage.applier().apply(manifests, lambda place, name: is_secret(place) and name == "db") == []
    assert await stage.applier().there(is_secret) == {(where, "db")}
    while await stage.applier().delete(is_secret):
        pass
    assert await stage.applier().there(lambda place: True) == {(where, "settings")}
    await gone(lambda: stage.get(SECRETS, "db"))
    # Objects that are not kept are deleted.
    assert await stage.apply(config_map(where), secret(where)) == []
    assert await stage.apply(config_map(where)) == []
    await gone(lambda: stage.get(SECRETS, "db"))


async def test_an_application_is_applied_in_order_and_what_is_unchanged_writes_nothing(stage: Stage) -> None:
    manifests = application(stage.namespace)
    assert await stage.apply(*manifests) == []
    plurals = [each.split()[1] for each in stage.writes()]
    assert plurals[0] == "configmaps"  # the note on the owner
    order = ["roles", "serviceaccounts", "secrets", "services", "deployments", "ingresses"]
    assert [plurals.index(each) for each in order] == sorted(plurals.index(each) for each in order)
    labels = (await stage.get(DEPLOYMENTS, "web"))["metadata"]["labels"]
    owner = await stage.get(CONFIGMAPS, "owner")
    assert (labels[LABEL_OWNER], labels[LABEL_PSM_UID], labels["app"]) == ("owner", owner["metadata"]["uid"], "web")
    versions = await _versions(stage, manifests)
    assert await stage.apply(*manifests) == []
    assert stage.writes() == []
    assert await _versions(stage, manifests) == versions


async def _versions(stage: Stage, manifests: list[Raw]) -> dict[tuple[str, str], str]:
    """Return the versions of all objects, except for those whose controllers write their status meanwhile."""
    found = {}
    for each in manifests:
        kind = await stage.discovery.find(each["apiVersion"], each["kind"])
        assert kind is not None
        if kind.name in ("ConfigMap", "Secret", "Service", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"):
            name = each["metadata"]["name"]
            found[kind.name, name] = (await stage.get(kind, name))["metadata"]["resourceVersion"]
    return found


async def test_an_account_that_may_not_create_secrets_cannot_make_one(
    connection: Connection, client: Client, namespace: str
) -> None:
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "patch"]},
    ]
    async with staged(connection, client, namespace, rules) as stage:
        (refusal,) = await stage.apply(secret(namespace), config_map(namespace))
        assert (refusal.kind, refusal.name, refusal.passing) == ("Secret", "db", False)
        assert f'User "system:serviceaccount:{namespace}:p2code" cannot create resource "secrets"' in refusal.message
        assert await client.list(SECRETS, namespace) == []
        assert (await stage.get(CONFIGMAPS, "settings"))["data"] == {"colour": "red"}
        (refusal,) = await stage.apply(deployment(namespace))
        assert refusal.message.startswith(f"Deployment {namespace}/web: ")
        assert 'cannot list resource "deployments"' in refusal.message


@pytest.mark.parametrize(
    ("account", "remedy"),
    [
        ("p2code", "add the namespace {} to agent.p2code.namespaces of the chart"),
        (
            "other",
            "let the agent impersonate the service account other of the namespace {} by a Role and a RoleBinding there",
        ),
    ],
)
async def test_who_may_not_impersonate_the_account_is_told_what_to_set(
    connection: Connection, client: Client, namespace: str, account: str, remedy: str
) -> None:
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "patch", "create"]}]
    async with staged(connection, client, namespace, rules) as stage:
        token = await client.create(
            SERVICE_ACCOUNTS, {"metadata": {"name": "p2code"}, "spec": {}}, namespace, sub="token"
        )
        auth = StaticAuth(f"Bearer {token['status']['token']}")
        async with Session(Connection(connection.server, trusting(connection), auth)) as session:
            owner = stage.owners.store.get((namespace, "owner"))
            assert owner is not None
            applier = Applier(Informer(Client(session), CONFIGMAPS), owner, account, stage.discovery)
            (refusal,) = await applier.apply([config_map(namespace)])
    assert "cannot impersonate" in refusal.message
    assert refusal.message.endswith(f"; {remedy.format(namespace)}")


async def test_a_foreign_object_is_never_taken_over(stage: Stage) -> None:
    theirs = {"metadata": {"name": "settings"}, "data": {"colour": "blue"}}
    made = await stage.client.create(CONFIGMAPS, theirs, stage.namespace)
    for _ in range(2):
        (refusal,) = await stage.apply(config_map(stage.namespace))
        assert refusal.message == (
            f"ConfigMap {stage.namespace}/settings: an object of that name is there already that is not of this"
            " manifest; delete or rename it, or use another name here"
        )
    assert await stage.get(CONFIGMAPS, "settings") == made
    assert await stage.delete() == []
    assert await stage.get(CONFIGMAPS, "settings") == made


async def test_one_of_another_owner_is_told_by_its_name(stage: Stage) -> None:
    labels = {LABEL_OWNER: "first", LABEL_PSM_UID: "another"}
    made = {"metadata": {"name": "settings", "labels": labels}}
    await stage.client.create(CONFIGMAPS, made, stage.namespace)
    (refusal,) = await stage.apply(config_map(stage.namespace))
    assert "belongs to ConfigMap first" in refusal.message


async def test_what_comes_to_be_between_look_and_write_is_not_taken_over_either(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await stage.client.create(CONFIGMAPS, {"metadata": {"name": "settings"}}, stage.namespace)
    applier = stage.applier()

    async def nothing(*where: object) -> None:
        return None

    monkeypatch.setattr(applier, "_look", nothing)
    (refusal,) = await applier.apply([config_map(stage.namespace)])
    assert refusal.passing
    assert await stage.get(CONFIGMAPS, "settings") == made


async def test_what_is_no_longer_in_the_list_is_pruned_also_of_a_kind_that_is_not(stage: Stage) -> None:
    service = of("v1", "Service", "web", stage.namespace, spec={"ports": [{"port": 80}]})
    old = config_map(stage.namespace, "old")
    assert await stage.apply(service, old, config_map(stage.namespace)) == []
    kept = (await stage.get(CONFIGMAPS, "settings"))["metadata"]["uid"]
    assert await stage.apply(config_map(stage.namespace)) == []
    await gone(lambda: stage.get(SERVICES, "web"))
    await gone(lambda: stage.get(CONFIGMAPS, "old"))
    assert (await stage.get(CONFIGMAPS, "settings"))["metadata"]["uid"] == kept
    owner = await stage.get(CONFIGMAPS, "owner")
    assert owner["metadata"]["annotations"][ANNOTATION_APPLIED_KINDS] == f"ConfigMap/{stage.namespace}"


async def test_nothing_is_pruned_while_something_is_refused(stage: Stage) -> None:
    assert await stage.apply(config_map(stage.namespace, "old")) == []
    unknown = of("example.com/v1", "Thing", "x", stage.namespace)
    assert [each.message for each in await stage.apply(unknown)] == [
        f"Thing {stage.namespace}/x: the API server serves no Thing of example.com/v1"
    ]
    assert await stage.get(CONFIGMAPS, "old")


async def test_what_somebody_changes_is_put_right(stage: Stage) -> None:
    manifests = [deployment(stage.namespace), config_map(stage.namespace)]
    await stage.apply(*manifests)
    image = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "busybox:2"}]
    await stage.client.patch(DEPLOYMENTS, "web", image, stage.namespace, style="json")
    await stage.client.patch(CONFIGMAPS, "settings", {"data": {"colour": None, "extra": "1"}}, stage.namespace)
    stage.writes()
    assert await stage.apply(*manifests) == []
    assert sorted(stage.writes()) == ["PATCH configmaps", "PATCH deployments"]
    found = await stage.get(DEPLOYMENTS, "web")
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "busybox:1"
    assert (await stage.get(CONFIGMAPS, "settings"))["data"] == {"colour": "red", "extra": "1"}
    await stage.apply(*manifests)
    assert stage.writes() == []


async def test_what_goes_from_a_manifest_goes_from_its_object(stage: Stage) -> None:
    await stage.apply(config_map(stage.namespace, a="1", b="2"))
    assert await stage.apply(config_map(stage.namespace, a="1")) == []
    assert (await stage.get(CONFIGMAPS, "settings"))["data"] == {"a": "1"}
    assert len(stage.writes()) == 3  # the note, and twice the object


async def test_replicas_that_an_autoscaler_has_set_stay(stage: Stage) -> None:
    manifests = [deployment(stage.namespace), scaler(stage.namespace)]
    await stage.apply(*manifests)
    await stage.client.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 2}}, stage.namespace, sub="scale")
    stage.writes()
    assert await stage.apply(*manifests) == []
    assert stage.writes() == []
    manifests[0]["metadata"]["labels"]["tier"] = "front"
    assert await stage.apply(*manifests) == []
    assert (await stage.get(DEPLOYMENTS, "web"))["spec"]["replicas"] == 2


async def test_what_the_api_server_finds_wrong_is_told_of_its_object_alone(stage: Stage) -> None:
    bad = of("v1", "Service", "web", stage.namespace, spec={"ports": [{"port": 99999}]})
    no_manifest, refusal = await stage.apply(bad, config_map(stage.namespace), {"kind": "ConfigMap"})
    assert no_manifest.message == "ConfigMap : apiVersion is missing or no string"
    assert "spec.ports[0].port" in refusal.message
    assert await stage.get(CONFIGMAPS, "settings")


async def test_killed_at_any_write_it_converges(stage: Stage) -> None:
    ns = stage.namespace
    manifests = [deployment(ns), config_map(ns), secret(ns)]
    old = of("v1", "Service", "old", ns, spec={"ports": [{"port": 80}]})
    for last in range(5):
        sent = 0

        def lost(method: str, path: str, last: int = last) -> bool:
            nonlocal sent
            sent += method == "PATCH"
            return method == "PATCH" and sent > last

        stage.relay.lose_reply = lost
        with contextlib.suppress(KubeError):
            await stage.apply(old, *manifests)
    assert await stage.get(SERVICES, "old")
    stage.relay.lose_reply = lambda method, path: False
    await until(lambda: _settled(stage, manifests))
    await gone(lambda: stage.get(SERVICES, "old"))
    assert [each["metadata"]["name"] for each in await stage.client.list(SECRETS, ns)] == ["db"]


async def _settled(stage: Stage, manifests: list[Raw]) -> bool:
    try:
        return await stage.apply(*manifests) == []
    except KubeError:
        return False


async def test_deletion_takes_what_makes_pods_first_and_tells_what_is_left(stage: Stage) -> None:
    ns = stage.namespace
    await stage.apply(deployment(ns), config_map(ns), secret(ns))
    await until(lambda: stage.client.list(PODS, ns))
    left = await stage.delete()
    assert left[0] == Remaining("Deployment", ns, "web")
    assert {each.kind for each in left} == {"Deployment", "ConfigMap", "Secret"}
    assert await stage.get(CONFIGMAPS, "settings")
    await until(lambda: _is_gone(stage))
    assert await stage.client.list(SECRETS, ns) == []
    assert await stage.get(CONFIGMAPS, "owner")


async def test_deletion_at_once_waits_for_nothing(stage: Stage) -> None:
    ns = stage.namespace
    held = config_map(ns)
    held["metadata"]["finalizers"] = ["example.com/held"]
    await stage.apply(deployment(ns), held, secret(ns))
    await until(lambda: stage.client.list(PODS, ns))
    await stage.applier().delete(at_once=True)
    await gone(lambda: stage.get(SECRETS, "db"))
    for kind, name in ((DEPLOYMENTS, "web"), (CONFIGMAPS, "settings")):
        with contextlib.suppress(NotFound):
            assert (await stage.get(kind, name))["metadata"]["deletionTimestamp"]
    await stage.client.patch(CONFIGMAPS, "settings", {"metadata": {"finalizers": None}}, ns)
    await gone(lambda: stage.get(DEPLOYMENTS, "web"))


async def _is_gone(stage: Stage) -> bool:
    return await stage.delete() == []


async def test_what_holds_an_object_is_told(stage: Stage) -> None:
    held = config_map(stage.namespace)
    held["metadata"]["finalizers"] = ["example.com/held"]
    await stage.apply(held)
    await stage.delete()
    (left,) = await stage.delete()
    assert left.message == "it is being deleted, and held by finalizers: example.com/held"
    (refusal,) = await stage.apply(held)
    assert refusal.passing
    await stage.client.patch(CONFIGMAPS, "settings", {"metadata": {"finalizers": None}}, stage.namespace)
    await until(lambda: _is_gone(stage))
