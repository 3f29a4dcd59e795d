"""Status of a ManifestWork: feedback values, condition rules, conditions and their exact texts."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from agent.klusterlet import rules
from agent.klusterlet.feedback import Feedback, Progress, feedback, progress
from agent.klusterlet.manifests import Meta
from agent.klusterlet.rules import Found, evaluate
from agent.klusterlet.status import (
    APPLIED_WELL,
    INCOMPLETE,
    IS_AVAILABLE,
    NOT_AVAILABLE,
    ManifestState,
    not_applied,
    skipped_for,
    status,
    with_deleting,
)
from agent.runtime.worker import Worker, WorkerFailed

Raw = dict[str, Any]

NOW = datetime(2026, 1, 2, tzinfo=UTC)
LATER = datetime(2026, 1, 3, tzinfo=UTC)
DEPLOYMENT: Raw = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "generation": 2},
    "spec": {"replicas": 2},
    "status": {"readyReplicas": 2, "replicas": 3, "availableReplicas": 1, "list": [1, 2], "float": 1.5, "none": None},
}


def values(found: Feedback) -> Raw:
    return {each["name"]: next(v for k, v in each["fieldValue"].items() if k != "type") for each in found.values}


def path(name: str, text: str, **rest: str) -> Raw:
    return {"type": "JSONPaths", "jsonPaths": [{"name": name, "path": text, **rest}]}


def test_well_known_values_of_a_deployment_have_their_names_and_types() -> None:
    found = feedback(DEPLOYMENT, [{"type": "WellKnownStatus"}])
    assert values(found) == {"ReadyReplicas": 2, "Replicas": 3, "AvailableReplicas": 1}
    assert {each["fieldValue"]["type"] for each in found.values} == {"Integer"}


@pytest.mark.parametrize(
    ("rule", "value", "error"),
    [
        (path("a", ".metadata.name"), {"type": "String", "string": "web"}, None),
        (path("a", ".status.missing"), None, None),
        (path("a", ".status.none"), None, None),
        (path("a", ".status.list"), {"type": "JsonRaw", "jsonRaw": "[1,2]"}, None),
        (path("a", ".status.float"), {"type": "JsonRaw", "jsonRaw": "1.5"}, None),
        (path("a", ".status.list[*]"), {"type": "JsonRaw", "jsonRaw": "[1,2]"}, None),
        (path("a", ".status.replicas", version="v1"), {"type": "Integer", "integer": 3}, None),
        (path("a", ".x", version="v2"), None, "version set in the path a is not matched for the related resource"),
        (path("a", ".x["), None, "failed to parse json path .x[ of a with error: a closing ] is missing"),
        (path("a", ".long"), None, "json raw string for name a is larger than the maximum length 1024"),
    ],
)
def test_a_path_gives_a_typed_value_or_an_error(rule: Raw, value: Raw | None, error: str | None) -> None:
    found = feedback(DEPLOYMENT | {"long": ["x" * 1100]}, [rule])
    assert [each["fieldValue"] for each in found.values] == ([value] if value else [])
    assert [error in each for each in found.errors if error] == ([True] if error else [])
    assert bool(found.errors) == bool(error)


def test_an_unknown_kind_keeps_the_values_of_good_rules_beside_the_error() -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}}
    found = feedback(config, [{"type": "WellKnownStatus"}, path("a", ".metadata.name")])
    assert values(found) == {"a": "web"}
    assert found.errors == ["cannot find the wellknown statuses for resource with gvk /v1, Kind=ConfigMap"]


@pytest.mark.parametrize(
    ("state", "progressing", "degraded"),
    [
        ({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, True, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}, False, False),
        ({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2, "availableReplicas": 2}, True, False),
        ({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1}, True, False),
        (
            {
                "observedGeneration": 2,
                "conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}],
            },
            True,
            True,
        ),
    ],
)
def test_a_deployment_progresses_until_all_replicas_are_updated_and_available(
    state: Raw, *, progressing: bool, degraded: bool
) -> None:
    found = progress(DEPLOYMENT | {"status": state})
    assert found is not None
    assert found[:2] == (progressing, degraded)


def test_a_kind_without_rollout_has_no_progress() -> None:
    assert progress({"apiVersion": "v1", "kind": "ConfigMap"}) is None


def rule(*expressions: str, **rest: str) -> Raw:
    return {"type": "CEL", "condition": "Good", "celExpressions": list(expressions), **rest}


@pytest.mark.parametrize(
    ("given", "state", "reason", "message"),
    [
        (rule("object.spec.replicas == 2"), "True", "ConditionRuleEvaluated", "Manifest is Good"),
        (rule("object.spec.replicas > 5"), "False", "ConditionRuleEvaluated", "Manifest is not Good"),
        (rule("true", "false", "object.no.such.field"), "False", "ConditionRuleEvaluated", "Manifest is not Good"),
        (rule("true", message="fine"), "True", "ConditionRuleEvaluated", "fine"),
        (
            rule("true", messageExpression="result ? 'up: ' + string(object.spec.replicas) : 'down'"),
            "True",
            "ConditionRuleEvaluated",
            "up: 2",
        ),
        (rule("object.spec.replicas"), "False", "ConditionRuleExpressionError", "expected bool result"),
        (rule("object.no.such.field == 1"), "False", "ConditionRuleExpressionError", "Key not found"),
        (rule("object.spec +"), "False", "ConditionRuleExpressionError", "compilation failed"),
        (rule("hasConditions(object.status)"), "False", "ConditionRuleEvaluated", "Manifest is not Good"),
        (rule("hasConditions({'conditions': [1]})"), "True", "ConditionRuleEvaluated", "Manifest is Good"),
        (rule("quantity('1').isLessThan(quantity('2'))"), "True", "ConditionRuleEvaluated", "Manifest is Good"),
    ],
)
def test_a_rule_gives_a_condition(given: Raw, state: str, reason: str, message: str) -> None:
    found = evaluate(given, DEPLOYMENT)
    assert found is not None
    assert (found.type, found.status, found.reason) == ("Good", state, reason)
    assert message in found.message


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        (
            {"apiVersion": "batch/v1", "kind": "Job", "status": {"conditions": [{"type": "Failed", "status": "True"}]}},
            Found("Complete", "True", "ConditionRuleEvaluated", "Job is finished"),
        ),
        (
            {"apiVersion": "batch/v1", "kind": "Job"},
            Found("Complete", "False", "ConditionRuleEvaluated", "Job is not finished"),
        ),
        (
            {"apiVersion": "v1", "kind": "Pod", "status": {"phase": "Succeeded"}},
            Found("Complete", "True", "ConditionRuleEvaluated", "Pod is in phase Succeeded"),
        ),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, None),
    ],
)
def test_well_known_conditions_are_those_of_jobs_and_pods(obj: Raw, wanted: Found | None) -> None:
    assert evaluate({"type": "WellKnownConditions", "condition": "Complete"}, obj) == wanted


def test_a_worker_answers_for_all_rules_of_an_object() -> None:
    question = rules.Question([rule("true"), {"type": "WellKnownConditions"}], msgspec.json.encode(DEPLOYMENT))
    question.feedback = [path("a", ".metadata.name")]
    found = msgspec.msgpack.decode(rules.answer(msgspec.msgpack.encode(question)), type=rules.Answer)
    assert [each.status for each in found.conditions] == ["True"]
    assert values(found.feedback) == {"a": "web"}


async def test_a_path_that_takes_long_is_ended_by_the_worker() -> None:
    slow = path("a", "..[" + ",".join("a" * 500) + "]")
    question = rules.Question([], msgspec.json.encode({"spec": [{}] * 150_000}), [slow])
    worker = Worker("agent.klusterlet.rules:answer", cpu_seconds=0.5)
    with pytest.raises(WorkerFailed):
        await worker.ask(msgspec.msgpack.encode(question))
    await worker.close()


def test_the_values_of_an_object_are_limited_in_bytes() -> None:
    found = feedback({"a": "x" * 30_000}, [path(str(number), ".a") for number in range(200)])
    assert list(values(found)) == ["0", "1"]
    assert found.errors == ["only the first 2 values are reported: the limit is 200 or 65536 bytes"]


def test_a_long_message_is_cut_to_what_the_hub_accepts() -> None:
    found = status(work(), [state_of(feedback=Feedback([], ["x" * 40_000]), has_rules=True)], NOW)
    (manifest,) = found["resourceStatus"]["manifests"]
    assert len(said(manifest, "StatusFeedbackSynced")[2]) == 32_768


def state_of(ordinal: int = 0, name: str = "web", **rest: Any) -> ManifestState:
    meta = Meta(ordinal, "apps", "v1", "Deployment", "deployments", "shop", name)
    return ManifestState(**{"meta": meta, "applied": APPLIED_WELL, "available": IS_AVAILABLE, **rest})


def work(before: Raw | None = None, generation: int = 1) -> Raw:
    return {"metadata": {"name": "w", "generation": generation}, "status": before or {}}


def said(found: Raw, type: str) -> tuple[str, str, str]:
    (condition,) = (each for each in found["conditions"] if each["type"] == type)
    return condition["status"], condition["reason"], condition["message"]


def test_a_work_without_trouble_is_applied_and_available() -> None:
    found = status(work(), [state_of(feedback=Feedback([], []))], NOW)
    assert said(found, "Applied") == ("True", "AppliedManifestWorkComplete", "Apply manifest work complete")
    assert said(found, "Available") == ("True", "ResourcesAvailable", "All resources are available")
    (manifest,) = found["resourceStatus"]["manifests"]
    assert said(manifest, "Applied") == ("True", "AppliedManifestComplete", "Apply manifest complete")
    assert said(manifest, "Available") == ("True", "ResourceAvailable", "Resource is available")
    assert said(manifest, "StatusFeedbackSynced") == ("True", "NoStatusFeedbackSynced", "")
    assert manifest["resourceMeta"] == {
        **{"ordinal": 0, "group": "apps", "version": "v1", "kind": "Deployment", "resource": "deployments"},
        **{"namespace": "shop", "name": "web"},
    }


def test_failures_are_counted() -> None:
    some = [
        state_of(0, "a", applied=not_applied("denied"), available=NOT_AVAILABLE),
        state_of(1, "b", applied=skipped_for("x/v2"), available=None),
        state_of(2, "c", available=INCOMPLETE),
    ]
    found = status(work(), some, NOW)
    assert said(found, "Applied") == ("False", "AppliedManifestWorkFailed", "Failed to apply manifest work")
    assert said(found, "Available") == ("False", "ResourcesNotAvailable", "1 of 2 resources are not available")
    assert said(found, "Progressing")[0] == "True"
    first = found["resourceStatus"]["manifests"][0]
    assert said(first, "Applied") == ("False", "AppliedManifestFailed", "Failed to apply manifest: denied")
    unknown = status(work(), some[1:], NOW)
    assert said(unknown, "Applied")[0] == "True"
    assert said(unknown, "Available") == (
        "Unknown",
        "ResourcesStatusUnknown",
        "1 of 1 resources have unknown status",
    )


@pytest.mark.parametrize(
    ("type", "states", "aggregated"),
    [
        ("Good", ["True", "False"], "False"),
        ("Good", ["True", "Unknown"], "Unknown"),
        ("Good", ["True", "True"], "True"),
        ("Progressing", ["True", "False"], "True"),
        ("Progressing", ["False", "False"], "False"),
    ],
)
def test_conditions_of_rules_are_aggregated(type: str, states: list[str], aggregated: str) -> None:
    some = [
        state_of(number, f"m{number}", rules=[Found(type, state, "ConditionRuleEvaluated", "why")])
        for number, state in enumerate(states)
    ]
    found = status(work(), some, NOW)
    assert said(found, type) == (aggregated, "ConditionRulesAggregated", "Aggregated from 2 manifest conditions")
    assert said(status(work(), some[:1], NOW), type)[2] == "why"


def test_progress_of_workloads_is_reported_unless_a_rule_does() -> None:
    moving = Progress(progressing=True, degraded=False, message="1 of 2 replicas updated")
    found = status(work(), [state_of(progress=moving), state_of(1, "other")], NOW)
    assert said(found, "Progressing") == ("True", "ByKind", "1 of 2 replicas updated")
    assert said(found, "Degraded") == ("False", "ByKind", "No manifest is Degraded")
    ruled = state_of(progress=moving, rules=[Found("Progressing", "False", "ConditionRuleEvaluated", "done")])
    found = status(work(), [ruled], NOW)
    assert said(found, "Progressing") == ("False", "ConditionRulesAggregated", "done")


def test_times_move_with_status_generation_and_values_only() -> None:
    def times(found: Raw) -> dict[str, str]:
        (manifest,) = found["resourceStatus"]["manifests"]
        return {each["type"]: each["lastTransitionTime"] for each in manifest["conditions"]}

    def one(number: int) -> ManifestState:
        return state_of(feedback=Feedback([{"name": "a", "fieldValue": {"type": "Integer", "integer": number}}], []))

    first = status(work(), [one(1)], NOW)
    assert status(work(first), [one(1)], LATER) == first
    values_moved = times(status(work(first), [one(2)], LATER))
    assert values_moved["StatusFeedbackSynced"] > values_moved["Applied"]
    assert set(times(status(work(first, 2), [one(1)], LATER)).values()) == {"2026-01-03T00:00:00Z"}


def test_conditions_follow_a_manifest_to_another_place() -> None:
    first = status(work(), [state_of(0, "a"), state_of(1, "b", applied=not_applied("x"))], NOW)
    second = status(
        work(first), [state_of(0, "b", applied=not_applied("x")), state_of(1, "c"), state_of(2, "a")], LATER
    )
    times = [each["conditions"][0]["lastTransitionTime"][:10] for each in second["resourceStatus"]["manifests"]]
    assert times == ["2026-01-02", "2026-01-03", "2026-01-02"]


def test_conditions_of_other_writers_stay_and_those_of_former_rules_go() -> None:
    good = Found("Good", "True", "ConditionRuleEvaluated", "fine")
    first = status(work(), [state_of(rules=[good])], NOW)
    first["conditions"].append({"type": "Other", "status": "True", "reason": "Theirs", "message": ""})
    found = status(work(first), [state_of()], NOW)
    assert [each["type"] for each in found["conditions"]] == [
        "Applied",
        "Available",
        "Progressing",
        "Degraded",
        "Other",
    ]
    assert [each["type"] for each in found["resourceStatus"]["manifests"][0]["conditions"]] == ["Applied", "Available"]


def test_deletion_names_what_it_waits_for_and_keeps_other_conditions() -> None:
    first = status(work(), [state_of()], NOW)
    found = with_deleting(work(first), "Widget shop/w (finalizers x/y)", NOW)
    assert [each["type"] for each in found] == ["Applied", "Available", "Progressing", "Degraded", "Deleting"]
    assert said({"conditions": found}, "Deleting") == (
        "True",
        "WorkDeleting",
        "ManifestWork is being deleted: waiting for Widget shop/w (finalizers x/y)",
    )
    assert with_deleting(work(), "", NOW)[0]["message"] == "ManifestWork is being deleted"
