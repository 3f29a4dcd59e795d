"""Doctor's checks of a cluster's recorded state; without clusters."""

import base64
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from agent import __version__
from agent.api import names, ownroles
from agent.api.admission import policies as made
from agent.api.crds import crds, placement_crds
from agent.api.hubpolicies import ACCEPTANCE
from agent.api.hubroles import HUB
from agent.api.kinds import PODS
from agent.api.ownroles import AGENT
from agent.api.placementroles import AGENT_GRANTS, SERVE_PLACEMENTS
from agent.api.roles import (
    CLUSTER_SUMMARY_VIEWER,
    CLUSTER_SUMMARY_VIEWER_ROLE,
    EVERYTHING,
    FEATURES,
    RUN,
    SOURCE,
    rules,
)
from agent.cli.checks import clusters, namespaces, remote, rights, targets, webhook
from agent.cli.checks.about import skew_of
from agent.cli.checks.examine import examine, policies
from agent.cli.checks.finding import Finding, Level
from agent.cli.checks.view import (
    ClusterView,
    Credentials,
    Obstacle,
    Raw,
    Rights,
    TargetView,
    Trial,
    Unproxied,
    View,
    WebhookView,
)
from agent.clusters.health.agent_health import Lease
from hack.lab.sandbox.objects import REPOSITORY
from webhook.configurations import Service, by_service, mutating, validating

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
Check = Callable[[View], Iterator[Finding]]


def lease(seconds: float = 2.0, namespace: str = "flotilla") -> Lease:
    """Return a Lease that was renewed this many seconds ago."""
    renewed = (NOW - timedelta(seconds=seconds)).isoformat()
    return Lease(Lease.Metadata(namespace), Lease.Spec("agent-1", 15.0, renewed))


def cluster(title: str = "this cluster", **changes: Any) -> ClusterView:
    well = ClusterView(title, "v1.36.3", True, __version__, (lease(),), 0.0)
    return replace(well, **changes)


def target(name: str = "us", *, ready: str = "True", conditions: tuple[Raw, ...] = (), **changes: Any) -> TargetView:
    told = {"type": "Ready", "status": ready, "reason": "Connected", "message": "do this"}
    manifest = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"kubeconfigSecret": {"name": name}},
        "status": {"conditions": [told, *conditions]},
    }
    node = {"metadata": {"name": f"admiralty-default-{name}"}, "status": {"allocatable": {"cpu": "32"}}}
    well = TargetView(manifest, node, None, cluster(f"target default/{name}"), ())
    return replace(well, **changes)


def namespace(name: str = "default", *, enabled: bool = True, by_default: bool = False, mirrored: bool = True) -> Raw:
    labels = {names.LABEL_ENABLED: names.ENABLED_VALUE} if enabled else {}
    if by_default and mirrored:
        labels[names.LABEL_ELECT_BY_DEFAULT] = "true"
    annotations = {names.LABEL_ELECT_BY_DEFAULT: "true"} if by_default else {}
    return {"metadata": {"name": name, "labels": labels, "annotations": annotations}}


def certificate(begins: datetime = NOW - timedelta(days=10), days: float = 90) -> bytes:
    """Return a self-signed certificate (PEM)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    made = builder.not_valid_before(begins).not_valid_after(begins + timedelta(days=days)).sign(key, hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM)


def hook(bundle: bytes | None = None, **changes: Any) -> WebhookView:
    pem = certificate() if bundle is None else bundle
    reach = by_service(Service("flotilla", "webhook"))
    well = WebhookView(
        (mutating("multicluster-scheduler", reach, pem),),
        (validating("multicluster-scheduler", reach, pem),),
        {"flotilla/webhook": 2},
        certificate(),
        Trial.PROXY,
        "",
        "default",
    )
    return replace(well, **changes)


def installed() -> dict[str, Raw]:
    """Return Flotilla's CRDs as an API server stores them: with default fields and the condition Established."""
    established = {"conditions": [{"type": "Established", "status": "True"}]}
    return {
        crd["metadata"]["name"]: {
            **crd,
            "spec": {**crd["spec"], "conversion": {"strategy": "None"}},
            "status": established,
        }
        for crd in crds()
    }


