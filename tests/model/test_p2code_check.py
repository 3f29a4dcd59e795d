"""Status of P2CODE's applications: every state, reason and message of its scheduler, in the order of its checks."""

from dataclasses import replace
from typing import Any

import pytest

from agent.model.p2code import verdicts
from agent.model.p2code.check import Application, World, check, draft
from agent.model.p2code.verdicts import Verdict
from tests.model.applications import SET, Raw, manifest, spec_of, workload

WORLD = World(sets={"p2code": {"c1", "c2"}, "empty": ()}, bound={"p2code"}, namespaces={"default", "demo"})
FILTER = "p2code.filter.a=1"
BEGIN = "Invalid workload annotation provided : "
FORM = BEGIN + (
    "invalid workload annotations provided, all workload annotations must be of the form p2code.filter.feature=value"
)


def verdict(spec: Raw, world: World = WORLD) -> Verdict:
    found = check(draft(spec, "shop", "global"), world)
    assert isinstance(found, Verdict), found
    return found


ANNOTATIONS = {
    "something else": ((SET, "color=red"), "color=red"),
    "the first of them": ((SET, "a=1", "b=2"), "a=1"),
    "no value": ((SET, "p2code.filter.a"), "p2code.filter.a"),
    "a target without value": (("p2code.target.managedClusterSet",), "p2code.target.managedClusterSet"),
    "an unknown target": ((SET, "p2code.target.region=eu"), "p2code.target.region=eu"),
    "a key with more behind it": ((SET, "p2code.target.clusters=c1"), "p2code.target.clusters=c1"),
}


@pytest.mark.parametrize("rule", ANNOTATIONS)
def test_an_annotation_is_unsupported(rule: str) -> None:
    common, named = ANNOTATIONS[rule]
    found = verdict(spec_of(workload(), common=common))
    message = f"Unsupported annotations found, {named} is an unsupported annotation"
    assert found == ("Misconfigured", "UnsupportedAnnotation", message)


@pytest.mark.parametrize("annotation", [FILTER, "p2code.filterX=1", "p2code.filter.a=", "p2code.filter.a=1=2"])
def test_a_filter_is_supported(annotation: str) -> None:
    assert isinstance(check(draft(spec_of(workload(), common=(SET, annotation)), "x", "global"), WORLD), Application)


TARGETS = {
    "no set": (
        (FILTER,),
        "Misconfigured",
        "MissingTarget",
        "Target information missing from the scheduling manifest, no target managed cluster set provided",
    ),
    "an empty name": (
        ("p2code.target.managedClusterSet=",),
        "Misconfigured",
        "MissingTarget",
        "Target information missing from the scheduling manifest, no target managed cluster set provided",
    ),
    "no such set": (
        ("p2code.target.managedClusterSet=nowhere",),
        "SchedulingFailed",
        "InvalidTarget",
        "Cannot find a managed cluster set with the name nowhere",
    ),
    "the last set counts": (
        (SET, "p2code.target.managedClusterSet=nowhere"),
        "SchedulingFailed",
        "InvalidTarget",
        "Cannot find a managed cluster set with the name nowhere",
    ),
    "an empty set": (
        ("p2code.target.managedClusterSet=empty",),
        "SchedulingFailed",
        "InvalidTarget",
        "The managed cluster set selected (empty) is empty",
    ),
    "no such cluster": (
        (SET, "p2code.target.cluster=c3"),
        "SchedulingFailed",
        "InvalidTarget",
        "Cannot find a managed cluster with the name c3 in the p2code managed cluster set",
    ),
}


@pytest.mark.parametrize("rule", TARGETS)
def test_a_target_is_wrong(rule: str) -> None:
    common, *told = TARGETS[rule]
    assert verdict(spec_of(workload(), common=common)) == tuple(told)


def test_a_set_that_is_not_bound_is_not_accessible() -> None:
    found = verdict(spec_of(workload()), replace(WORLD, bound=()))
    assert found == (
        "SchedulingFailed",
        "InaccessibleManagedClusterSet",
        "The scheduler is not authorized to access the p2code managed cluster set",
    )


def without(raw: Raw, field: str) -> Raw:
    return {key: value for key, value in raw.items() if key != field}


