"""Explanations of applications by `flotilla explain psm`."""

from datetime import UTC, datetime

import pytest

from agent.cli.placements.applications import as_text, explanation_of
from agent.model.p2code import verdicts
from agent.model.p2code.check import draft
from agent.model.p2code.status import Decision, Told, status, told
from agent.settings import Settings
from agent.settings.p2code import Precedence
from tests.model.applications import SET, Raw, container, manifest, spec_of, workload

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def psm(spec: Raw) -> Raw:
    return {"metadata": {"name": "shop", "namespace": "team", "uid": "u", "generation": 1}, "spec": spec}


def text(application: Raw, *decisions: Raw) -> list[str]:
    return as_text(explanation_of(application, decisions), terminal=False).splitlines()


def test_bundles_are_told_with_clusters_scores_calls_and_what_is_missing() -> None:
    spec = spec_of(
        workload(
            "web", spec=container(env=[{"name": "A", "value": "back:80"}], envFrom=[{"secretRef": {"name": "s"}}])
        ),
        workload("api"),
        manifest("Service", "back", spec={"selector": {"app": "api"}, "ports": [{"port": 80}]}),
        manifest("ConfigMap", "unused"),
        own=[{"name": "web", "annotations": ["p2code.filter.a=1"]}],
    )
    application = psm(spec)
    decisions = [Decision("web", "eu"), Decision("api", "us")]
    beside = (Told("CannotMove", ""), Told("WorkloadsReady", "NotReady", "ready: api 0 of 1, web 1 of 1", "False"))
    application["status"] = status(application, verdicts.ORPHANED, decisions, beside, NOW)
    decision = {
        "metadata": {"labels": {"cluster.open-cluster-management.io/placement": "web-shop"}},
        "status": {"decisions": [{"clusterName": "eu", "score": 152, "reason": "Steady 100"}]},
    }
    heading, reason, ready, _, heads, web, api, _, unused = text(application, decision)
    assert heading == "P2CodeSchedulingManifest team/shop: TentativelyScheduled"
    assert reason.startswith("  OrphanedManifest: All workloads have been successfully scheduled however orphaned")
    assert ready == "  WorkloadsReady: ready: api 0 of 1, web 1 of 1"
    assert heads.split() == ["BUNDLE", "CLUSTER", "SCORE", "FILTERS", "MANIFESTS", "CALLS", "MISSING"]
    assert web.split("  ")[0] == "web"
    for part in ("eu", "152 (Steady 100)", "p2code.filter.a=1", "Deployment demo/web", "demo/back:80", "Secret s"):
        assert f"  {part}" in web
    assert "Deployment demo/api, Service demo/back" in api
    assert unused == "Not applied, for no workload refers to it: ConfigMap demo/unused"


def test_calls_of_services_that_are_there_without_it_are_told() -> None:
    spec = spec_of(workload("web", spec=container(env=[{"name": "A", "value": "old:80"}])), own=[{"name": "web"}])
    assert [each.calls for each in explanation_of(psm(spec), ()).bundles] == [[]]
    live = {("demo", "old"): frozenset([80])}
    assert [each.calls for each in explanation_of(psm(spec), (), live).bundles] == [["demo/old:80"]]


TWICE = spec_of(
    workload("web"),
    common=(SET, "p2code.filter.a=1"),
    own=[{"name": "web", "annotations": ["p2code.filter.a=2"]}],
)
"""An application with a global filter and a filter of its workload."""
FIRST, BOTH = ["p2code.filter.a=1"], ["p2code.filter.a=1", "p2code.filter.a=2"]


@pytest.mark.parametrize(("precedence", "filters"), [("global", FIRST), ("and", BOTH)])
def test_filters_are_those_of_the_precedence_that_the_agent_has(precedence: Precedence, filters: list[str]) -> None:
    application = psm(TWICE)
    found = draft(TWICE, "shop", precedence).application
    assert found is not None
    placed = [Decision("web", "eu")]
    application["status"] = status(application, verdicts.SCHEDULED, placed, told(found.bundling), NOW)
    explained = explanation_of(application, ())
    assert [sorted(each.filters) for each in explained.bundles] == [filters]
    assert explained.notes == []


def test_before_the_agent_has_decided_a_flag_says_which_precedence_it_has() -> None:
    explained = explanation_of(psm(TWICE), ())
    assert [each.filters for each in explained.bundles] == [FIRST]
    (note,) = explained.notes
    assert note.endswith("give --agent-flag=--tuning=p2code-precedence=and")
    explained = explanation_of(psm(TWICE), (), settings=Settings(p2code_precedence="and"))
    assert [sorted(each.filters) for each in explained.bundles] == [BOTH]
    assert explained.notes == []


def test_what_is_wrong_is_told_before_anybody_has_looked() -> None:
    heading, *wrong = text(psm(spec_of(manifest("PersistentVolume"), common=(SET, "x"))))
    assert heading.endswith("nobody has looked at it yet: see that the agent runs with agent.p2code.enabled")
    assert wrong == [
        "  Wrong: Unsupported annotations found, x is an unsupported annotation",
        "  Wrong: Unsupported manifest: the cluster admin is responsible for managing persistentvolume resources",
    ]


def test_what_was_told_of_an_earlier_spec_says_so() -> None:
    application = psm(spec_of(workload()))
    application["status"] = status(application, verdicts.SCHEDULED, [], (), NOW)
    application["metadata"]["generation"] = 2
    assert text(application)[0].endswith("SchedulingSuccessful, of an earlier spec")


@pytest.mark.parametrize(
    "annotations",
    [
        {"multicluster/distribution": "works"},
        {"multicluster/applied-kinds": "ConfigMap/x,ManifestWork.work.open-cluster-management.io/eu"},
    ],
)
def test_of_one_that_is_distributed_as_manifest_works_this_is_told(annotations: dict[str, str]) -> None:
    application = psm(spec_of(workload(kind="DaemonSet")))
    application["metadata"]["annotations"] = annotations
    _, works, *rest = text(application)
    assert (
        works
        == "  Its manifests are distributed as ManifestWorks, one for each bundle, in the namespace of its cluster"
    )
    assert not any("Wrong" in line for line in rest)
