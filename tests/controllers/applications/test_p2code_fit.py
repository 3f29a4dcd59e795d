"""Capacity checks for workloads of P2CODE's applications, before any object is applied."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from agent.applications.decide import decide
from agent.applications.fit import Capacity
from agent.applications.plan import Plan, View
from agent.model.p2code import verdicts
from agent.model.p2code.check import draft
from agent.model.p2code.progress import There
from agent.model.p2code.status import Decision
from agent.ranking.snapshot import amounts
from tests.controllers.applications.test_p2code_decide import (
    DECIDED,
    DECISIONS,
    NODE,
    NOW,
    PSM,
    WORLD,
    evaluated,
    roomy,
    told,
)
from tests.model.applications import SET, Raw, container, spec_of, workload
from tests.ranking.pods_and_targets import free, shape, target_info, telling

TWO_CORES = container(resources={"requests": {"cpu": "2"}})
BEGIN = "No pod of deployment api would run in the managed cluster us, which was selected for workload api: to-us: "


def planned(*workloads: Raw, capacities: Mapping[str, Capacity | None], psm: Raw = PSM, **more: Any) -> Plan:
    """Decide once every bundle has a cluster; clusters without known capacity accept everything."""
    spec = spec_of(*workloads, own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}])
    view = View(
        psm,
        draft(spec, "shop", "global"),
        WORLD,
        {},
        DECIDED,
        lambda _, cluster: f"to-{cluster}",
        NOW,
        lambda namespace, cluster: capacities.get(cluster, roomy(namespace, cluster)),
    )
    return decide(replace(view, placements=evaluated(decide(view)), **more))


def room(**known: Any) -> Capacity:
    return Capacity(target_info("to-us", **{"namespace": "", "labels": NODE, **known}))


def small(cpu: str) -> Capacity:
    """Return the capacity of a target with one node that has this many free CPUs."""
    return room(shapes=(telling(free(cpu)),))


def asking(**spec: Any) -> list[Raw]:
    return [workload("web"), workload("api", spec=spec)]


@pytest.mark.parametrize(
    ("known", "spec", "why"),
    [
        (small("1"), TWO_CORES, "insufficient cpu on every node (largest free 1)"),
        (room(shapes=(shape(cpu="1"),)), TWO_CORES, "insufficient cpu on every node (largest 1)"),
        (room(allocatable=amounts({"cpu": "1"})), TWO_CORES, "the pod requests more than the whole target has"),
        (room(ready=False, state="no answer (since 10:00)"), {}, "no answer (since 10:00)"),
        (room(closed="it is emptied"), {}, "it is emptied"),
        (room(unschedulable=True), {}, "virtual node is cordoned"),
        (room(taints=({"key": "mine", "effect": "NoSchedule"},)), {}, "taint mine"),
        (
            room(shapes=(telling(free("4")),)),
            {"nodeSelector": {"gpu": "yes"}},
            "no node matches the pod's node selector or affinity",
        ),
        (
            Capacity(room(limits=amounts({"cpu": "4"})).info, amounts({"cpu": "3"})),
            TWO_CORES,
            "limit cpu of the target reached (3 of 4)",
        ),
    ],
)
def test_what_does_not_fit_is_told_and_nothing_is_applied(known: Capacity, spec: Raw, why: str) -> None:
    plan = planned(*asking(**spec), capacities={"us": known})
    assert plan.tell == ("SchedulingFailed", "NotAllDecisionsScheduled", BEGIN + why)
    assert (plan.apply, plan.decisions, plan.unfit) == (None, [], True)


@pytest.mark.parametrize("known", [small("2"), room(shapes=(shape(cpu="2"),)), room(limits=amounts({"cpu": "2"}))])
def test_what_fits_is_applied(known: Capacity) -> None:
    plan = planned(*asking(**TWO_CORES), capacities={"us": known})
    assert (plan.tell, plan.unfit) == (verdicts.PLACED, False)


def test_pods_of_all_workloads_have_to_fit_beside_each_other() -> None:
    both = [workload("web", spec=TWO_CORES), workload("api", spec=TWO_CORES)]
    same = {"web-shop": "us", "api-shop": "us"}
    assert planned(*both, capacities={"us": small("4")}, decisions=same).tell == verdicts.PLACED
    plan = planned(*both, capacities={"us": small("3")}, decisions=same)
    assert plan.tell is not None
    assert plan.tell.message == BEGIN + "insufficient cpu on every node (largest free 1)"


def test_while_too_little_is_known_of_a_target_it_is_waited_for() -> None:
    plan = planned(*asking(), capacities={"us": None})
    assert (plan.tell, plan.decisions, plan.apply, plan.unfit) == (verdicts.ANALYSING, None, None, True)
    assert plan.again == 0.5


@pytest.mark.parametrize(
    ("decisions", "applied", "fits"),
    [
        (DECISIONS, "", True),
        ([Decision("api", "us")], "", True),
        ([Decision("web", "eu")], "", False),
        ([Decision("api", "eu")], "to-eu", False),
        ([], "to-us", True),
    ],
)
def test_what_was_let_in_before_may_fill_its_cluster(decisions: list[Decision], applied: str, fits: bool) -> None:
    plan = planned(
        *asking(**TWO_CORES),
        capacities={"us": small("1")},
        psm=told(verdicts.SCHEDULED, decisions=decisions),
        workloads=lambda identity: There({"metadata": {"annotations": {"multicluster/targets": applied}}}),
    )
    assert (plan.apply is not None, plan.unfit) == (fits, not fits)


def test_figures_that_change_are_no_news() -> None:
    first = planned(*asking(**TWO_CORES), capacities={"us": small("1")}).tell
    assert first is not None
    later = planned(*asking(**TWO_CORES), capacities={"us": small("1500m")}, psm=told(first))
    assert later.tell == first
    away = planned(*asking(**TWO_CORES), capacities={"us": room(ready=False, state="no answer")}, psm=told(first))
    assert away.tell != first


def test_an_annotation_that_makes_no_pod_is_told_before_anything_is_applied() -> None:
    bad = workload("api")
    bad["spec"]["template"]["metadata"]["annotations"] = {"multicluster/scheduling": "soon"}
    plan = planned(workload("web"), bad, capacities={})
    assert plan.tell is not None
    assert "metadata.annotations[multicluster/scheduling]" in plan.tell.message


@pytest.mark.parametrize("spec", [{"containers": "x"}, {"containers": [{"resources": {"requests": {"cpu": "?"}}}]}])
def test_what_is_no_pod_at_all_is_left_to_the_api_server(spec: Raw) -> None:
    assert planned(*asking(**spec), capacities={"us": small("1")}).tell == verdicts.PLACED


@pytest.mark.parametrize("kind", ["Pod", "StatefulSet", "ReplicaSet", "Job", "CronJob"])
def test_every_kind_of_workload_is_looked_at(kind: str) -> None:
    plan = planned(workload("web"), workload("api", kind, spec=TWO_CORES), capacities={"us": small("1")})
    assert plan.tell is not None
    assert plan.tell.message.startswith(f"No pod of {kind.lower()} api would run")


def test_one_cluster_for_everything_has_to_have_room_too() -> None:
    spec = spec_of(workload(spec=TWO_CORES), common=(SET, "p2code.target.cluster=eu"))
    view = View(
        PSM,
        draft(spec, "shop", "global"),
        WORLD,
        {},
        {},
        lambda _, cluster: f"to-{cluster}",
        NOW,
        lambda *_: small("1"),
    )
    assert decide(view).unfit