def view(**changes: Any) -> View:
    """Return the view of a healthy cluster with some fields replaced."""
    well = View(
        now=NOW,
        client=__version__,
        cluster=cluster(),
        crds=installed(),
        targets=(target(),),
        webhook=hook(),
        rights=Rights("service account flotilla/flotilla-agent", ()),
        namespaces=(namespace(), namespace("other", enabled=False)),
        unproxied=(),
        obstacles=(),
    )
    return replace(well, **changes)


def bad(check: Check, given: View) -> list[str]:
    """Return the findings of a check that are not OK, each with its level."""
    return [str(each) for each in check(given) if each.level is not Level.OK]


def only(check: Check, given: View) -> str:
    """Return the only finding that is not OK."""
    [found] = bad(check, given)
    return found


def test_nothing_is_found_where_all_is_well() -> None:
    findings = examine(view())
    assert [str(each) for each in findings if each.level is not Level.OK] == []
    assert len(findings) > 10


def test_every_finding_that_is_not_ok_says_what_helps() -> None:
    worst = view(
        cluster=cluster(kubernetes="v1.29.1", leases=(), skew=400.0),
        crds={},
        targets=(target(ready="False", node=None, unread="no answer"),),
        webhook=hook(b"x", trial=Trial.NO_WEBHOOK, trial_words="refused", ready={}),
        rights=Rights("service account x/y", AGENT.grants[""][:3]),
        namespaces=(namespace(enabled=False, by_default=True),),
        unproxied=(Unproxied("default", ("web",)),),
        obstacles=(Obstacle("Pod default/web", "Secret x is not ours", NOW),),
        unscheduled=(Obstacle("Pod default/web-1", "no scheduler", NOW),),
        unread=(("events", "forbidden"),),
    )
    found = [each for each in examine(worst) if each.level is not Level.OK]
    assert len(found) > 15
    assert [each for each in found if not each.remedy] == []


def test_a_view_of_which_nothing_could_be_read_is_no_error() -> None:
    blind = View(NOW, __version__, ClusterView("this cluster"), unread=(("CRDs", "you may not list them"),))
    assert [str(each) for each in examine(blind)] == [
        "WARN  CRDs: it cannot be checked: you may not list them. Remedy: run this again as a user who may read it"
    ]


def test_candidates_that_no_scheduler_is_for_are_told_with_the_value_of_the_chart() -> None:
    found = only(namespaces.unscheduled, view(unscheduled=(Obstacle("Pod shop/web-1", "no scheduler", NOW),)))
    assert found.startswith("FAIL  Pod shop/web-1: it is for a candidate scheduler")
    assert "candidateScheduler.enabled=true" in found


def test_a_target_that_refuses_pods_is_told_in_its_own_words() -> None:
    refusing = target(conditions=({"type": "AcceptsPods", "status": "False", "reason": "X", "message": "no space"},))
    assert only(targets.targets, view(targets=(refusing,))) == (
        "WARN  target default/us: AcceptsPods is False (X). Remedy: no space"
    )


def test_kubernetes_has_to_be_new_enough_everywhere() -> None:
    old = view(targets=(target(cluster=cluster("target default/us", kubernetes="v1.29.4-gke.1")),))
    assert only(clusters.versions, old).startswith(
        "FAIL  target default/us: Kubernetes v1.29.4-gke.1 is older than 1.30."
    )
    assert bad(clusters.versions, view(cluster=cluster(kubernetes="v1.30.0"))) == []


