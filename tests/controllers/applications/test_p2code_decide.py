"""Decisions for one of P2CODE's applications, from one snapshot of its state."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.applications.decide import decide
from agent.applications.fit import Capacity
from agent.applications.plan import Plan, View, calls_of
from agent.model.links import Link
from agent.model.p2code import linked as linked_model
from agent.model.p2code import verdicts
from agent.model.p2code.check import World, draft
from agent.model.p2code.detect import Call
from agent.model.p2code.status import Decision, Told, status
from agent.model.p2code.verdicts import Verdict
from tests.model.applications import SET, Raw, container, manifest, spec_of, workload
from tests.ranking.pods_and_targets import target_info

NODE = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PSM: Raw = {"metadata": {"name": "shop", "namespace": "team", "uid": "u1", "generation": 1}}
WORLD = World(sets={"p2code": {"eu", "us"}}, bound={"p2code"}, namespaces={"default", "demo"})
SPEC = spec_of(workload("web"), workload("api"), own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}])


def roomy(namespace: str, cluster: str) -> Capacity:
    """Return the capacity of a target that accepts everything."""
    return Capacity(target_info(f"to-{cluster}", namespace="", labels=NODE))


def view(spec: Raw = SPEC, psm: Raw = PSM, placements: Mapping[str, Raw] | None = None, **more: Any) -> View:
    found = View(
        psm, draft(spec, "shop", "global"), WORLD, placements or {}, {}, lambda _, cluster: f"to-{cluster}", NOW, roomy
    )
    return replace(found, **more)


def evaluated(plan: Plan, status: str = "True", reason: str = "AllDecisionsScheduled") -> dict[str, Raw]:
    """Return the Placements of a plan as evaluated, by name."""
    condition = {"type": "PlacementSatisfied", "status": status, "reason": reason, "message": "as it says"}
    return {
        each["metadata"]["name"]: {
            **each,
            "metadata": {**each["metadata"], "uid": f"uid-{each['metadata']['name']}", "generation": 1},
            "status": {"conditions": [{**condition, "observedGeneration": 1}]},
        }
        for each in plan.create
    }


PLACED = evaluated(decide(view()))
DECIDED = {"web-shop": "eu", "api-shop": "us"}
DECISIONS = [Decision("web", "eu"), Decision("api", "us")]


def told(verdict: Verdict, psm: Raw = PSM, decisions: list[Decision] | None = None) -> Raw:
    return {**psm, "status": status(psm, verdict, decisions or [], (), NOW)}


def test_first_a_placement_is_made_for_each_bundle_and_nothing_is_applied() -> None:
    plan = decide(view())
    assert [each["metadata"]["name"] for each in plan.create] == ["web-shop", "api-shop"]
    assert (plan.tell, plan.decisions, plan.apply) == (verdicts.ANALYSING, None, None)


def test_what_is_wrong_is_told_and_nothing_is_done() -> None:
    plan = decide(view(spec_of(common=())))
    assert plan == Plan(tell=verdicts.MISSING_TARGET, decisions=[])


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (None, verdicts.ANALYSING),
        (verdicts.ANALYSING, verdicts.ANALYSING),
        (verdicts.SCHEDULED, verdicts.REANALYSING),
        (verdicts.MISSING_TARGET, verdicts.REANALYSING),
    ],
)
def test_while_placements_are_evaluated_it_says_so(before: Verdict | None, now: Verdict) -> None:
    psm = told(before) if before is not None else PSM
    waiting = {name: {**each, "status": {}} for name, each in PLACED.items()}
    plan = decide(view(psm=psm, placements=waiting, decisions=DECIDED))
    assert (plan.tell, plan.decisions, plan.apply) == (now, None, None)
    assert not plan.create


def test_a_placement_that_was_evaluated_before_its_last_change_counts_for_nothing() -> None:
    changed = {name: {**each, "metadata": {**each["metadata"], "generation": 2}} for name, each in PLACED.items()}
    assert decide(view(placements=changed, decisions=DECIDED)).tell == verdicts.ANALYSING


def test_a_hub_that_tells_no_generation_is_believed() -> None:
    def without(each: Raw) -> Raw:
        (condition,) = each["status"]["conditions"]
        bare = {key: value for key, value in condition.items() if key != "observedGeneration"}
        return {**each, "status": {"conditions": [bare]}}

    plan = decide(view(placements={name: without(each) for name, each in PLACED.items()}, decisions=DECIDED))
    assert plan.tell == verdicts.PLACED


def test_as_long_as_one_bundle_has_no_decision_nothing_is_applied() -> None:
    plan = decide(view(placements=PLACED, decisions={"web-shop": "eu"}))
    assert (plan.tell, plan.apply) == (verdicts.ANALYSING, None)


def test_once_every_bundle_has_a_cluster_that_is_told_and_everything_is_applied() -> None:
    plan = decide(view(placements=PLACED, decisions=DECIDED))
    assert (plan.tell, plan.decisions, plan.finish) == (verdicts.PLACED, DECISIONS, verdicts.SCHEDULED)
    assert plan.apply is not None
    assert [each["metadata"]["annotations"]["multicluster/targets"] for each in plan.apply] == ["to-eu", "to-us"]
    assert not (plan.create)
    assert not (plan.patch)
    assert not (plan.surplus)


@pytest.mark.parametrize(
    ("verdict", "decisions", "again"),
    [
        (verdicts.SCHEDULED, DECISIONS, None),
        (verdicts.not_applied("x"), DECISIONS, None),
        (verdicts.PLACED, DECISIONS, verdicts.PLACED),
        (verdicts.SCHEDULED, [Decision("web", "us"), Decision("api", "us")], verdicts.PLACED),
        (verdicts.REANALYSING, DECISIONS, verdicts.PLACED),
    ],
)
def test_decisions_that_are_known_are_not_told_again(
    verdict: Verdict, decisions: list[Decision], again: Verdict | None
) -> None:
    plan = decide(view(psm=told(verdict, decisions=decisions), placements=PLACED, decisions=DECIDED))
    assert plan.tell == again


def test_the_first_bundle_without_a_cluster_is_told() -> None:
    unsatisfied = evaluated(decide(view()), "False", "NoManagedClusterMatched")
    plan = decide(view(placements={**PLACED, "api-shop": unsatisfied["api-shop"]}, decisions=DECIDED))
    assert plan.tell is not None
    assert (plan.tell.reason, plan.decisions, plan.apply) == ("SchedulingAnnotationsUnsatisfied", [], None)


def test_a_cluster_that_no_target_leads_to_is_told_with_the_remedy() -> None:
    plan = decide(view(placements=PLACED, decisions=DECIDED, target=lambda _, cluster: cluster.removeprefix("us")))
    assert plan.tell == (
        "SchedulingFailed",
        "NotAllDecisionsScheduled",
        (
            "No target of the namespace demo leads to the managed cluster us, which was selected for deployment api: "
            "make a Target there, or a ClusterTarget, or take the cluster out of the set"
        ),
    )
    assert plan.apply is None


def test_a_placement_of_something_else_is_left_alone() -> None:
    foreign = {**PLACED["web-shop"], "metadata": {**PLACED["web-shop"]["metadata"], "ownerReferences": []}}
    plan = decide(view(placements={"web-shop": foreign}))
    assert plan.tell is not None
    assert plan.tell.reason == "ManifestWorkFailed"
    assert "Placement web-shop is there already" in plan.tell.message
    assert not (plan.create)
    assert not (plan.patch)
    assert not (plan.apply)


def of(name: str, uid: str, kind: str = "P2CodeSchedulingManifest") -> Raw:
    """Return the Placement of `web`, owned by another object."""
    owner = {"apiVersion": "scheduling.p2code.eu/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return {**PLACED["web-shop"], "metadata": {**PLACED["web-shop"]["metadata"], "ownerReferences": [owner]}}


def test_a_placement_of_one_of_the_same_name_that_is_no_more_goes_before_another_is_made() -> None:
    left = of("shop", "u0")
    plan = decide(view(placements={**PLACED, "web-shop": left}, decisions=DECIDED))
    assert (plan.stale, plan.create, plan.tell) == ([left], [], verdicts.ANALYSING)
    assert decide(view(placements={"api-shop": PLACED["api-shop"]})).create == [decide(view()).create[0]]


@pytest.mark.parametrize("other", [of("cafe", "u0"), of("shop", "u0", "Placer")], ids=["name", "kind"])
def test_a_placement_of_one_that_may_be_there_is_not_taken_away(other: Raw) -> None:
    plan = decide(view(placements={"web-shop": other}))
    assert plan.tell is not None
    assert (plan.stale, plan.tell.reason) == ((), "ManifestWorkFailed")


def test_a_changed_filter_changes_one_placement() -> None:
    spec = spec_of(workload("web"), workload("api"), own=[{"name": "web", "annotations": ["p2code.filter.a=2"]}])
    plan = decide(view(spec, told(verdicts.SCHEDULED, decisions=DECISIONS), PLACED, decisions=DECIDED))
    assert [each["metadata"]["name"] for each in plan.patch] == ["web-shop"]
    assert (plan.create, plan.tell, plan.decisions) == ([], verdicts.REANALYSING, None)


def test_a_bundle_that_has_gone_takes_its_placement_with_it_once_the_rest_is_applied() -> None:
    spec = spec_of(workload("web"), own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}])
    plan = decide(view(spec, placements=PLACED, decisions=DECIDED))
    assert [each["metadata"]["name"] for each in plan.surplus] == ["api-shop"]
    assert plan.decisions == [Decision("web", "eu")]


def test_one_cluster_for_everything_needs_no_placement() -> None:
    spec = spec_of(workload(), common=(SET, "p2code.target.cluster=eu", "p2code.filter.a=1"))
    plan = decide(view(spec, placements=PLACED))
    assert (plan.tell, plan.decisions, plan.finish) == (None, [Decision("shop", "eu")], verdicts.SCHEDULED)
    assert [each["metadata"]["name"] for each in plan.surplus] == ["web-shop", "api-shop"]
    assert not plan.create


def test_orphans_make_it_tentative_and_are_not_applied() -> None:
    spec = spec_of(workload("web"), manifest("Secret", "s"), own=[{"name": "web"}])
    placements = evaluated(decide(view(spec)))
    plan = decide(view(spec, placements=placements, decisions={"web-shop": "eu"}))
    assert plan.finish == verdicts.ORPHANED
    assert plan.apply is not None
    assert [each["kind"] for each in plan.apply] == ["Deployment"]
    assert Told("OrphanedManifests", "NotReferenced", "not applied: Secret demo/s") in plan.beside


CALL = Call(("demo", "front"), 80)
LINKED = spec_of(
    workload("web"),
    workload("api"),
    manifest("Service", "front", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}],
)


def linked(
    *rows: Raw, psm: Raw = PSM, decisions: Mapping[str, str] = DECIDED, seconds: int = 0, spec: Raw | None = None
) -> Plan:
    """Decide for a workload `api` that calls a Service of `web`; `rows` are the status of its link."""
    found = {
        "placements": PLACED,
        "decisions": decisions,
        "calls": {"api": (CALL,)},
        "links": lambda service: rows if service == CALL.service else (),
        "now": NOW + timedelta(seconds=seconds),
    }
    return decide(view(spec or LINKED, psm=psm, **found))


def row(reason: str = "Connected", ready: str = "True", cluster: str = "to-us", source: str = "to-eu") -> Raw:
    return {"cluster": cluster, "from": ["x", source], "ready": ready, "reason": reason, "message": "in words"}


def links_of(plan: Plan) -> tuple[str, str, str]:
    (found,) = [each for each in plan.beside if each.type == "LinksReady"]
    return found.status, found.reason, found.message


def test_a_link_that_is_needed_and_works_is_told() -> None:
    plan = linked(row())
    assert (plan.finish, plan.again) == (verdicts.SCHEDULED, None)
    assert links_of(plan) == ("True", "Connected", "")


@pytest.mark.parametrize(("found", "reason"), [(row(), "PoliciesStay"), (row("NoPath", "False"), "NoPath")])
def test_a_policy_that_does_not_follow_is_named_beside_the_state_of_links(found: Raw, reason: str) -> None:
    ingress = [{"from": [{"podSelector": {"matchLabels": {"app": "api"}}}]}]
    policy = manifest("NetworkPolicy", "n", spec={"podSelector": {"matchLabels": {"app": "web"}}, "ingress": ingress})
    spec = spec_of(
        workload("web"),
        workload("api"),
        manifest("Service", "front", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
        policy,
        own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}],
    )
    told = links_of(linked(found, spec=spec))
    assert told[1] == reason
    assert "NetworkPolicy demo/n limits" in told[2]


def test_no_path_makes_connectivity_unreliable_at_once() -> None:
    plan = linked(row("Connected", cluster="to-ap"), row("NoPath", "False"))
    assert plan.finish == verdicts.UNLINKED
    message = "workload api in us calls demo/front:80 in eu: in words"
    assert links_of(plan) == ("False", "NoPath", message)


@pytest.mark.parametrize(
    ("seconds", "finish", "again"),
    [(0, verdicts.SCHEDULED, 30.0), (29, verdicts.SCHEDULED, 1.0), (30, verdicts.UNLINKED, None)],
)
def test_a_link_that_is_being_made_is_waited_for(seconds: int, finish: Verdict, again: float | None) -> None:
    psm = {**PSM, "status": status(PSM, verdicts.SCHEDULED, DECISIONS, linked().beside, NOW)}
    plan = linked(row("Pending", "False"), psm=psm, seconds=seconds)
    assert (plan.finish, plan.again) == (finish, again)
    assert links_of(plan)[:2] == ("False", "Pending")


def test_that_no_pod_is_ready_is_no_matter_of_links() -> None:
    plan = linked(row("NoEndpoints", "False"))
    assert (plan.finish, plan.again) == (verdicts.SCHEDULED, None)
    assert links_of(plan)[:2] == ("True", "Connected")


def test_in_one_cluster_no_link_is_needed() -> None:
    plan = linked(row("NoPath", "False"), decisions={"web-shop": "us", "api-shop": "us"})
    assert plan.finish == verdicts.SCHEDULED
    assert [each.reason for each in plan.beside if each.type == "LinksReady"] == [""]


def unlinked(ready: str, reason: str, *, psm: Raw = PSM, seconds: int = 0) -> Plan:
    """Decide without ServiceLinks: the drivers of the Targets report the path between clusters."""

    def path(namespace: str, one: str, other: str) -> Link:
        assert (namespace, one, other) == ("demo", "us", "eu")
        return Link(one, other, "", ready, reason, "in words")

    now = NOW + timedelta(seconds=seconds)
    found = {"placements": PLACED, "decisions": DECIDED, "calls": {"api": (CALL,)}, "path": path, "now": now}
    return decide(view(LINKED, psm=psm, **found))


@pytest.mark.parametrize("reason", ["Connected", "Unverified"])
def test_without_service_links_the_drivers_of_targets_say_what_is_reached(reason: str) -> None:
    plan = unlinked("True", reason)
    assert (plan.finish, links_of(plan)[:2]) == (verdicts.SCHEDULED, ("True", "Connected"))


def test_without_service_links_either_connectivity_is_unreliable_where_nothing_leads() -> None:
    plan = unlinked("False", "PodNetworksOverlap")
    assert plan.finish == verdicts.UNLINKED
    assert links_of(plan) == ("False", "NoPath", "workload api in us calls demo/front:80 in eu: in words")


def test_a_driver_that_is_not_known_for_long_is_no_path() -> None:
    assert unlinked("Unknown", "Pending").again == 30.0
    psm = {**PSM, "status": status(PSM, verdicts.SCHEDULED, DECISIONS, unlinked("Unknown", "Pending").beside, NOW)}
    assert unlinked("Unknown", "Pending", psm=psm, seconds=30).finish == verdicts.UNLINKED


ELSEWHERE = spec_of(
    workload("web"),
    workload("api", namespace="default"),
    manifest("Service", "front", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}),
    own=[{"name": "web"}],
)


def called_from_elsewhere(*rows: Raw, decisions: Mapping[str, str] = DECIDED, **more: Any) -> Plan:
    """Decide for a workload `api` in the namespace `default` that calls a Service of `web` in `demo`."""
    placements = evaluated(decide(view(ELSEWHERE)))
    usual = {"calls": {"api": (CALL,)}, "links": lambda service: rows, "elsewhere": True}
    return decide(view(ELSEWHERE, placements=placements, decisions=decisions, **{**usual, **more}))


def service_links(plan: Plan) -> list[Raw]:
    assert plan.apply is not None
    return [each for each in plan.apply if each["kind"] == "ServiceLink"]


@pytest.mark.parametrize("home", ["eu", "us"])
def test_a_caller_in_another_namespace_gets_a_link_also_in_the_same_cluster(home: str) -> None:
    plan = called_from_elsewhere(decisions={**DECIDED, "web-shop": home})
    (link,) = service_links(plan)
    assert link["metadata"] == {"name": "front-default-shop", "namespace": "demo"}
    assert link["spec"] == {"service": "front", "ports": [80], "to": [{"cluster": "to-us", "namespace": "default"}]}


def test_a_link_names_the_cluster_as_the_namespace_of_the_callers_does() -> None:
    plan = called_from_elsewhere(target=lambda namespace, cluster: f"clustertarget/{namespace}-{cluster}")
    (link,) = service_links(plan)
    assert link["spec"]["to"] == [{"cluster": "default-us", "namespace": "default"}]


@pytest.mark.parametrize("more", [{"elsewhere": False}, {"links": None}, {"calls": {}}])
def test_where_nobody_may_or_needs_to_be_linked_from_elsewhere_there_is_no_link(more: Raw) -> None:
    assert service_links(called_from_elsewhere(**more)) == []


def test_what_is_told_of_callers_in_the_own_namespace_is_not_about_others() -> None:
    own = {**row(), "namespace": "demo"}
    assert links_of(called_from_elsewhere(own))[:2] == ("False", "Pending")
    other = {**row(), "namespace": "default"}
    assert links_of(called_from_elsewhere(own, other))[:2] == ("True", "Connected")


def test_why_a_link_for_another_namespace_is_not_accepted_is_told() -> None:
    (link,) = service_links(called_from_elsewhere())
    accepted = {"type": "Accepted", "status": "False", "reason": "UnknownCluster", "message": "name a ClusterTarget"}
    rows = linked_model.rows_of({**link, "status": {"conditions": [accepted], "clusters": [row()]}})
    told = links_of(called_from_elsewhere(*rows))
    assert told == ("False", "Pending", "workload api in us calls demo/front:80 in eu: name a ClusterTarget")
    assert linked_model.rows_of({**link, "status": {"clusters": [row()]}}) == [row()]
    assert linked_model.rows_of(link) == ()


@pytest.mark.parametrize(
    ("rows", "told", "finish"),
    [
        ((), ("True", "", ""), verdicts.SCHEDULED),
        ((row(),), ("True", "Connected", ""), verdicts.SCHEDULED),
        (
            (row("NoPath", "False"),),
            ("False", "NoPath", "workload api in us calls demo/old:80: in words"),
            verdicts.UNLINKED,
        ),
    ],
)
def test_a_service_that_is_there_without_the_application_is_called_too(
    rows: tuple[Raw, ...], told: tuple[str, str, str], finish: Verdict
) -> None:
    """Its pods' clusters are unknown: only the status of its link counts."""
    calling = spec_of(
        workload("web"), workload("api", spec=container(env=[{"name": "A", "value": "old:80"}])), own=[{"name": "web"}]
    )
    live = {("demo", "old"): frozenset([80])}
    calls = calls_of(draft(calling, "shop", "global"), live).of
    assert calls == {"web": (), "api": (Call(("demo", "old"), 80),)}
    assert calls_of(draft(calling, "shop", "global"), {}).of == {"web": (), "api": ()}
    placements = evaluated(decide(view(calling)))
    usual = {"placements": placements, "decisions": DECIDED, "calls": calls, "links": lambda service: rows}
    plan = decide(view(calling, live=live, **usual))
    assert (links_of(plan), plan.finish) == (told, finish)
    # Without such a Service, the link has no message.
    assert links_of(decide(view(calling, **usual)))[1] == ""