def unsupported(kind: str) -> str:
    return f"Unsupported manifest: the cluster admin is responsible for managing {kind} resources"


MANIFESTS: dict[str, tuple[Any, str]] = {
    "a volume": (manifest("PersistentVolume"), unsupported("persistentvolume")),
    "a custom resource": ({**manifest("Widget"), "apiVersion": "w.io/v1"}, unsupported("widget")),
    "an older version": (
        {**manifest("HorizontalPodAutoscaler"), "apiVersion": "autoscaling/v1"},
        unsupported("horizontalpodautoscaler"),
    ),
    "a class": ({**manifest("StorageClass"), "apiVersion": "storage.k8s.io/v1"}, unsupported("storageclass")),
    "a CRD": (
        {**manifest("CustomResourceDefinition"), "apiVersion": "apiextensions.k8s.io/v1"},
        unsupported("customresourcedefinition"),
    ),
    "a monitor of pods": (
        {**manifest("PodMonitor"), "apiVersion": "monitoring.coreos.com/v1"},
        unsupported("podmonitor"),
    ),
    "another policy": ({**manifest("PodSecurityPolicy"), "apiVersion": "policy/v1"}, unsupported("podsecuritypolicy")),
    "a pod on every node": (workload(kind="DaemonSet"), unsupported("daemonset")),
    "what has no pods": (manifest("ControllerRevision"), unsupported("controllerrevision")),
    "no namespace": (
        {**workload(), "metadata": {"name": "web"}},
        "Invalid manifest: missing namespace for deployment with the name web",
    ),
    "no name": (
        {**manifest("ConfigMap"), "metadata": {"namespace": "demo"}},
        "Invalid manifest: missing name for configmap (manifest 2)",
    ),
    "no metadata": (
        {**manifest("ConfigMap"), "metadata": "x"},
        "Invalid manifest: missing name for configmap (manifest 2)",
    ),
    "no kind": (without(manifest("ConfigMap"), "kind"), "Invalid manifest: manifest 2 has no kind"),
    "no version": (without(manifest("ConfigMap"), "apiVersion"), "Invalid manifest: manifest 2 has no apiVersion"),
    "a namespace that does not exist": (
        manifest("ConfigMap", namespace="other"),
        "Invalid manifest: configmap x is in the namespace other, which does not exist: add a manifest for it",
    ),
}


@pytest.mark.parametrize("rule", MANIFESTS)
def test_a_manifest_is_not_taken(rule: str) -> None:
    wrong, message = MANIFESTS[rule]
    for common in ((SET,), (SET, FILTER), (SET, "p2code.target.cluster=c1")):
        found = verdict(spec_of(workload("good"), wrong, common=common))
        assert found == ("Misconfigured", "MisconfiguredManifest", message)


TAKEN = [
    *("ConfigMap", "Secret", "Service", "ServiceAccount", "PersistentVolumeClaim", "ResourceQuota", "Namespace"),
    *("Deployment", "StatefulSet", "ReplicaSet", "Job", "CronJob", "Pod", "Ingress", "NetworkPolicy", "Role"),
    *("RoleBinding", "ClusterRole", "ClusterRoleBinding", "HorizontalPodAutoscaler", "PodDisruptionBudget"),
    *("Route", "ServiceMonitor"),
]


@pytest.mark.parametrize("kind", TAKEN)
def test_a_kind_is_taken(kind: str) -> None:
    assert isinstance(check(draft(spec_of(manifest(kind)), "x", "global"), WORLD), Application)


def test_a_role_of_openshift_is_taken() -> None:
    role = {**manifest("Role"), "apiVersion": "authorization.openshift.io/v1"}
    assert isinstance(check(draft(spec_of(role), "x", "global"), WORLD), Application)


def test_a_namespace_that_an_application_brings_need_not_exist() -> None:
    objects = [manifest("Namespace", "fresh"), workload(namespace="fresh")]
    assert isinstance(check(draft(spec_of(*objects), "x", "global"), WORLD), Application)


DISABLED = replace(WORLD, disabled={"demo"})