def test_agents_of_other_versions_are_told() -> None:
    other = view(targets=(target(cluster=cluster("target default/us", agent="0.9.3")),))
    assert "its agent is version 0.9.3, this command" in only(clusters.versions, other)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"leases": ()}, "no agent has ever led here. Remedy: install the chart"),
        ({"leases": (lease(300.0),)}, "its agent is silent since 2026-01-01 11:55:00 UTC"),
        ({"leases": (lease(), lease(1.0, "admiralty"))}, "agents lead in 2 namespaces (admiralty, flotilla)"),
        ({"has_summary": False}, "it has no ClusterSummary"),
    ],
)
def test_one_agent_leads_in_each_cluster(changes: Raw, says: str) -> None:
    found = only(clusters.agents, view(cluster=cluster(**changes)))
    assert found.startswith("FAIL  this cluster: ")
    assert says in found


def test_the_lease_of_a_former_installation_does_not_matter() -> None:
    assert bad(clusters.agents, view(cluster=cluster(leases=(lease(), lease(9000.0, "old"))))) == []


def test_a_lease_is_judged_by_the_clock_of_its_cluster() -> None:
    behind = cluster("target default/us", leases=(lease(600.0),), skew=-600.0)
    assert bad(clusters.agents, view(targets=(target(cluster=behind),))) == []


def test_a_clock_that_is_off_is_told_of_the_cluster_that_has_it() -> None:
    skewed = view(targets=(target("us"), target("eu", cluster=cluster("target default/eu", skew=-300.0))))
    assert only(clusters.clocks, skewed).startswith(
        "FAIL  target default/eu: its clock is 5m behind the other clusters'. Remedy: synchronise"
    )


def test_where_all_clusters_agree_it_is_this_machines_clock_that_is_off() -> None:
    those = tuple(target(name, cluster=cluster(f"target default/{name}", skew=60.5)) for name in ("us", "eu"))
    assert only(clusters.clocks, view(cluster=cluster(skew=61.0), targets=those)).startswith("WARN  this machine:")


def test_a_clock_that_is_off_by_seconds_is_well() -> None:
    assert bad(clusters.clocks, view(cluster=cluster(skew=4.0))) == []


def test_skew_is_taken_from_the_middle_of_request_and_answer() -> None:
    date = "Thu, 01 Jan 2026 12:00:30 GMT"
    assert skew_of(date, NOW, NOW + timedelta(seconds=1)) == 30.0
    assert skew_of("", NOW, NOW) is None


def test_a_crd_that_is_missing_or_of_another_version_or_not_served_is_told() -> None:
    found = installed()
    del found["sources.multicluster.admiralty.io"]
    older = json.loads(json.dumps(found["targets.multicluster.admiralty.io"]))
    del older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["limits"]
    found["targets.multicluster.admiralty.io"] = older
    found["podchaperons.multicluster.admiralty.io"]["status"] = {
        "conditions": [{"type": "Established", "status": "False", "message": "names taken"}]
    }
    told = bad(clusters.definitions, view(crds=found))
    assert [line.split(": ")[0] for line in told] == [
        "FAIL  CRD podchaperons.multicluster.admiralty.io",
        "FAIL  CRD sources.multicluster.admiralty.io",
        "WARN  CRD targets.multicluster.admiralty.io",
    ]
    assert "names taken" in told[0]
    assert "properties.limits differs" in told[2]


