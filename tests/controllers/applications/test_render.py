"""Objects for P2CODE's applications: Placements, manifests with the targets of their pods, status."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.applications.render import differs, placement, rendered
from agent.model.p2code import verdicts
from agent.model.p2code.annotations import Filter
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.following import policies_left, rights_left
from agent.model.p2code.manifests import read
from agent.model.p2code.status import Decision, decided, observed, said, status, told
from agent.model.p2code.verdicts import Verdict
from tests.model.applications import SET, Raw, bundled, manifest, workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PSM: Raw = {"metadata": {"name": "shop", "namespace": "team", "uid": "u1", "generation": 2}}
ELECT = {"multicluster/elect": ""}


def bundle(*filters: Filter, name: str = "web") -> Bundle:
    return Bundle(name, (), filters)


def test_a_placement_asks_for_one_cluster_of_the_set_with_the_claims() -> None:
    found = placement(bundle(Filter("p2code.filter.a", "1"), Filter("p2code.filter.a", "2")), "p2code", PSM)
    assert found["metadata"] == {
        "name": "web-shop",
        "namespace": "team",
        "labels": {"scheduling.p2code.eu/owner": "shop", "multicluster/psm-uid": "u1"},
        "ownerReferences": [
            {
                "apiVersion": "scheduling.p2code.eu/v1alpha1",
                "kind": "P2CodeSchedulingManifest",
                "name": "shop",
                "uid": "u1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    expressions = [{"key": "p2code.filter.a", "operator": "In", "values": [each]} for each in ("1", "2")]
    assert found["spec"] == {
        "numberOfClusters": 1,
        "clusterSets": ["p2code"],
        "predicates": [{"requiredClusterSelector": {"claimSelector": {"matchExpressions": expressions}}}],
    }


def test_a_placement_without_filters_has_an_empty_claim_selector() -> None:
    found = placement(bundle(), "p2code", PSM)
    assert found["spec"]["predicates"] == [{"requiredClusterSelector": {"claimSelector": {}}}]


@pytest.mark.parametrize(
    ("spec", "changed"),
    [
        ({}, False),
        ({"prioritizerPolicy": {"mode": "Additive"}}, False),
        ({"numberOfClusters": 2}, True),
        ({"clusterSets": ["other"]}, True),
        ({"predicates": []}, True),
        ({"predicates": [{"requiredClusterSelector": {"claimSelector": {}, "labelSelector": {}}}]}, True),
        ({"predicates": "nonsense"}, True),
    ],
)
def test_a_placement_is_written_when_it_asks_for_something_else(spec: Raw, changed: bool) -> None:
    wanted = placement(bundle(Filter("a", "1")), "p2code", PSM)
    assert differs({**wanted, "spec": {**wanted["spec"], **spec}}, wanted) is changed


def test_defaults_of_the_api_server_are_no_difference() -> None:
    wanted = placement(bundle(), "p2code", PSM)
    defaulted = [{"requiredClusterSelector": {"claimSelector": {}, "labelSelector": {}, "celSelector": {}}}]
    assert not differs({**wanted, "spec": {**wanted["spec"], "predicates": defaulted}}, wanted)


def of(raw: Raw, *path: str) -> Any:
    for each in path:
        raw = raw[each]
    return raw


@pytest.mark.parametrize(
    ("kind", "template"),
    [
        ("Deployment", ("spec", "template", "metadata", "annotations")),
        ("StatefulSet", ("spec", "template", "metadata", "annotations")),
        ("Job", ("spec", "template", "metadata", "annotations")),
        ("CronJob", ("spec", "jobTemplate", "spec", "template", "metadata", "annotations")),
    ],
)
def test_pods_are_elected_and_the_target_is_said_by_what_controls_them(kind: str, template: tuple[str, ...]) -> None:
    owner = workload(kind=kind)
    found = bundled(owner)
    (written,) = rendered(found.bundles, {"web": "c1"}, lambda namespace, cluster: f"{namespace}-{cluster}").values()
    assert of(written, *template) == ELECT
    assert written["metadata"]["annotations"] == {"multicluster/targets": "demo-c1"}
    # The read objects are not modified.
    assert owner == workload(kind=kind)


def test_a_pod_says_both_itself() -> None:
    (written,) = rendered(bundled(workload(kind="Pod")).bundles, {"web": "c1"}, lambda *_: "eu").values()
    assert written["metadata"]["annotations"] == {**ELECT, "multicluster/targets": "eu"}


def test_annotations_of_the_author_stay() -> None:
    owner = workload()
    owner["metadata"]["annotations"] = {"a": "1"}
    owner["spec"]["template"]["metadata"]["annotations"] = {"b": "2"}
    (written,) = rendered(bundled(owner).bundles, {"web": "c1"}, lambda *_: "eu").values()
    assert written["metadata"]["annotations"] == {"a": "1", "multicluster/targets": "eu"}
    assert of(written, "spec", "template", "metadata", "annotations") == {"b": "2", **ELECT}


def test_what_a_bundle_has_follows_its_pods() -> None:
    subject = {"kind": "ServiceAccount", "name": "robot", "namespace": "demo"}
    objects = [
        workload(spec={"serviceAccountName": "robot"}),
        manifest("ServiceAccount", "robot"),
        manifest("RoleBinding", "b", roleRef={"kind": "Role", "name": "r"}, subjects=[subject]),
        manifest("Role", "r"),
        manifest("NetworkPolicy", "n", spec={"podSelector": {}}),
    ]
    written, *_ = rendered(bundled(*objects).bundles, {"web": "c1"}, lambda *_: "eu").values()
    assert of(written, "spec", "template", "metadata", "annotations") == {
        **ELECT,
        "multicluster/follow-service-account": "true",
        "multicluster/follow-roles": "true",
        "multicluster/follow-network-policies": "true",
    }


SUBJECT = {"kind": "ServiceAccount", "name": "robot", "namespace": "demo"}
ACCOUNT, ROLES, POLICIES = (f"multicluster/follow-{each}" for each in ("service-account", "roles", "network-policies"))
FROM_FRONT = {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"from": [{"podSelector": {}}]}]}


def pods_of(written: dict[Any, Raw], kind: str, name: str) -> Raw:
    """Return the annotations of a workload's pod template without the elect annotation."""
    (found,) = [raw for each, raw in written.items() if (each.kind, each.name) == (kind, name)]
    annotations = of(found, "spec", "template", "metadata", "annotations")
    return {key: each for key, each in annotations.items() if key not in ELECT}


