"""Decisions for one of P2CODE's applications that is distributed as ManifestWorks."""

from typing import Any

import pytest

from agent.applications.conditions import objects_left, objects_refused
from agent.applications.decide import decide
from agent.applications.plan import Hub, Plan
from agent.applications.work_bundles import manifest_work
from agent.clusters.copies.outcomes import Refusal, Remaining
from agent.model.p2code import verdicts
from agent.model.p2code.check import draft
from agent.model.p2code.detect import Call
from agent.model.p2code.status import Decision, Told
from tests.controllers.applications.test_p2code_decide import DECIDED, DECISIONS, PLACED, SPEC, evaluated, told, view
from tests.model.applications import SET, Raw, manifest, spec_of, workload

NOTHING = Hub({})


def works(spec: Raw = SPEC, hub: Hub = NOTHING, **more: Any) -> Plan:
    more = {"placements": PLACED, "decisions": DECIDED, **more}
    found = draft(spec, "shop", "global", "works")
    return decide(view(spec, draft=found, distribution="works", hub=hub, **more))


def hub(*there: Raw) -> Hub:
    return Hub({(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in there})


def there(work: Raw, *, ready: int = 1, told: bool = True, going: bool = False, failing: str = "") -> Raw:
    """Return a ManifestWork with the status that its agent writes."""
    metadata = {**work["metadata"], "generation": 1, **({"deletionTimestamp": "2026"} if going else {})}
    done = {"type": "Applied", "status": "True", "observedGeneration": 1}
    good = [{"type": "Applied", "status": "True"}, {"type": "Available", "status": "True"}]
    bad = [{"type": "Applied", "status": "False", "message": failing}]
    value = {"name": "readyReplicas", "fieldValue": {"type": "Integer", "integer": ready}}
    manifests = [
        {
            "resourceMeta": {
                "group": each["apiVersion"].rpartition("/")[0],
                "kind": each["kind"],
                "namespace": each["metadata"]["namespace"],
                "name": each["metadata"]["name"],
            },
            "conditions": bad if failing else good,
            "statusFeedback": {"values": [value]},
        }
        for each in work["spec"]["workload"]["manifests"]
    ]
    status = {"conditions": [done], "resourceStatus": {"manifests": manifests}}
    return {**work, "metadata": metadata, "status": status if told else {}}


def made(spec: Raw = SPEC, **clusters: str) -> dict[str, Raw]:
    """Return the ManifestWorks of an application by workload."""
    found = draft(spec, "shop", "global", "works").application
    assert found is not None
    return {
        each.name: manifest_work(each, clusters[each.name], f"{each.name}-shop")
        for each in found.bundling.bundles
        if each.name in clusters
    }


HERE = made(web="eu", api="us")
BOTH = hub(there(HERE["web"]), there(HERE["api"]))


def beside(plan: Plan, type: str) -> Told:
    return next(each for each in plan.beside if each.type == type)


def keys(plan: Plan) -> list[str]:
    return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in plan.apply or ()]


def test_each_bundle_is_a_manifest_work_in_its_cluster() -> None:
    plan = works()
    assert plan.apply == [HERE["web"], HERE["api"]]
    assert (plan.tell, plan.finish, plan.decisions) == (verdicts.PLACED, verdicts.PLACED, DECISIONS)
    ready = beside(plan, "WorkloadsReady")
    assert (ready.status, ready.reason) == ("False", "NotReported")
    assert ready.message == (
        "ready: web 0 of 1, api 0 of 1; no word yet of ManifestWork web-shop in eu, api-shop in us: see that the work "
        "agent of the cluster runs"
    )


def test_no_target_has_to_lead_to_the_clusters() -> None:
    plan = works(target=lambda namespace, cluster: "")
    assert keys(plan) == ["eu/web-shop", "us/api-shop"]


def test_once_all_agents_have_told_of_it_it_is_successful() -> None:
    plan = works(hub=BOTH, psm=told(verdicts.SCHEDULED, decisions=DECISIONS))
    assert (plan.tell, plan.finish) == (None, verdicts.SCHEDULED)
    assert beside(plan, "WorkloadsReady") == Told("WorkloadsReady", "Ready", "ready: web 1 of 1, api 1 of 1", "True")
    assert not plan.keep
    assert plan.seen == {("eu", "web-shop"), ("us", "api-shop")}


def test_as_long_as_one_has_not_it_is_in_progress() -> None:
    plan = works(hub=hub(there(HERE["web"]), there(HERE["api"], told=False)))
    assert plan.finish == verdicts.PLACED


def test_the_first_three_failures_are_told() -> None:
    spec = spec_of(*(workload(f"w{n}") for n in range(4)), own=[{"name": "w0"}])
    names = {f"w{n}": "eu" for n in range(4)}
    placed = evaluated(decide(view(spec)))
    failing = hub(*(there(each, failing="no") for each in made(spec, **names).values()))
    plan = works(spec, failing, placements=placed, decisions={f"{name}-shop": "eu" for name in names})
    assert plan.finish is not None
    assert plan.finish.reason == "ManifestWorkFailed"
    assert plan.finish.message == (
        "Deployment demo/w0 in eu: no; Deployment demo/w1 in eu: no; Deployment demo/w2 in eu: no (and 1 more)"
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (Hub(), verdicts.ANALYSING),
        (Hub(refusal="not found"), verdicts.no_works("not found")),
    ],
)
def test_without_a_hub_nothing_is_applied(given: Hub, wanted: verdicts.Verdict) -> None:
    plan = works(hub=given)
    assert (plan.tell, plan.apply) == (wanted, None)