documents = st.recursive(
    st.integers() | st.text(max_size=3) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(documents, st.dictionaries(st.text(min_size=4, max_size=5), documents, max_size=2))
def test_what_an_api_server_adds_to_an_object_is_no_difference(wanted: Any, added: Raw) -> None:
    assert clusters.difference(wanted, wanted) == ""
    assert clusters.difference({"a": wanted}, {"a": wanted, **added}) == ""


@given(st.dictionaries(st.text(max_size=3), st.integers(), min_size=1))
def test_what_is_missing_or_changed_is_a_difference(wanted: dict[str, int]) -> None:
    first = next(iter(wanted))
    assert clusters.difference(wanted, {**wanted, first: wanted[first] + 1}) == f"spec.{first}"
    assert clusters.difference(wanted, {key: value for key, value in wanted.items() if key != first}) == f"spec.{first}"


def without(field: str, configuration: Raw) -> Raw:
    """Return a configuration whose webhooks lack a field."""
    entries = [{key: value for key, value in each.items() if key != field} for each in configuration["webhooks"]]
    return {**configuration, "webhooks": entries}


@pytest.mark.parametrize(
    ("changes", "level", "says"),
    [
        ({"mutating": ()}, "FAIL", "there is no MutatingWebhookConfiguration multicluster-scheduler"),
        ({"validating": ()}, "WARN", "there is no ValidatingWebhookConfiguration multicluster-scheduler"),
        ({"ready": {"flotilla/webhook": 0}}, "FAIL", "no endpoint of its Service flotilla/webhook is ready"),
        ({"ready": {"flotilla/webhook": None}}, "FAIL", "its Service flotilla/webhook does not exist"),
        ({"trial": Trial.ORDINARY}, "FAIL", "an elected pod in namespace default would stay an ordinary pod"),
        (
            {"trial": Trial.ORDINARY, "trial_namespace": "team"},
            "WARN",
            "since the namespace is not labelled. Remedy: kubectl label namespace team multicluster-scheduler=enabled",
        ),
        ({"trial": Trial.NO_WEBHOOK, "trial_words": "no route"}, "FAIL", "the API server does not reach it: no route"),
        ({"trial": Trial.REFUSED, "trial_words": "quota"}, "WARN", "a pod in namespace default was refused (quota)"),
        ({"certificate": b"x"}, "FAIL", "it is not a PEM certificate"),
        ({"certificate": certificate(NOW - timedelta(days=91))}, "FAIL", "it expired 24h ago"),
        (
            {"certificate": certificate(NOW - timedelta(days=85))},
            "WARN",
            "it expires in 5d and should have been renewed",
        ),
    ],
)
def test_whatever_keeps_elected_pods_from_becoming_proxies_is_told(changes: Raw, level: str, says: str) -> None:
    found = only(webhook.webhook, view(webhook=hook(**changes)))
    assert found.startswith(level)
    assert says in found


def test_where_no_namespace_is_labelled_nobody_takes_the_webhook_for_tried() -> None:
    untried = hook(trial=Trial.UNTRIED, trial_namespace="")
    told = [each.what for each in webhook.webhook(view(webhook=untried, namespaces=()))]
    assert sum("no elected pod was tried: no namespace is labelled" in what for what in told) == 1
    assert bad(webhook.webhook, view(webhook=untried, namespaces=())) == []
    # If namespaces cannot be listed, doctor reports only that.
    assert not any("tried" in each.what for each in webhook.webhook(view(webhook=untried, namespaces=None)))


@pytest.mark.parametrize(
    ("bundle", "says"),
    [
        (b"", "has no caBundle"),
        (b"x", "is not a PEM certificate"),
        (certificate(NOW - timedelta(days=91)), "has expired on 2025-12-31"),
        (certificate(NOW + timedelta(days=1)), "is not valid yet"),
    ],
)
def test_a_ca_that_is_not_valid_is_told_of_each_webhook(bundle: bytes, says: str) -> None:
    [ours] = hook(bundle).mutating or ()
    found = bad(webhook.webhook, view(webhook=hook(bundle)))
    assert len(found) == len(ours["webhooks"])
    assert all(line.startswith("FAIL") and says in line for line in found)


def test_an_earlier_ca_in_a_bundle_may_have_expired() -> None:
    both = certificate() + certificate(NOW - timedelta(days=100))
    assert bad(webhook.webhook, view(webhook=hook(both))) == []


def test_webhooks_without_match_conditions_and_second_configurations_are_told() -> None:
    [ours] = hook().mutating or ()
    found = bad(webhook.webhook, view(webhook=hook(mutating=(without("matchConditions", ours),))))
    assert len(found) == len(ours["webhooks"])
    second = {**ours, "metadata": {"name": "admiralty"}}
    found = only(webhook.webhook, view(webhook=hook(mutating=(ours, second))))
    assert "several configurations elect pods: multicluster-scheduler, admiralty" in found


def test_configurations_of_others_are_not_ours() -> None:
    assert webhook.is_ours((hook().mutating or ())[0])
    assert not webhook.is_ours({"webhooks": [{"name": "istio.io"}]})
    assert not webhook.is_ours({})


def test_verbs_that_the_agent_lacks_are_told_with_the_feature_that_they_serve() -> None:
    missing = tuple(
        grant
        for grant in AGENT.grants[""]
        if (grant.kind is PODS and grant.sub == "status") or grant.feature == ownroles.SHARE_BY_MCS
    )
    found = bad(rights.own, view(rights=Rights("service account x/y", missing)))
    account = "rights of service account x/y"
    assert [line.split(". ")[0] for line in found] == [
        f"FAIL  {account}: it may not patch pods/status, which serves: {ownroles.STATUS}",
        f"WARN  {account}: it may not get, list, create, delete serviceexports, which serves: {ownroles.SHARE_BY_MCS}",
    ]


def test_rights_that_the_values_of_the_chart_switch_off_need_not_be_there() -> None:
    template = (REPOSITORY / "charts/flotilla/templates/roles.yaml").read_text()
    off = set(re.findall(r'append \$off "([^"]+)"', template))
    lacking = tuple(grant for found in AGENT.grants.values() for grant in found if grant.feature in off)
    assert {ownroles.MOVES, ownroles.SHARE_BY_SKUPPER, ownroles.STAND_INS} <= {grant.feature for grant in lacking}
    assert bad(rights.own, view(rights=Rights("x", lacking))) == []


def test_rights_for_what_is_not_used_need_not_be_there() -> None:
    features = (ownroles.SELF_TARGETS, ownroles.SOURCE, ownroles.SOURCE_API, ownroles.USED)
    unused = (*(grant for grant in AGENT.grants[""] if grant.feature in features), *AGENT_GRANTS)
    assert bad(rights.own, view(rights=Rights("x", unused))) == []
    own = target(cluster=None)
    own.manifest["spec"] = {"self": True}
    source = {"metadata": {"name": "cd", "namespace": "default"}}
    assert len(bad(rights.own, view(rights=Rights("x", unused), targets=(own,), sources=(source,)))) == 2


def test_placements_that_the_agent_may_not_evaluate_any_more_are_told() -> None:
    lacking = Rights("x", AGENT_GRANTS)
    brought = {crd["metadata"]["name"]: crd for crd in placement_crds()}
    assert "set agent.placement.crds=true" in only(rights.placements, view(rights=lacking, crds=brought))
    half = Rights("x", tuple(grant for grant in AGENT_GRANTS if grant.feature == SERVE_PLACEMENTS))
    assert "may not keep ManagedClusters" in only(rights.placements, view(rights=half, crds=brought))
    foreign = {name: {**crd, "metadata": {"name": name}} for name, crd in brought.items()}
    for well in (view(crds=brought), view(rights=lacking, crds=foreign), view(rights=lacking)):
        assert bad(rights.placements, well) == []


def test_the_right_to_approve_for_a_signer_is_missed_where_certificates_do_not_come() -> None:
    given = (grant for grant in AGENT.grants[""] if grant.verb == "approve" and grant.feature != HUB)
    approve = Rights("x", tuple(given))
    assert len(approve.missing) == 1
    assert bad(rights.own, view(rights=approve)) == []
    told = {"type": "KubeletServing", "status": "False", "reason": "NoCertificate", "message": "nobody has approved"}
    waits = target(node={"metadata": {"name": "admiralty-default-us"}, "status": {"conditions": [told]}})
    assert "it may not approve signers" in only(rights.own, view(rights=approve, targets=(waits,)))


def test_rights_of_a_hub_are_only_missed_in_a_hub() -> None:
    lacking = Rights("x", tuple(grant for grant in AGENT.grants[""] if grant.feature == HUB))
    assert bad(rights.own, view(rights=lacking)) == []
    hub = replace(view(rights=lacking), policies=frozenset([ACCEPTANCE]))
    assert "which serves: registration of clusters" in only(rights.own, hub)


def test_the_roles_of_the_chart_grant_all_and_a_missing_verb_is_found() -> None:
    everything = (*EVERYTHING, *CLUSTER_SUMMARY_VIEWER)
    given = rules(everything)
    assert rights.missing(given) == ()
    assert rights.missing([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]) == ()
    for lacking in (SOURCE[0], EVERYTHING[-1], CLUSTER_SUMMARY_VIEWER[0]):
        assert rights.missing(rules([grant for grant in everything if grant != lacking])) == (lacking,)


def test_a_target_that_does_not_let_its_summary_be_read_fails_with_the_role() -> None:
    found = only(rights.granted, view(targets=(target(missing=CLUSTER_SUMMARY_VIEWER[:3]),)))
    assert found.startswith("FAIL")
    assert "may not get, list, watch clustersummaries" in found
    assert f"ClusterRole {CLUSTER_SUMMARY_VIEWER_ROLE} complete" in found


def test_a_rule_for_one_object_grants_nothing_of_the_others() -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["web"]}
    assert {grant.kind for grant in rights.missing([rule])} >= {PODS}