def one_cluster(*objects: Raw, own: list[Raw] | None = None, live: Mapping[str, Raw] = {}) -> dict[Any, Raw]:
    found = bundled(*objects, own=own)
    clusters = {each.name: f"c{number}" for number, each in enumerate(found.bundles)}
    return rendered(found.bundles, clusters, lambda *_: "eu", lambda identity: live.get(identity.name, {}))


@pytest.mark.parametrize("role", ["view", "robot-role", "system:node-reader"])
def test_a_binding_to_a_cluster_role_follows(role: str) -> None:
    objects = [
        workload(spec={"serviceAccountName": "robot"}),
        manifest("ServiceAccount", "robot"),
        manifest("RoleBinding", "b", roleRef={"kind": "ClusterRole", "name": role}, subjects=[SUBJECT]),
        manifest("ClusterRole", "robot-role"),
    ]
    written = one_cluster(*objects)
    assert pods_of(written, "Deployment", "web") == {ACCOUNT: "true", ROLES: "true"}
    (following,) = bundled(*objects).bundles[0].following.values()
    # Every cluster has its own copy of a ClusterRole.
    assert bool(rights_left([following])) == (role == "robot-role")


def test_what_does_not_follow_of_rights_is_told() -> None:
    wide = manifest("ClusterRoleBinding", "w", roleRef={"kind": "ClusterRole", "name": "system:x"}, subjects=[SUBJECT])
    found = bundled(workload(spec={"serviceAccountName": "robot"}), manifest("ServiceAccount", "robot"), wide)
    (following,) = found.bundles[0].following.values()
    assert following.annotations == (ACCOUNT,)
    assert rights_left([following]).startswith("ClusterRoleBinding w: ")


def test_only_what_concerns_a_workload_changes_its_pods() -> None:
    app = [workload("web"), workload("migrate", kind="Job"), workload("api", spec={"serviceAccountName": "robot"})]
    more = [
        manifest("NetworkPolicy", "n", spec={"podSelector": {"matchLabels": {"app": "web"}}}),
        manifest("ServiceAccount", "robot"),
        manifest("Role", "r"),
        manifest("RoleBinding", "b", roleRef={"kind": "Role", "name": "r"}, subjects=[SUBJECT]),
    ]
    before, after = one_cluster(*app), one_cluster(*app, *more)
    assert pods_of(before, "Job", "migrate") == pods_of(after, "Job", "migrate") == {}
    assert pods_of(after, "Deployment", "web") == {POLICIES: "true"}
    assert pods_of(after, "Deployment", "api") == {ACCOUNT: "true", ROLES: "true"}