def test_a_workload_in_a_namespace_that_is_not_enabled_would_stay_here() -> None:
    settings = manifest("ConfigMap", "settings")
    found = verdict(spec_of(settings, workload()), DISABLED)
    assert found == (
        "Misconfigured",
        "MisconfiguredManifest",
        (
            "Invalid manifest: deployment web: namespace demo is not enabled, so that nothing new of it goes to "
            "targets: kubectl label namespace demo multicluster-scheduler=enabled"
        ),
    )
    # The label is irrelevant without pods, if the application creates the namespace, or if no object
    # is applied locally.
    assert isinstance(check(draft(spec_of(settings), "x", "global"), DISABLED), Application)
    made = draft(spec_of(manifest("Namespace", "demo"), workload()), "x", "global")
    assert isinstance(check(made, DISABLED), Application)
    assert isinstance(check(draft(spec_of(workload()), "x", "global", "works"), DISABLED), Application)


WORKLOADS = {
    "another annotation": ([{"name": "web", "annotations": [SET]}], FORM),
    "no value": ([{"name": "web", "annotations": ["p2code.filter.a"]}], FORM),
    "no such workload": (
        [{"name": "web"}, {"name": "nobody", "annotations": [FILTER]}],
        BEGIN + "invalid workload name for workload annotation 2: cannot find a workload resource with the name nobody",
    ),
    "what is no workload": (
        [{"name": "settings"}],
        BEGIN
        + "invalid workload name for workload annotation 1: cannot find a workload resource with the name settings",
    ),
    "no name": (
        [{}],
        BEGIN + "invalid workload name for workload annotation 1: cannot find a workload resource with the name ",
    ),
}


@pytest.mark.parametrize("rule", WORKLOADS)
def test_an_annotation_of_a_workload_is_wrong(rule: str) -> None:
    own, message = WORKLOADS[rule]
    spec = spec_of(workload(), manifest("ConfigMap", "settings"), own=own)
    assert verdict(spec) == ("Misconfigured", "MisconfiguredManifest", message)


@pytest.mark.parametrize("key", ["multicluster/depends-on", "multicluster.admiralty.io/ignore-links"])
def test_an_annotation_that_names_no_services_is_wrong(key: str) -> None:
    wrong = workload()
    wrong["metadata"]["annotations"] = {key: "demo/db:5432, what?"}
    short = "multicluster/" + key.partition("/")[2]
    assert verdict(spec_of(wrong)).message == (
        f"Invalid manifest: deployment web: metadata.annotations[{short}]: 'what?' is no Service: write "
        "NAMESPACE/NAME:PORT, several with commas"
    )


def test_the_first_check_that_fails_is_told() -> None:
    """After each fix the next check reports its failure."""
    world = World(bound=(), namespaces=WORLD.namespaces)
    wrong = {"common": ("color=red",), "own": [{"name": "nobody"}]}
    steps: list[tuple[str, Raw, World]] = [
        ("UnsupportedAnnotation", {}, world),
        ("MissingTarget", {"common": (FILTER,)}, world),
        ("InvalidTarget", {"common": (SET, "p2code.target.cluster=c3")}, world),
        ("InvalidTarget", {}, replace(world, sets={"p2code": ()})),
        ("InaccessibleManagedClusterSet", {}, replace(WORLD, bound=())),
        ("InvalidTarget", {}, WORLD),
        ("MisconfiguredManifest", {"common": (SET,)}, WORLD),
    ]
    told = []
    for _, mended, around in steps:
        wrong |= mended
        told.append(verdict(spec_of(workload(), **wrong), around).reason)
    assert told == [reason for reason, _, _ in steps]


@pytest.mark.parametrize("spec", [{}, {"manifests": None}, {"globalAnnotations": 5, "manifests": [1, "x"]}])
def test_nonsense_is_told_and_harms_nobody(spec: Raw) -> None:
    assert verdict(spec).reason == "MissingTarget"


PLACEMENTS = {
    "NoManagedClusterMatched": (
        "SchedulingAnnotationsUnsatisfied",
        (
            "Unable to find a suitable location for the workload as there are no managed clusters in the p2code "
            "managed cluster set that satisfy the annotations requested"
        ),
    ),
    "NoIntersection": (
        "InaccessibleManagedClusterSet",
        "The scheduler is not authorized to access the p2code managed cluster set",
    ),
    "AllManagedClusterSetsEmpty": ("InvalidTarget", "The managed cluster set selected (p2code) is empty"),
    "NoManagedClusterSetBindings": (
        "InaccessibleManagedClusterSet",
        "The scheduler is not authorized to access any managed cluster sets",
    ),
    "NotAllDecisionsScheduled": ("NotAllDecisionsScheduled", "as it says"),
}