def test_what_is_wrong_with_it_is_told_rather_than_that_there_is_no_hub() -> None:
    assert works(spec_of(common=()), Hub(refusal="not found")).tell == verdicts.MISSING_TARGET


def test_another_distribution_there_is_not() -> None:
    plan = decide(view(distribution="push"))
    assert plan == Plan(tell=verdicts.unknown_distribution("push"), decisions=[])


def test_a_bundle_that_moves_is_kept_where_it_is_until_it_is_ready() -> None:
    former = there(made(web="us")["web"])
    before = hub(former, there(HERE["api"]))
    assert works(hub=before).keep == {("us", "web-shop")}
    assert keys(works(hub=before)) == ["eu/web-shop", "us/api-shop"]
    starting = hub(former, there(HERE["web"], ready=0), there(HERE["api"]))
    assert works(hub=starting).keep == {("us", "web-shop")}
    ready = hub(former, there(HERE["web"]), there(HERE["api"]))
    assert works(hub=ready).keep == set()
    # Deletion of the application waits for terminating ManifestWorks.
    going = hub(there(made(web="us")["web"], going=True), there(HERE["web"]), there(HERE["api"]))
    assert works(hub=going).keep == {("us", "web-shop")}


DB = spec_of(workload("db", "StatefulSet"), own=[{"name": "db", "annotations": []}])
DB_PLACED = evaluated(decide(view(DB)))


@pytest.mark.parametrize("going", [False, True])
def test_what_must_not_run_twice_is_made_once_it_is_gone_elsewhere(*, going: bool) -> None:
    former = there(made(DB, db="us")["db"], going=going)
    plan = works(DB, hub(former), placements=DB_PLACED, decisions={"db-shop": "eu"})
    assert plan.apply == []
    assert plan.keep == ({("us", "db-shop")} if going else set())
    assert plan.finish == verdicts.PLACED
    assert beside(plan, "CannotMove") == Told(
        "CannotMove",
        "StillThere",
        "workload db: ManifestWork us/db-shop has to be gone first, and the work agent of us has not let go of it",
    )
    assert keys(works(DB, NOTHING, placements=DB_PLACED, decisions={"db-shop": "eu"})) == ["eu/db-shop"]


def test_one_that_is_on_its_way_is_made_anew_once_it_is_gone() -> None:
    plan = works(hub=hub(there(HERE["web"], going=True), there(HERE["api"])))
    assert keys(plan) == ["us/api-shop"]
    assert beside(plan, "CannotMove").reason == "StillThere"


def test_what_is_in_no_bundle_any_more_goes() -> None:
    old = there(made(spec_of(workload("old"), own=[{"name": "old"}]), old="eu")["old"])
    assert works(hub=hub(old, *(BOTH.works or {}).values())).keep == set()


def test_in_the_same_cluster_a_workload_changes_hands_without_a_gap() -> None:
    db = made(DB, db="eu")["db"]
    former = there({**db, "metadata": {**db["metadata"], "name": "default-shop"}})
    plan = works(DB, hub(former), placements=DB_PLACED, decisions={"db-shop": "eu"})
    assert (keys(plan), plan.keep) == (["eu/db-shop"], {("eu", "default-shop")})


def test_all_in_one_cluster_is_one_manifest_work_named_after_it() -> None:
    spec = spec_of(workload("web"), manifest("ConfigMap"), common=(SET, "p2code.target.cluster=eu"))
    plan = works(spec, placements={}, decisions={})
    assert keys(plan) == ["eu/eu-shop"]
    assert (plan.tell, plan.finish, plan.decisions) == (None, verdicts.ANALYSING, [Decision("shop", "eu")])


def test_callers_of_services_in_other_clusters_are_told_that_these_are_not_linked() -> None:
    service = manifest("Service", "api", spec={"selector": {"app": "api"}, "ports": [{"port": 80}]})
    spec = spec_of(workload("web"), workload("api"), service, own=[{"name": "web", "annotations": []}])
    both = hub(*(there(each) for each in made(spec, web="eu", api="us").values()))
    plan = works(spec, both, placements=evaluated(decide(view(spec))), calls={"web": [Call(("demo", "api"), 80)]})
    assert plan.finish == verdicts.UNLINKED
    links = beside(plan, "LinksReady")
    assert (links.reason, links.status) == ("NotLinked", "False")
    assert links.message.startswith("workload web in eu calls demo/api:80 in us: Services of ManifestWorks are not")
    assert beside(works(hub=BOTH), "LinksReady").reason == ""


def test_daemon_sets_and_namespaces_that_are_only_there_are_taken() -> None:
    spec = spec_of(workload("log", "DaemonSet", namespace="far"))
    plan = works(spec, placements=evaluated(decide(view(spec_of(workload())))), decisions={"default-shop": "eu"})
    assert keys(plan) == ["eu/default-shop"]
    assert decide(view(spec)).tell == verdicts.bad_manifest(
        "unsupported manifest: the cluster admin is responsible for managing daemonset resources"
    )


def test_the_first_objects_that_were_refused_or_are_left_are_told_by_name() -> None:
    refusals = [Refusal("ConfigMap", "demo", f"c{n}", f"config map c{n}: no") for n in range(4)]
    assert objects_refused(refusals) == verdicts.not_applied(
        "Config map c0: no; config map c1: no; config map c2: no (and 1 more)"
    )
    assert objects_left([Remaining("Namespace", "", "demo"), Remaining("Pod", "demo", "a", "held")]) == Told(
        "ObjectsLeft", "StillThere", "waiting for Namespace demo, Pod demo/a (held)"
    )