def test_the_template_of_a_job_that_is_there_stays_as_it_is() -> None:
    job = workload("migrate", kind="Job")
    policy = manifest("NetworkPolicy", "n", spec={"podSelector": {}})
    for had in ({}, {ROLES: "true"}):
        live = {"spec": {"template": {"metadata": {"annotations": {**ELECT, **had}}}}}
        assert pods_of(one_cluster(job, policy, live={"migrate": live}), "Job", "migrate") == had
    assert pods_of(one_cluster(job, policy), "Job", "migrate") == {POLICIES: "true"}


def test_pods_of_an_application_that_an_earlier_agent_applied_are_not_replaced() -> None:
    live = {"spec": {"template": {"metadata": {"annotations": {ROLES: "true", POLICIES: "true"}}}}}
    written = one_cluster(workload("web"), manifest("Role", "r"), live={"web": live})
    assert pods_of(written, "Deployment", "web") == {ROLES: "true", POLICIES: "true"}


@pytest.mark.parametrize(
    ("spec", "annotations", "follows"),
    [
        (FROM_FRONT, {}, False),
        (FROM_FRONT, {"multicluster/admit-gateway": "true"}, True),
        ({**FROM_FRONT, "ingress": [{"from": [{"namespaceSelector": {}}]}]}, {}, False),
        ({**FROM_FRONT, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}]}, {}, True),
        ({**FROM_FRONT, "ingress": [{"ports": [{"port": 80}]}]}, {}, True),
        ({**FROM_FRONT, "ingress": []}, {}, True),
        ({**FROM_FRONT, "ingress": [], "egress": [{"to": [{"podSelector": {}}]}]}, {}, False),
    ],
)
def test_a_policy_that_would_cut_off_callers_in_other_clusters_stays_and_is_told(
    spec: Raw, annotations: Raw, follows: bool
) -> None:
    policy = manifest("NetworkPolicy", "n", spec=spec)
    policy["metadata"]["annotations"] = annotations
    apart = [workload("web"), workload("api"), policy]
    own = [{"name": "web"}]
    assert pods_of(one_cluster(*apart, own=own), "Deployment", "web") == ({POLICIES: "true"} if follows else {})
    found = [each for bundle in bundled(*apart, own=own).bundles for each in bundle.following.values()]
    assert ("NetworkPolicy demo/n limits" in policies_left(found)) != follows
    # The policy followed before: it is removed, since it would block callers.
    live = {"web": {"spec": {"template": {"metadata": {"annotations": {POLICIES: "true"}}}}}}
    assert bool(pods_of(one_cluster(*apart, own=own, live=live), "Deployment", "web")) == follows
    # In a single cluster all callers are delegates in the same cluster.
    assert pods_of(one_cluster(*apart), "Deployment", "web") == {POLICIES: "true"}


def test_what_an_author_says_of_following_counts() -> None:
    owner = workload()
    owner["spec"]["template"]["metadata"]["annotations"] = {POLICIES: "false"}
    written = one_cluster(owner, manifest("NetworkPolicy", "n", spec={"podSelector": {}}))
    assert pods_of(written, "Deployment", "web") == {POLICIES: "false"}


def test_what_is_shared_is_written_once_and_a_namespace_is_enabled() -> None:
    objects = [manifest("Namespace", "demo"), workload("a"), workload("b"), manifest("Secret")]
    written = [*rendered(bundled(*objects).bundles, {"a": "c1", "b": "c2"}, lambda _, cluster: cluster).values()]
    assert [f"{each['kind']} {each['metadata']['name']}" for each in written] == [
        "Deployment a",
        "Namespace demo",
        "Deployment b",
    ]
    assert written[1]["metadata"]["labels"] == {"multicluster-scheduler": "enabled"}
    targets = [each["metadata"]["annotations"]["multicluster/targets"] for each in written[::2]]
    assert targets == ["c1", "c2"]