def test_policies_are_all_in_force_or_none_is_wanted() -> None:
    every = frozenset(obj["metadata"]["name"] for obj in made("", "", "") if obj["kind"] == "ValidatingAdmissionPolicy")
    assert [str(finding) for finding in policies(view(policies=every))] == [
        f"OK    policies: all {len(every)} are in force"
    ]
    assert bad(policies, view(policies=frozenset())) == []
    assert "unguarded" in "".join(map(str, policies(view(policies=frozenset()))))
    assert list(policies(view(policies=None))) == []
    gone = min(every)
    assert f"ValidatingAdmissionPolicy {gone}: it is missing" in only(policies, view(policies=every - {gone}))


def test_a_target_that_does_not_grant_chaperons_fails_and_one_without_logs_is_warned_of() -> None:
    lacking = tuple(grant for grant in SOURCE if grant.feature == RUN or grant.sub == "log")
    found = bad(rights.granted, view(targets=(target(missing=lacking),)))
    assert [line[:4] for line in found] == ["FAIL", "WARN"]
    assert "this cluster may not get pods/log there, which serves: logs" in found[1]
    assert "ClusterRole multicluster-scheduler-source complete" in found[1]


def test_a_feature_that_a_source_does_not_allow_is_said_and_half_of_one_is_warned_of() -> None:
    refused = view(targets=(target(missing=FEATURES["volumes"]),))
    assert bad(rights.granted, refused) == []
    said = [finding.what for finding in rights.granted(refused)]
    assert said == [
        "it does not allow volumes, which `flotilla join --allow` changes",
        "it grants all else that this cluster uses",
    ]
    shared = {"type": "ServicesShared", "status": "False", "reason": "Forbidden", "message": "endpoints are not shared"}
    told = target(conditions=(shared,), missing=FEATURES["services"])
    assert bad(targets.targets, view(targets=(told,))) == []
    assert "endpoints are not shared" in only(targets.targets, view(targets=(replace(told, missing=()),)))
    half = only(rights.granted, view(targets=(target(missing=FEATURES["volumes"][:1]),)))
    assert "ClusterRole multicluster-scheduler-source-volumes complete" in half