@pytest.mark.parametrize("reason", PLACEMENTS)
def test_a_placement_that_decides_nothing_is_told(reason: str) -> None:
    found = verdicts.unsatisfied(reason, "as it says", "p2code", exists=True)
    assert found == ("SchedulingFailed", *PLACEMENTS[reason])


def test_a_set_that_has_gone_is_told() -> None:
    found = verdicts.unsatisfied("NoIntersection", "", "p2code", exists=False)
    assert found == ("SchedulingFailed", "InvalidTarget", "Cannot find a managed cluster set with the name p2code")


ROWS = {
    "1": (
        verdicts.ANALYSING,
        "SchedulingInProgress",
        "SchedulingInProgress",
        "Analysing scheduling requirements",
    ),
    "1b": (
        verdicts.REANALYSING,
        "SchedulingInProgress",
        "SchedulingInProgress",
        "Reanalysing scheduling requirements",
    ),
    "2": (
        verdicts.wrong_namespace("p2code-scheduler-system"),
        "Misconfigured",
        "IncorrectNamespace",
        "Ignoring resource as it is not in the p2code-scheduler-system namespace",
    ),
    "4": (
        verdicts.DELETING,
        "Finalizing",
        "Finalizing",
        "Performing finalizing operations before deleting P2CodeSchedulingManifest",
    ),
    "4, later": (verdicts.RELEASING, "Finalizing", "Finalizing", "Removing finalizer to allow instance to be deleted"),
    "13": (
        verdicts.PLACED,
        "SchedulingInProgress",
        "PlacementDecisionReady",
        "A suitable cluster has been identified for each workload",
    ),
    "14": (
        verdicts.not_applied("deployments.apps is forbidden"),
        "SchedulingFailed",
        "ManifestWorkFailed",
        "Deployments.apps is forbidden",
    ),
    "15": (
        verdicts.finished((), unlinked=True, orphaned=True),
        "ScheduledWithUnreliableConnectivity",
        "MultiClusterNetworkResourceMissing",
        (
            "All workloads have been successfully scheduled, however network connectivity between components cannot "
            "be guaranteed as it is not possible to create the necessary MultiClusterLinks without the resource being "
            "present"
        ),
    ),
    "16": (
        verdicts.finished((), unlinked=False, orphaned=True),
        "TentativelyScheduled",
        "OrphanedManifest",
        (
            "All workloads have been successfully scheduled however orphaned manifests have been found, ensure all "
            "ancillary resources (services, configmaps, secrets, etc) are referenced by a workload resource"
        ),
    ),
    "18": (
        verdicts.finished((), unlinked=False, orphaned=False),
        "SchedulingSuccessful",
        "SchedulingSuccessful",
        "All workloads have been successfully scheduled to a suitable cluster",
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_state_is_told_in_p2codes_words(row: str) -> None:
    found, *wanted = ROWS[row]
    assert found == tuple(wanted)
    assert found.state in verdicts.STATES


def test_what_workloads_miss_is_told_for_each_of_them() -> None:
    needs = {"volumes": [{"configMap": {"name": "c"}}], "imagePullSecrets": [{"name": "s"}]}
    spec = spec_of(workload("a", spec=needs), workload("b", spec=needs), own=[{"name": "a"}])
    found = check(draft(spec, "shop", "global"), WORLD)
    assert isinstance(found, Application)
    told = verdicts.finished(found.bundling.bundles, unlinked=False, orphaned=False)
    assert told[:2] == ("SchedulingSuccessful", "UndefinedResources")
    assert told.message == (
        "All workloads have been successfully scheduled however some workloads referenced resources that could not be "
        "found : Workload a is missing a secret with the name s.Workload a is missing a configmap with the name c."
        "Workload b is missing a secret with the name s.Workload b is missing a configmap with the name c."
    )
