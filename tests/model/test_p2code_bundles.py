"""Bundles of P2CODE's applications: every rule by which an object belongs to a workload, and the modes of bundling."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.model.p2code.annotations import Filter, Override, combined, filters
from agent.model.p2code.check import draft
from tests.model.applications import SET, Raw, bundled, container, manifest, spec_of, workload

EXAMPLE = Path(__file__).parent.parent / "api/p2code.yaml"
NAMESPACE = manifest("Namespace", "demo")
ACCOUNT = {"serviceAccountName": "robot"}
ROBOT = manifest("ServiceAccount", "robot")
READER = {"kind": "Role", "name": "system:reader"}
SERVICE = manifest("Service", "front", spec={"selector": {"app": "web"}})


def binding(kind: str = "RoleBinding", role: str = "reader", role_kind: str = "Role", namespace: str = "demo") -> Raw:
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": namespace}
    return manifest(kind, "lets", roleRef={"kind": role_kind, "name": role}, subjects=[subject])


def ingress(**spec: Any) -> Raw:
    return manifest("Ingress", "door", spec=spec)


def paths(service: str) -> list[Raw]:
    return [{"http": {"paths": [{"backend": {"service": {"name": service}}}]}}]


def monitor(**spec: Any) -> Raw:
    return manifest("ServiceMonitor", "scrape", spec=spec)


def scaler(version: str = "apps/v1", kind: str = "Deployment", name: str = "web", namespace: str = "demo") -> Raw:
    target = {"apiVersion": version, "kind": kind, "name": name}
    return manifest("HorizontalPodAutoscaler", "scale", namespace, spec={"scaleTargetRef": target})


BELONGS = {
    "namespace": (workload(), [NAMESPACE]),
    "pull secret": (workload(spec={"imagePullSecrets": [{"name": "s"}]}), [manifest("Secret", "s")]),
    "claim": (
        workload(spec={"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}),
        [manifest("PersistentVolumeClaim", "c")],
    ),
    "config map volume": (workload(spec={"volumes": [{"configMap": {"name": "c"}}]}), [manifest("ConfigMap", "c")]),
    "secret volume": (workload(spec={"volumes": [{"secret": {"secretName": "s"}}]}), [manifest("Secret", "s")]),
    "projected volume": (
        workload(
            spec={
                "volumes": [
                    {"projected": {"sources": [{"configMap": {"name": "c"}}, {"secret": {"name": "s"}}]}},
                ]
            }
        ),
        [manifest("ConfigMap", "c"), manifest("Secret", "s")],
    ),
    "claim of a template": (
        workload(kind="StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}}]),
        [manifest("PersistentVolumeClaim", "data-web-12")],
    ),
    "account": (workload(spec=ACCOUNT), [ROBOT]),
    "role": (workload(spec=ACCOUNT), [ROBOT, binding(), manifest("Role", "reader")]),
    "cluster role": (
        workload(spec=ACCOUNT),
        [ROBOT, binding("ClusterRoleBinding", role_kind="ClusterRole"), manifest("ClusterRole", "reader")],
    ),
    "cluster role in a namespace": (
        workload(spec=ACCOUNT),
        [ROBOT, binding(role_kind="ClusterRole"), manifest("ClusterRole", "reader")],
    ),
    "role of the system": (
        workload(spec=ACCOUNT),
        [ROBOT, binding("ClusterRoleBinding", "system:auth-delegator", "ClusterRole")],
    ),
    "environment": (
        workload(
            spec=container(
                envFrom=[{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
                env=[
                    {"valueFrom": {"configMapKeyRef": {"name": "c"}}},
                    {"valueFrom": {"secretKeyRef": {"name": "d"}}},
                ],
            )
        ),
        [manifest("ConfigMap", "a"), manifest("Secret", "b"), manifest("ConfigMap", "c"), manifest("Secret", "d")],
    ),
    "environment of an init container": (
        workload(spec={"initContainers": [{"envFrom": [{"configMapRef": {"name": "a"}}]}]}),
        [manifest("ConfigMap", "a")],
    ),
    "optional and there": (
        workload(spec=container(envFrom=[{"configMapRef": {"name": "a", "optional": True}}])),
        [manifest("ConfigMap", "a")],
    ),
    "service of a stateful set": (
        workload(kind="StatefulSet", serviceName="peers"),
        [manifest("Service", "peers", spec={"clusterIP": "None"})],
    ),
    "service": (workload(), [SERVICE]),
    "ingress": (workload(), [SERVICE, ingress(rules=paths("front"))]),
    "ingress by default": (workload(), [SERVICE, ingress(defaultBackend={"service": {"name": "front"}})]),
    "certificate": (
        workload(),
        [SERVICE, ingress(rules=paths("front"), tls=[{"secretName": "cert"}]), manifest("Secret", "cert")],
    ),
    "route": (workload(), [SERVICE, manifest("Route", "r", spec={"to": {"kind": "Service", "name": "front"}})]),
    "monitor by the pods' label": (workload(), [SERVICE, monitor(selector={"matchLabels": {"app": "web"}})]),
    "monitor by an expression": (
        workload(),
        [
            SERVICE,
            monitor(selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["api", "web"]}]}),
        ],
    ),
    "monitor by the service's labels": (
        workload(),
        [
            manifest("Service", "front", labels={"tier": "edge"}, spec={"selector": {"app": "web"}}),
            monitor(selector={"matchLabels": {"tier": "edge"}}),
        ],
    ),
    "autoscaler": (workload(), [scaler()]),
    "network policy": (workload(), [manifest("NetworkPolicy", "n", spec={"podSelector": {}})]),
    "budget": (
        workload(),
        [manifest("PodDisruptionBudget", "b", spec={"selector": {"matchLabels": {"app": "web"}}})],
    ),
}
"""Workloads and the objects that belong to them, in the order in which the objects are found."""


@pytest.mark.parametrize("rule", BELONGS)
def test_it_belongs_to_the_workload(rule: str) -> None:
    owner, belonging = BELONGS[rule]
    found = bundled(*reversed(belonging), owner)
    (one,) = found.bundles
    assert [each.raw for each in one.manifests] == [owner, *belonging]
    assert (one.absent, found.orphans) == ((), ())


STRANGERS = {
    "nothing refers to it": (workload(), manifest("ConfigMap", "c")),
    "of another namespace": (
        workload(spec={"volumes": [{"configMap": {"name": "c"}}]}),
        manifest("ConfigMap", "c", "other"),
    ),
    "the other name of an account": (workload(spec={"serviceAccount": "robot"}), ROBOT),
    "roles without the account": (workload(), binding()),
    "a binding of another namespace's account": (workload(spec=ACCOUNT), binding(namespace="other")),
    "a binding of an account of no namespace": (
        workload(spec=ACCOUNT),
        manifest("RoleBinding", "lets", roleRef=READER, subjects=[{"kind": "ServiceAccount", "name": "robot"}]),
    ),
    "a binding of a user of that name": (
        workload(spec=ACCOUNT),
        manifest(
            "RoleBinding", "lets", roleRef=READER, subjects=[{"kind": "User", "name": "robot", "namespace": "demo"}]
        ),
    ),
    "a part of the selector": (
        workload(),
        manifest("Service", "front", spec={"selector": {"app": "web", "tier": "edge"}}),
    ),
    "a service without selector": (workload(), manifest("Service", "front", spec={"selector": {}})),
    "a service elsewhere": (workload(), manifest("Service", "front", "other", spec={"selector": {"app": "web"}})),
    "an ingress to another service": (workload(), ingress(rules=paths("back"))),
    "an ingress without http": (workload(), ingress(rules=[{"host": "x"}])),
    "a route to something else": (workload(), manifest("Route", "r", spec={"to": {"kind": "Pool", "name": "front"}})),
    "another backend of a route": (
        workload(),
        manifest(
            "Route",
            "r",
            spec={
                "to": {"kind": "Service", "name": "back"},
                "alternateBackends": [{"kind": "Service", "name": "front"}],
            },
        ),
    ),
    "a monitor of nothing": (workload(), monitor(selector={})),
    "a monitor of others": (workload(), monitor(selector={"matchLabels": {"app": "api"}})),
    "a monitor of other namespaces": (
        workload(),
        monitor(selector={"matchLabels": {"app": "web"}}, namespaceSelector={"matchNames": ["other"]}),
    ),
    "an autoscaler of another name": (workload(), scaler(name="api")),
    "an autoscaler of another kind": (workload(), scaler(kind="StatefulSet")),
    "an autoscaler of another version": (workload(), scaler("apps/v1beta1")),
    "an autoscaler elsewhere": (workload(), scaler(namespace="other")),
    "a policy for others": (
        workload(),
        manifest("NetworkPolicy", "n", spec={"podSelector": {"matchLabels": {"app": "api"}}}),
    ),
    "a budget without selector": (workload(), manifest("PodDisruptionBudget", "b", spec={})),
    "a claim of another template": (
        workload(kind="StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}}]),
        manifest("PersistentVolumeClaim", "data-web-x"),
    ),
    "a quota": (workload(), manifest("ResourceQuota", "q")),
    "another namespace": (workload(), manifest("Namespace", "other")),
}


@pytest.mark.parametrize("rule", STRANGERS)
def test_it_is_an_orphan(rule: str) -> None:
    owner, stranger = STRANGERS[rule]
    beside = {"a monitor": [NAMESPACE, SERVICE], "another backend": [SERVICE], "a binding": [ROBOT]}
    found = bundled(*next((some for begin, some in beside.items() if rule.startswith(begin)), ()), owner, stranger)
    (one,) = found.bundles
    where = f"{stranger['metadata']['namespace']}/" if "namespace" in stranger["metadata"] else ""
    assert found.orphans == (f"{stranger['kind']} {where}{stranger['metadata']['name']}",)
    assert stranger not in [each.raw for each in one.manifests]


MISSING = {
    "pull secret": (workload(spec={"imagePullSecrets": [{"name": "s"}]}), "Secret", "s"),
    "claim": (
        workload(spec={"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}),
        "PersistentVolumeClaim",
        "c",
    ),
    "config map": (workload(spec={"volumes": [{"configMap": {"name": "c"}}]}), "ConfigMap", "c"),
    "secret": (workload(spec={"volumes": [{"secret": {"secretName": "s"}}]}), "Secret", "s"),
    "projected": (workload(spec={"volumes": [{"projected": {"sources": [{"secret": {"name": "s"}}]}}]}), "Secret", "s"),
    "account": (workload(spec=ACCOUNT), "ServiceAccount", "robot"),
    "environment": (workload(spec=container(envFrom=[{"configMapRef": {"name": "c"}}])), "ConfigMap", "c"),
    "key": (
        workload(spec=container(env=[{"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}])),
        "Secret",
        "s",
    ),
    "service": (workload(kind="StatefulSet", serviceName="peers"), "Service", "peers"),
}


@pytest.mark.parametrize("rule", MISSING)
def test_what_nobody_defines_is_absent(rule: str) -> None:
    owner, kind, name = MISSING[rule]
    (one,) = bundled(owner).bundles
    assert one.absent == ((kind, name),)


def test_a_binding_to_a_role_that_nobody_defines_is_left_out() -> None:
    found = bundled(workload(spec=ACCOUNT), ROBOT, binding())
    assert found.bundles[0].absent == (("Role", "reader"),)
    assert found.orphans == ("RoleBinding demo/lets",)


NEVER_MISSING = {
    "optional volume": {"volumes": [{"configMap": {"name": "c", "optional": True}}]},
    "optional secret": {"volumes": [{"secret": {"secretName": "s", "optional": True}}]},
    "optional projection": {"volumes": [{"projected": {"sources": [{"secret": {"name": "s", "optional": True}}]}}]},
    "optional environment": container(envFrom=[{"secretRef": {"name": "s", "optional": True}}]),
    "optional key": container(env=[{"valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}]),
    "what is named elsewhere": {
        "volumes": [{"csi": {"nodePublishSecretRef": {"name": "s"}}}, {"ephemeral": {}}],
        "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "s"}}]}],
    },
    "the account that every namespace has": {"serviceAccountName": "default"},
    "the certificate that every namespace has": {"volumes": [{"configMap": {"name": "kube-root-ca.crt"}}]},
    "no name at all": {"volumes": [{"configMap": {}}, {"secret": None}, "nonsense"], "serviceAccountName": 7},
}


@pytest.mark.parametrize("rule", NEVER_MISSING)
def test_what_pods_can_do_without_is_never_missing(rule: str) -> None:
    assert bundled(workload(spec=NEVER_MISSING[rule])).bundles[0].absent == ()


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob"])
def test_what_makes_pods_is_a_workload(kind: str) -> None:
    needs = workload(kind=kind, spec={"volumes": [{"configMap": {"name": "c"}}]})
    found = bundled(needs, manifest("ConfigMap", "c"), SERVICE)
    assert [[each.kind for each in one.manifests] for one in found.bundles] == [[kind, "ConfigMap", "Service"]]


def test_what_is_shared_is_in_both_bundles_and_masks_no_orphan() -> None:
    needs = {"volumes": [{"configMap": {"name": "c"}}]}
    objects = [workload("a", spec=needs), workload("b", spec=needs), manifest("ConfigMap", "c"), manifest("Secret")]
    found = bundled(*objects)
    assert [[each.name for each in one.manifests] for one in found.bundles] == [["a", "c"], ["b", "c"]]
    assert found.orphans == ("Secret demo/x",)


MODES = {
    "nothing asked": ({}, "default", ["default"]),
    "global": ({"common": (SET, "p2code.filter.a=b")}, "global", ["global"]),
    "one cluster": ({"common": (SET, "p2code.target.cluster=c"), "own": [{"name": "web"}]}, "cluster", ["shop"]),
    "workloads": ({"own": [{"name": "web", "annotations": ["p2code.filter.a=b"]}]}, "workloads", ["web", "api"]),
    "an entry that asks for nothing": ({"own": [{"name": "web"}]}, "workloads", ["web", "api"]),
    "an empty list": ({"own": []}, "default", ["default"]),
}


@pytest.mark.parametrize("rule", MODES)
def test_the_mode_follows_from_annotations(rule: str) -> None:
    given, mode, names = MODES[rule]
    found = bundled(workload("web"), workload("api"), SERVICE, **{"own": None, **given})
    assert found.mode == mode
    assert [each.name for each in found.bundles] == names
    sizes = [1 + (each.name == "web") for each in found.bundles] if mode == "workloads" else [3]
    assert [len(each.manifests) for each in found.bundles] == sizes


@pytest.mark.parametrize("given", [{"own": None}, {"common": (SET, "p2code.target.cluster=c")}, {}])
def test_a_duplicate_counts_once_and_is_told(given: Raw) -> None:
    found = bundled(workload(), workload(spec=ACCOUNT), **given)
    assert [[each.raw for each in one.manifests] for one in found.bundles] == [[workload()]]
    assert found.orphans == ("Deployment demo/web (a second time)",)


def test_objects_of_other_groups_are_no_duplicates() -> None:
    other = {**manifest("Role", "reader"), "apiVersion": "authorization.openshift.io/v1"}
    found = bundled(manifest("Role", "reader"), other, workload(), own=None)
    assert (len(found.bundles[0].manifests), found.orphans) == (3, ())


def test_the_namespace_default_needs_no_manifest() -> None:
    found = bundled(workload(namespace="default"), manifest("Namespace", "default"))
    assert found.orphans == ("Namespace default",)


def test_workloads_of_one_name_are_told_apart() -> None:
    found = bundled(workload("web"), workload("web", "Job"), workload("web", namespace="b"), workload("api"))
    assert [each.name for each in found.bundles] == ["web-deployment-demo", "web-job", "web-deployment-b", "api"]
    # Even if another object already has that name.
    found = bundled(workload("web-job"), workload("web", "Job"), workload("web"))
    names = [each.name for each in found.bundles]
    assert names[::2] == ["web-job", "web-deployment"]
    assert names[1].startswith("web-job-demo-batch")
    assert len(set(names)) == 3


GLOBAL = (Filter("p2code.filter.a", "1"),)


@pytest.mark.parametrize(
    ("own", "precedence", "counts", "overridden"),
    [
        (["p2code.filter.b=2"], "global", ["a=1", "b=2"], []),
        (["p2code.filter.a=2"], "global", ["a=1"], ["a=2"]),
        (["p2code.filter.a=1"], "global", ["a=1"], []),
        (["p2code.filter.a=2"], "and", ["a=1", "a=2"], []),
        (["p2code.filter.b=2", "p2code.filter.b=3"], "global", ["a=1", "b=2", "b=3"], []),
        (["p2code.filter.b=2=3"], "global", ["a=1", "b=2"], []),
        (["p2code.filter.b="], "global", ["a=1", "b="], []),
    ],
)
def test_a_global_filter_wins(own: list[str], precedence: Any, counts: list[str], overridden: list[str]) -> None:
    found, without = combined(GLOBAL, filters(own), precedence)
    assert [str(each).removeprefix("p2code.filter.") for each in found] == counts
    assert without == tuple(Override(each, GLOBAL) for each in filters(f"p2code.filter.{each}" for each in overridden))


def test_of_several_entries_for_one_workload_the_last_counts() -> None:
    own = [{"name": "web", "annotations": [f"p2code.filter.a={each}"]} for each in (1, 2)]
    (one,) = bundled(workload(), own=own).bundles
    assert one.filters == (("p2code.filter.a", "2"),)


def test_the_example_of_the_article_has_four_bundles() -> None:
    spec = yaml.safe_load(EXAMPLE.read_text())["spec"]
    found = draft(spec, "example", "global").application
    assert found is not None
    kinds = {one.name: [f"{each.kind} {each.name}" for each in one.manifests] for one in found.bundling.bundles}
    assert kinds == {
        "httpd": ["Deployment httpd", "Namespace demo"],
        "nginx": ["Deployment nginx", "Namespace demo", "ConfigMap server-config"],
        "hello-frontend": ["Deployment hello-frontend", "Namespace demo"],
        "hello-backend": ["Deployment hello-backend", "Namespace demo", "Service backend"],
    }
    assert found.bundling.orphans == ()
    assert spec_of()["globalAnnotations"] == spec["globalAnnotations"]