@pytest.mark.parametrize(
    ("given_target", "says"),
    [
        (target(ready="False"), "FAIL  target default/us: it is not Ready (Connected). Remedy: do this"),
        (target(node=None), "FAIL  target default/us: it has no virtual node admiralty-default-us"),
        (
            target(node={"spec": {"unschedulable": True}, "status": {"allocatable": {"cpu": "1"}}}),
            "`flotilla undrain us`",
        ),
        (target(node={"status": {}}), "its virtual node admiralty-default-us has no size"),
        (
            target(unread="Secret default/us does not exist"),
            "it was not asked itself: Secret default/us does not exist",
        ),
        (
            target(
                conditions=({"type": "Following", "status": "False", "reason": "Forbidden", "message": "add verbs"},)
            ),
            "WARN  target default/us: Following is False (Forbidden). Remedy: add verbs",
        ),
        (
            target(
                conditions=(
                    {
                        "type": "Secure",
                        "status": "False",
                        "reason": "InsecureKubeconfig",
                        "message": "remove the field",
                    },
                )
            ),
            "WARN  target default/us: Secure is False (InsecureKubeconfig). Remedy: remove the field",
        ),
        (
            target(
                node={
                    "status": {
                        "allocatable": {"cpu": "1"},
                        "conditions": [{"type": "KubeletServing", "status": "False", "message": "nobody signs"}],
                    }
                }
            ),
            "logs, exec and the like do not work: nobody signs",
        ),
    ],
)
def test_what_is_wrong_with_a_target_is_told(given_target: TargetView, says: str) -> None:
    assert says in only(targets.targets, view(targets=(given_target,)))