def test_read_manifests_keep_what_they_are() -> None:
    assert read([manifest("Secret", data={"a": "b"})]).manifests[0].raw["data"] == {"a": "b"}


def states(found: Raw) -> dict[str, str]:
    return {each["type"]: each["status"] for each in found["conditions"]}


def test_one_state_is_true_and_those_before_are_false() -> None:
    psm = dict(PSM)
    for number, verdict in enumerate(
        (verdicts.ANALYSING, verdicts.PLACED, verdicts.no_such_set("x"), verdicts.SCHEDULED)
    ):
        psm["status"] = status(psm, verdict, [], (), NOW + timedelta(seconds=number))
        assert [type for type, state in states(psm["status"]).items() if state == "True"] == [verdict.state]
        assert psm["status"]["state"] == verdict.state
        assert said(psm) == verdict
        assert observed(psm)
    assert states(psm["status"]) == {
        "SchedulingInProgress": "False",
        "SchedulingFailed": "False",
        "SchedulingSuccessful": "True",
    }
    failed = find_condition(psm["status"]["conditions"], "SchedulingFailed")
    assert failed is not None
    assert (failed["reason"], failed["message"]) == ("SchedulingSuccessful", "")
    assert not observed({**psm, "metadata": {**psm["metadata"], "generation": 3}})


def test_the_same_told_again_changes_nothing() -> None:
    psm = dict(PSM)
    for verdict in (verdicts.ANALYSING, verdicts.PLACED, verdicts.SCHEDULED):
        psm["status"] = status(psm, verdict, [Decision("web", "c1")], (), NOW)
    assert status(psm, verdicts.SCHEDULED, [Decision("web", "c1")], (), NOW + timedelta(hours=1)) == psm["status"]


def test_decisions_stay_until_there_are_new_ones() -> None:
    psm = {**PSM, "status": {"conditions": [], "state": "", "decisions": []}}
    psm["status"] = status(psm, verdicts.SCHEDULED, [Decision("web", "c1")], (), NOW)
    assert psm["status"]["decisions"] == [{"workloadName": "web", "clusterSelected": "c1"}]
    psm["status"] = status(psm, verdicts.REANALYSING, None, (), NOW)
    assert decided(psm) == [Decision("web", "c1")]
    psm["status"] = status(psm, verdicts.MISSING_TARGET, [], (), NOW)
    assert decided(psm) == []


def test_nothing_was_said_of_a_new_one() -> None:
    assert said(PSM) is None
    assert not observed(PSM)
    assert decided(PSM) == []


def test_what_others_have_written_stays() -> None:
    foreign = {
        "type": "Foreign",
        "status": "True",
        "reason": "X",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    psm = {**PSM, "status": {"conditions": [foreign], "state": "", "decisions": []}}
    assert foreign in status(psm, verdicts.SCHEDULED, [], (), NOW)["conditions"]


def test_a_message_is_never_longer_than_conditions_may_be() -> None:
    found = status(PSM, Verdict("SchedulingFailed", "X", "x" * 40000), [], (), NOW)
    assert len(found["conditions"][0]["message"]) == 32768


def test_orphans_and_overridden_annotations_are_told_and_forgotten() -> None:
    own = [{"name": "web", "annotations": ["p2code.filter.a=2"]}]
    common = (SET, "p2code.filter.a=1")
    found = bundled(workload(), manifest("Secret", "s"), own=own, common=common)
    psm = {**PSM, "status": status(PSM, verdicts.ORPHANED, [], told(found), NOW)}
    conditions = {
        each["type"]: (each["status"], each["reason"], each["message"]) for each in psm["status"]["conditions"]
    }
    assert conditions["OrphanedManifests"] == ("True", "NotReferenced", "not applied: Secret demo/s")
    assert conditions["AnnotationsOverridden"] == (
        "True",
        "GlobalTakesPrecedence",
        "workload web: p2code.filter.a=1 is global, p2code.filter.a=2 does not count",
    )
    after = status(psm, verdicts.SCHEDULED, [], told(bundled(workload())), NOW)
    assert states(after) == {"TentativelyScheduled": "False", "SchedulingSuccessful": "True"}


def test_of_many_orphans_the_first_are_named() -> None:
    found = bundled(workload(), *(manifest("Secret", f"s{number}") for number in range(60)))
    assert told(found)[0].message.endswith("Secret demo/s49 and 10 more")