def test_gateways_that_may_not_be_used_with_other_targets_are_a_fault_only_where_a_link_says_so() -> None:
    said = {"type": "GatewayUsable", "status": "False", "reason": "Forbidden", "message": "may not list gatewaypeers"}
    assert bad(targets.targets, view(targets=(target(conditions=(said,)),))) == []


def test_the_network_driver_is_told() -> None:
    shared = {"type": "ServicesShared", "status": "True", "reason": "EndpointSlices", "message": "network driver mcs"}
    found = [str(each) for each in targets.targets(view(targets=(target(conditions=(shared,)),)))]
    assert "OK    target default/us: network driver mcs" in found


def test_a_target_that_nobody_has_looked_at_fails() -> None:
    silent = TargetView({"metadata": {"name": "us"}})
    assert "no agent has said anything about it" in bad(targets.targets, view(targets=(silent,)))[0]


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("issued", "ends", "want"),
    [
        (None, None, "OK    target default/us: the token in Secret x does not end"),
        (NOW - DAY, NOW - timedelta(hours=5), "FAIL  target default/us: the token in Secret x expired 5h ago"),
        (NOW - DAY, NOW + timedelta(hours=1), "WARN  target default/us: the token in Secret x expires in 60m"),
        (NOW - timedelta(minutes=30), NOW + timedelta(minutes=30), "OK    target default/us"),
        (NOW - 300 * DAY, NOW + 40 * DAY, "OK    target default/us"),
        (None, NOW + 10 * DAY, "WARN  target default/us"),
    ],
)
def test_credentials_that_end_soon_for_their_life_are_told(
    issued: datetime | None, ends: datetime | None, want: str
) -> None:
    given_target = target(credentials=Credentials("Secret x", issued, ends))
    [found] = targets.credentials(view(targets=(given_target,)))
    assert str(found).startswith(want)


def kubeconfig(user: Raw) -> bytes:
    document = {
        "current-context": "us",
        "contexts": [{"name": "us", "context": {"cluster": "us", "user": "me"}}],
        "users": [{"name": "other", "user": {"token": "x"}}, {"name": "me", "user": user}],
    }
    return yaml.safe_dump(document).encode()


def jwt(**claims: Any) -> str:
    parts = [{"alg": "RS256"}, claims]
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, "c2lnbmF0dXJl"])


def test_a_token_says_when_it_was_issued_and_when_it_ends() -> None:
    token = jwt(iat=NOW.timestamp(), exp=(NOW + DAY).timestamp(), sub="system:serviceaccount:default:cd")
    found = remote.read_credentials("Secret x", kubeconfig({"token": token}))
    assert found == Credentials("Secret x", NOW, NOW + DAY)


def test_a_client_certificate_says_the_same() -> None:
    encoded = base64.b64encode(certificate(NOW, 7)).decode()
    found = remote.read_credentials("Secret x", kubeconfig({"client-certificate-data": encoded}))
    assert found == Credentials("Secret x", NOW, NOW + 7 * DAY, "client certificate")


def test_a_token_that_says_nothing_of_its_end_does_not_end() -> None:
    assert remote.read_credentials("Secret x", kubeconfig({"token": "opaque"})) == Credentials("Secret x")


@given(st.binary(max_size=60))
def test_a_kubeconfig_that_is_none_says_nothing(data: bytes) -> None:
    assert remote.read_credentials("Secret x", data) is None


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((namespace("x", enabled=False),), "none is labelled, so that no pod is elected"),
        ((namespace(), namespace("team")), "namespace team: its pods may be elected, but no target serves it"),
        ((namespace(), namespace("x", enabled=False, by_default=True)), "it elects by default, but is not labelled"),
        ((namespace(by_default=True, mirrored=False),), "it elects by default, but the agent has not labelled it so"),
    ],
)
def test_namespaces_that_elect_nothing_are_told(found: tuple[Raw, ...], says: str) -> None:
    assert says in only(namespaces.namespaces, view(namespaces=found))


def test_a_webhook_that_refuses_nothing_is_not_reached() -> None:
    assert only(webhook.webhook, view(webhook=hook(refuses=False))).startswith(
        "FAIL  webhook: the API server does not reach it: a Target with a mistake passed. Remedy: see its pods"
    )
    found = [str(each) for each in webhook.webhook(view(webhook=hook(refuses=True)))]
    assert "OK    webhook: it answers: a Target with a mistake is refused" in found


def test_a_cluster_whose_own_components_are_elected_by_default_is_told() -> None:
    elected = (namespace(), namespace("kube-system", by_default=True))
    assert only(namespaces.system, view(namespaces=elected)).startswith(
        "WARN  namespace kube-system: it elects by default"
    )
    assert bad(namespaces.system, view(namespaces=(namespace(by_default=True), namespace("kube-system")))) == []


def test_a_cluster_without_targets_needs_no_labelled_namespace() -> None:
    assert bad(namespaces.namespaces, view(namespaces=(namespace(enabled=False),), targets=())) == []


def test_pods_that_were_not_elected_are_told_with_the_reason() -> None:
    slipped = (Unproxied("default", ("a", "b", "c", "d")), Unproxied("other", ("e",)))
    first, second = bad(namespaces.unproxied, view(unproxied=slipped))
    assert "there was no webhook when they were created: a, b, c and 1 more" in first
    assert "kubectl label namespace other multicluster-scheduler=enabled" in second


def test_pods_that_were_annotated_after_their_creation_are_not_said_to_lack_a_webhook() -> None:
    (told,) = bad(namespaces.unproxied, view(unproxied=(Unproxied("default", ("a",), ("a",)),)))
    assert "pods were annotated after their creation, which elects none: a" in told
    _, slipped = bad(namespaces.unproxied, view(unproxied=(Unproxied("default", ("a", "b"), ("a",)),)))
    assert "there was no webhook when they were created: b" in slipped


def test_sources_that_have_no_rights_yet_are_told() -> None:
    refused = {"type": "Ready", "status": "False", "reason": "NoRole", "message": "create it"}
    given_sources = (
        {"metadata": {"name": "cd", "namespace": "default"}, "status": {"conditions": [refused]}},
        {"metadata": {"name": "eu"}},
    )
    first, second = bad(targets.sources, view(sources=given_sources))
    assert first == "FAIL  source default/cd: it is not Ready (NoRole). Remedy: create it"
    assert second.startswith("WARN  source eu: no agent has said anything about it")


def test_a_source_whose_account_pods_run_as_is_warned_of() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Bound"}
    shared = {"type": "AccountExclusive", "status": "False", "reason": "PodsRunAsIt", "message": "delete pod web"}
    source = {"metadata": {"name": "cd", "namespace": "default"}, "status": {"conditions": [ready, shared]}}
    (found,) = bad(targets.sources, view(sources=(source,)))
    assert found == ("WARN  source default/cd: its service account is shared (PodsRunAsIt). Remedy: delete pod web")
