"""Each row of section 4.5 of the wire contract about a chaperon and its pod."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import delegates
from agent.base.clock import stamp
from agent.model.podpolicy import Rule, read
from agent.model.terminating import MESSAGE, REASON
from agent.pods.chaperon.actions import (
    CreatePod,
    Foreign,
    LeaveOut,
    LookAgain,
    PatchChaperon,
    PatchPod,
    PutStatus,
    Refuse,
    RefuseChange,
)
from agent.pods.chaperon.decide import ChaperonAndPod, decide
from agent.pods.chaperon.refusals import refused
from agent.pods.chaperon.telling import is_news
from tests.examples import examples

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEDULED = {"type": "PodScheduled", "status": "True"}
RUNNING = {"phase": "Running", "conditions": [SCHEDULED, {"type": "Ready", "status": "True"}], "podIP": "10.0.0.1"}
SINCE = names.ANNOTATION_POD_MISSING_SINCE


def chaperon(
    status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    identity = {"name": "web-1", "namespace": "default", "uid": "C", "resourceVersion": "7"}
    metadata = identity | {"annotations": annotations or {}}
    return {"metadata": metadata, "spec": {"containers": [], **spec}, "status": status or {}}


def pod(
    status: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, owner: str = "C"
) -> dict[str, Any]:
    owners = [{"kind": "PodChaperon", "uid": owner, "controller": True}]
    metadata = {"name": "web-1", "namespace": "default", "ownerReferences": owners, "annotations": annotations or {}}
    return {"metadata": metadata, "status": status or {}}


def outcome(chaperon: dict[str, Any], pod: dict[str, Any] | None = None) -> list[Any]:
    return decide(ChaperonAndPod(chaperon, pod, 60.0), NOW)


def ago(seconds: float) -> dict[str, str]:
    return {SINCE: stamp(NOW - timedelta(seconds=seconds))}


def reserved_until(seconds: float) -> dict[str, Any]:
    mark = f"h {stamp(NOW + timedelta(seconds=seconds))}"
    return chaperon(RUNNING, {names.ANNOTATION_IS_RESERVED: "true", names.ANNOTATION_HOLD: mark})


def test_a_reservation_that_nobody_holds_any_more_is_taken_back_after_its_end() -> None:
    assert outcome(reserved_until(10), pod(RUNNING)) == [LookAgain(15.0)]
    cleared = {names.ANNOTATION_IS_RESERVED: None, names.ANNOTATION_HOLD: None}
    patch = {"metadata": {"annotations": cleared, "resourceVersion": "7"}}
    assert outcome(reserved_until(-10), pod(RUNNING)) == [PatchChaperon(patch)]


def test_a_pod_that_never_existed_is_made() -> None:
    assert outcome(chaperon()) == [CreatePod()]


def test_a_pod_that_was_refused_before_is_tried_again() -> None:
    assert outcome(chaperon(refused("quota"))) == [CreatePod()]


def noted(**more: None) -> PatchChaperon:
    """Return the patch that records a missing pod, for the judged version only and after a live read of the pod."""
    told = {SINCE: "2026-01-01T12:00:00Z", **more}
    return PatchChaperon({"metadata": {"annotations": told, "resourceVersion": "7"}}, if_missing=True)


def test_the_loss_of_a_pod_is_noted_with_its_time() -> None:
    assert outcome(chaperon(RUNNING)) == [noted()]


MADE = names.ANNOTATION_POD_MADE


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
class TestAPodThatMustNotRunTwice:
    def test_is_made_after_that_was_recorded(self, policy: str) -> None:
        assert outcome(chaperon(restartPolicy=policy)) == [CreatePod(once=True)]
        assert outcome(chaperon(restartPolicy="Always")) == [CreatePod()]

    def test_that_was_made_and_is_gone_is_missing_though_nothing_was_told_of_it(self, policy: str) -> None:
        made = chaperon(annotations={MADE: "true"}, restartPolicy=policy)
        assert outcome(made) == [noted()]
        made["metadata"]["annotations"] |= ago(100_000)
        assert outcome(made) == [LookAgain(3600)]

    def test_of_whose_record_no_pod_has_come_is_made(self, policy: str) -> None:
        recorded = chaperon(annotations={MADE: "true"}, restartPolicy=policy)
        assert decide(ChaperonAndPod(recorded, None, 60.0, unmade=True), NOW) == [CreatePod(once=True)]

    def test_that_went_before_it_had_a_node_is_said_not_to_have_run(self, policy: str) -> None:
        for told in ({}, {"phase": "Pending"}):
            recorded = chaperon(told, {MADE: "true"}, restartPolicy=policy)
            assert decide(ChaperonAndPod(recorded, None, 60.0, unborn=True), NOW) == [noted(**{MADE: None})]

    def test_that_is_missing_is_not_made_while_its_source_has_not_heard_of_it(self, policy: str) -> None:
        assert outcome(chaperon(annotations=ago(1), restartPolicy=policy)) == [LookAgain(3600)]

    def test_that_a_policy_does_not_allow_is_not_recorded(self, policy: str) -> None:
        (refusal,) = within((STRICT,), chaperon(containers=[OUTSIDE], restartPolicy=policy))
        assert isinstance(refusal, Refuse)


def test_a_lost_pod_is_not_made_again_before_the_source_had_its_chance() -> None:
    assert outcome(chaperon(RUNNING, ago(20))) == [LookAgain(40.0)]


@pytest.mark.parametrize("seconds", [60, 61, 100_000])
def test_a_pod_that_stays_lost_is_made_again(seconds: float) -> None:
    assert outcome(chaperon(RUNNING, ago(seconds))) == [CreatePod()]
    assert outcome(chaperon(RUNNING, ago(seconds), restartPolicy="Always")) == [CreatePod()]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_lost_pod_that_may_have_done_its_work_is_never_made_again(policy: str) -> None:
    (action,) = outcome(chaperon(RUNNING, ago(100_000), restartPolicy=policy))
    assert isinstance(action, LookAgain)


def test_the_time_that_an_admiralty_agent_wrote_is_understood() -> None:
    assert outcome(chaperon(RUNNING, {SINCE: "2026-01-01T03:58:30-08:00"})) == [CreatePod()]


def test_a_time_that_nobody_can_read_counts_as_now() -> None:
    assert outcome(chaperon(RUNNING, {SINCE: "a while ago"})) == [LookAgain(60.0)]


def test_a_foreign_pod_of_that_name_is_reported_and_not_touched() -> None:
    message = 'resource "web-1" already exists and is not managed by PodChaperon'
    assert outcome(chaperon(), pod(RUNNING, owner="somebody")) == [Foreign(message)]
    ownerless = pod(RUNNING)
    ownerless["metadata"]["ownerReferences"] = []
    assert outcome(chaperon(), ownerless) == [Foreign(message)]


def test_a_pod_that_is_back_ends_the_note_of_its_loss() -> None:
    assert outcome(chaperon(RUNNING, ago(5)), pod(RUNNING)) == [
        PatchChaperon({"metadata": {"annotations": {SINCE: None}}})
    ]


ENDING = names.ANNOTATION_POD_ENDING


def ends(requested: float, grace: int) -> dict[str, Any]:
    """Return a pod whose deletion was requested so many seconds ago, with a grace period."""
    found = pod(RUNNING)
    due = stamp(NOW + timedelta(seconds=grace - requested))
    found["metadata"] |= {"deletionTimestamp": due, "deletionGracePeriodSeconds": grace}
    return found


def noted_as_ending() -> PatchChaperon:
    """Return the patch of the judged version only: a later version may be terminating."""
    return PatchChaperon({"metadata": {"annotations": {ENDING: stamp(NOW)}, "resourceVersion": "7"}})


def test_a_pod_that_somebody_deletes_is_told_of_at_once_and_once() -> None:
    assert outcome(chaperon(RUNNING), ends(0, 30)) == [noted_as_ending()]
    assert outcome(chaperon(RUNNING, {ENDING: stamp(NOW)}), ends(1, 30)) == []
    assert outcome(chaperon(RUNNING), ends(0, 0)) == [LookAgain(1.0)], "it is gone in a moment"
    assert outcome(chaperon(RUNNING), ends(1, 0)) == [noted_as_ending()]
    changed = ends(0, 30) | {"status": RUNNING | {"podIP": "10.0.0.2"}}
    assert outcome(chaperon(RUNNING), changed) == [noted_as_ending(), PutStatus(changed["status"])]


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
def test_a_pod_that_may_end_well_is_not_ready_at_once_and_told_of_when_its_end_is_overdue(policy: str) -> None:
    once = chaperon(RUNNING, restartPolicy=policy)
    waits, told = outcome(once, ends(29, 30))
    assert waits == LookAgain(61.0)
    ready = {"type": "Ready", "status": "False", "reason": REASON, "message": MESSAGE}
    ready["lastTransitionTime"] = stamp(NOW - timedelta(seconds=29))
    assert told == PutStatus(RUNNING | {"conditions": [SCHEDULED, ready]})
    known = chaperon(told.status, restartPolicy=policy)
    assert outcome(known, ends(29, 30)) == [LookAgain(61.0)]
    assert outcome(known, ends(90, 30))[0] == noted_as_ending()
    completed = {"type": "Ready", "status": "False", "reason": "PodCompleted"}
    over = RUNNING | {"phase": "Succeeded", "conditions": [completed]}
    assert outcome(known, ends(29, 30) | {"status": over})[1:] == [PutStatus(over)]


def test_a_pod_that_is_made_again_is_not_ending() -> None:
    gone = PatchChaperon({"metadata": {"annotations": {ENDING: None}}})
    assert outcome(chaperon(RUNNING, {ENDING: stamp(NOW)}), pod(RUNNING)) == [gone]


def test_a_container_to_debug_it_with_is_put_into_the_pod_unless_it_ran_in_one_before() -> None:
    entry = {"name": "debugger", "image": "busybox"}
    meant = {names.ANNOTATION_LIVE_CHANGES: msgspec.json.encode({"ephemeralContainers": [entry]}).decode()}
    fresh = pod(RUNNING) | {"spec": {"containers": []}}
    patch = PatchPod({"spec": {"ephemeralContainers": [entry]}}, "ephemeralcontainers")
    assert outcome(chaperon(RUNNING, meant), fresh) == [patch]
    ended = {"name": "debugger", "state": {"terminated": {"exitCode": 0}}}
    assert outcome(chaperon(RUNNING | {"ephemeralContainerStatuses": [ended]}, meant), fresh) == []


def test_a_pod_of_an_earlier_version_gets_the_labels_of_ours_that_it_lacks() -> None:
    owner = chaperon(RUNNING, {delegates.ANNOTATION_NEW_LABELS: ""})
    owner["metadata"]["labels"] = {names.LABEL_SERVING: "true", "a": "b"}
    patch = PatchPod({"metadata": {"labels": {names.LABEL_SERVING: "true"}}})
    found = pod(RUNNING) | {"spec": {}}
    assert outcome(owner, found) == [patch]
    found["metadata"]["labels"] = {names.LABEL_SERVING: "true"}
    assert outcome(owner, found) == [
        PatchChaperon({"metadata": {"annotations": {delegates.ANNOTATION_NEW_LABELS: None}}})
    ]


def test_the_pods_status_is_told_whole() -> None:
    before = RUNNING | {"reason": "old"}
    now = RUNNING | {"podIP": "10.0.0.2"}
    assert outcome(chaperon(before), pod(now)) == [PutStatus(now)]


def test_what_is_in_line_is_not_written() -> None:
    assert outcome(chaperon(RUNNING, {"a": "b"}), pod(RUNNING, {"a": "b"})) == []


def test_a_pod_that_was_only_created_is_no_news() -> None:
    assert outcome(chaperon(), pod({"phase": "Pending", "qosClass": "BestEffort"})) == []


@pytest.mark.parametrize("reason", ["Unschedulable", "SchedulingGated"])
def test_why_a_pod_has_no_node_is_told(reason: str) -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": reason}
    status = {"phase": "Pending", "conditions": [condition]}
    assert outcome(chaperon(), pod(status)) == [PutStatus(status)]


def test_the_pods_own_annotations_replace_the_chaperons_and_the_wires_stay() -> None:
    ours = {names.ANNOTATION_IS_ALLOWED: "true", names.PREFIX + "x": "1", "multicluster/y": "2"}
    actions = outcome(
        chaperon(RUNNING, ours | {"gone": "1", "same": "1"}),
        pod(RUNNING, {"same": "1", "cni": "10.0.0.1", names.PREFIX + "z": "3", "multicluster/z": "3"}),
    )
    assert actions == [PatchChaperon({"metadata": {"annotations": {"gone": None, "cni": "10.0.0.1"}}})]


def test_a_chaperon_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    going = chaperon()
    going["metadata"]["deletionTimestamp"] = stamp(NOW)
    assert outcome(going) == []
    assert outcome(going, pod(RUNNING)) == []


ONCE = [("Never", "Succeeded"), ("Never", "Failed"), ("OnFailure", "Succeeded"), ("OnFailure", "Failed")]


@pytest.mark.parametrize(("policy", "phase"), ONCE)
class TestHowAPodEndedThatIsNotStartedAgain:
    def test_is_told_while_it_goes_with_its_chaperon(self, policy: str, phase: str) -> None:
        going = chaperon(RUNNING, restartPolicy=policy)
        going["metadata"]["deletionTimestamp"] = stamp(NOW)
        over = RUNNING | {"phase": phase}
        assert outcome(going, pod(over)) == [PutStatus(over)]
        assert decide(ChaperonAndPod(going, None, 60.0, last=pod(over)), NOW) == [PutStatus(over)]
        assert outcome(going | {"status": over}, pod(over)) == []
        assert outcome(going, pod(RUNNING | {"podIP": "10.0.0.9"})) == [], "only the end is worth a write"
        assert outcome(going, pod(over, owner="somebody")) == []

    @pytest.mark.parametrize("told", [RUNNING, {}], ids=["ran", "had told nothing"])
    def test_is_told_when_it_is_gone_by_then(self, policy: str, phase: str, told: dict[str, Any]) -> None:
        over = RUNNING | {"phase": phase}
        view = ChaperonAndPod(chaperon(told, restartPolicy=policy), None, 60.0, last=pod(over))
        assert decide(view, NOW) == [PutStatus(over)]


def test_how_a_pod_ended_that_is_started_again_is_not_worth_a_write_when_it_goes() -> None:
    over = pod(RUNNING | {"phase": "Succeeded"})
    going = chaperon(RUNNING)
    going["metadata"]["deletionTimestamp"] = stamp(NOW)
    assert outcome(going, over) == []
    (lost,) = decide(ChaperonAndPod(chaperon(RUNNING), None, 60.0, last=over), NOW)
    assert isinstance(lost, PatchChaperon)
    assert lost.patch["metadata"]["annotations"] == {SINCE: stamp(NOW)}


JUST_BOUND = {"phase": "Pending", "conditions": [SCHEDULED]}


@pytest.mark.parametrize(
    ("told", "status", "waits"),
    [
        ({}, JUST_BOUND, True),
        (JUST_BOUND, JUST_BOUND, False),
        ({}, RUNNING, False),
        ({}, JUST_BOUND | {"containerStatuses": [{"name": "main"}]}, False),
        ({}, {"phase": "Pending"}, False),
        ({}, {"phase": "Pending", "conditions": [SCHEDULED | {"status": "False"}]}, False),
        ({}, None, False),
    ],
    ids=[
        "it has just been given a node",
        "that was told already",
        "it runs",
        "its containers have a state",
        "it has no node",
        "it was refused a node",
        "there is no pod",
    ],
)
def test_only_the_news_of_a_node_waits_for_the_start(
    told: dict[str, Any], status: dict[str, Any] | None, waits: bool
) -> None:
    assert is_news(chaperon(told), pod(status) if status else None) is waits


def test_while_news_waits_everything_else_goes_on() -> None:
    meant = {names.ANNOTATION_LIVE_CHANGES: '{"labels":{"tier":"2"}}'}
    delegate = pod(JUST_BOUND, {"cni": "ip"}) | {"spec": {"containers": []}}
    actions = decide(ChaperonAndPod(chaperon({}, meant), delegate, 60.0, silence=3.0), NOW)
    assert actions == [
        PatchPod({"metadata": {"labels": {"tier": "2"}}}),
        PatchChaperon({"metadata": {"annotations": {"cni": "ip"}}}),
        LookAgain(3.0),
    ]


def test_a_foreign_pod_is_reported_though_news_would_wait() -> None:
    (found,) = decide(ChaperonAndPod(chaperon(), pod(JUST_BOUND, owner="another"), 60.0, silence=3.0), NOW)
    assert isinstance(found, Foreign)


def test_a_delegate_made_again_goes_on_counting_restarts_where_the_lost_one_ended() -> None:
    lost = RUNNING | {"containerStatuses": [{"name": "c", "restartCount": 2}]}
    noted, made = outcome(chaperon(lost, ago(100)))
    assert noted == PatchChaperon({"metadata": {"annotations": {delegates.ANNOTATION_RESTARTS: '{"c":3}'}}})
    assert made == CreatePod()
    fresh = RUNNING | {"containerStatuses": [{"name": "c", "restartCount": 1}]}
    annotations = {delegates.ANNOTATION_RESTARTS: '{"c":3}'}
    assert outcome(chaperon(lost, annotations), pod(fresh)) == [
        PutStatus(RUNNING | {"containerStatuses": [{"name": "c", "restartCount": 4}]})
    ]


def test_restarts_that_were_noted_before_a_crash_are_not_noted_twice() -> None:
    lost = RUNNING | {"containerStatuses": [{"name": "c", "restartCount": 2}]}
    assert outcome(chaperon(lost, ago(100) | {delegates.ANNOTATION_RESTARTS: '{"c":3}'})) == [CreatePod()]


STRICT = Rule("Source team/cd", read({"privileged": False, "imagePrefixes": ["docker.io/library"]}))
ALLOWED, OUTSIDE = ({"name": "main", "image": f"docker.io/{path}"} for path in ("library/nginx", "evil/nginx"))


def within(rules: tuple[Rule, ...] | None, chaperon: dict[str, Any], pod: dict[str, Any] | None = None) -> list[Any]:
    return decide(ChaperonAndPod(chaperon, pod, 60.0, rules=rules), NOW)


def changed(image: str) -> dict[str, Any]:
    said = {"images": {"main": image}, "labels": {"a": "b"}}
    found = chaperon(RUNNING, {names.ANNOTATION_LIVE_CHANGES: msgspec.json.encode(said).decode()})
    return found


def test_no_pod_is_made_before_the_policies_are_known() -> None:
    (pause,) = within(None, chaperon(containers=[ALLOWED]))
    assert isinstance(pause, LookAgain)


def test_a_pod_is_made_when_every_policy_allows_it() -> None:
    assert within((STRICT,), chaperon(containers=[ALLOWED])) == [CreatePod()]


@pytest.mark.parametrize("missing", [{}, ago(61)])
def test_a_pod_that_a_policy_does_not_allow_is_not_made_also_not_again(missing: dict[str, str]) -> None:
    lost = chaperon(RUNNING if missing else None, missing, containers=[OUTSIDE])
    (refusal,) = within((Rule("Source team/us", read({})), STRICT), lost)
    assert isinstance(refusal, Refuse)
    assert refusal.by == "Source team/cd"
    assert "spec.policy.imagePrefixes" in refusal.message
    conditions = refused(refusal.message, refusal.by)["conditions"]
    assert [(each["type"], each["reason"]) for each in conditions] == [
        ("PodScheduled", "Refused"),
        ("multicluster/WithinPolicy", "Refused"),
    ]


def test_a_pod_that_runs_stays_when_a_policy_becomes_stricter() -> None:
    assert within((STRICT,), chaperon(RUNNING, containers=[OUTSIDE]), pod(RUNNING)) == []


def test_a_changed_image_reaches_the_pod_only_within_the_policy() -> None:
    running = {**pod(RUNNING), "spec": {"containers": [ALLOWED]}}
    (patch,) = within((STRICT,), changed("docker.io/library/nginx:2"), running)
    assert isinstance(patch, PatchPod)
    (refusal,) = within((STRICT,), changed("docker.io/evil/nginx"), running)
    assert isinstance(refusal, RefuseChange)
    assert "docker.io/evil/nginx" in refusal.message
    (pause,) = within(None, changed("docker.io/evil/nginx"), running)
    assert isinstance(pause, LookAgain)


def test_a_container_to_debug_with_is_added_only_within_the_policy() -> None:
    debug = {**ALLOWED, "name": "debug", "securityContext": {"privileged": True}}
    said = {names.ANNOTATION_LIVE_CHANGES: msgspec.json.encode({"ephemeralContainers": [debug]}).decode()}
    running = {**pod(RUNNING), "spec": {"containers": [ALLOWED]}}
    (refusal,) = within((STRICT,), chaperon(RUNNING, said), running)
    assert isinstance(refusal, RefuseChange)
    assert "container debug is privileged" in refusal.message


def test_a_chaperon_without_a_spec_is_refused() -> None:
    empty = {**chaperon(), "spec": None}
    (refusal,) = outcome(empty)
    assert isinstance(refusal, Refuse)
    assert refused(refusal.message, refusal.by)["conditions"] == [refused(refusal.message)["conditions"][0]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
    max_leaves=6,
)
SPEC_FIELDS = ("containers", "initContainers", "ephemeralContainers", "volumes", "restartPolicy", "nodeName", "x")
KEYS = (
    *(
        names.ANNOTATION_LIVE_CHANGES,
        delegates.ANNOTATION_RESTARTS,
        names.ANNOTATION_HOLD,
        names.ANNOTATION_IS_RESERVED,
    ),
    *(names.ANNOTATION_POD_MISSING_SINCE, names.ANNOTATION_POD_MADE, names.ANNOTATION_POD_ENDING, "a"),
)


@settings(max_examples=examples(500))
@given(
    st.none() | st.dictionaries(st.sampled_from(SPEC_FIELDS), JSON),
    st.dictionaries(
        st.sampled_from(KEYS), st.text(max_size=10) | JSON.map(lambda said: msgspec.json.encode(said).decode())
    ),
    st.sampled_from([None, RUNNING]),
    st.booleans(),
)
def test_whatever_a_source_writes_into_a_chaperon_there_is_something_to_do_or_nothing(
    spec: Any, annotations: dict[str, str], status: dict[str, Any] | None, there: bool
) -> None:
    hostile = {**chaperon(status, annotations), "spec": spec}
    found = {**pod(RUNNING), "spec": {"containers": [ALLOWED]}} if there else None
    assert isinstance(within((STRICT,), hostile, found), list)


def test_the_status_is_told_without_annotations_that_do_not_fit() -> None:
    annotations = {"big": "x" * 150_000, "bigger": "x" * 160_000, "small": "1"}
    left, patched, put = outcome(chaperon(annotations=ago(1)), pod(RUNNING, annotations))
    assert isinstance(left, LeaveOut)
    assert "do not come home: bigger: " in left.message
    assert patched == PatchChaperon(
        {"metadata": {"annotations": {SINCE: None, "big": annotations["big"], "small": "1"}}}
    )
    assert put == PutStatus(RUNNING)
    both = {"big": annotations["big"], "small": "1"}
    assert outcome(chaperon(RUNNING, both), pod(RUNNING, annotations)) == [left]


def test_behind_a_fence_no_pod_is_made_and_once_it_has_fallen_never_again() -> None:
    for status, since in (({}, {}), (RUNNING, ago(61))):
        found = decide(ChaperonAndPod(chaperon(status, since), None, 60.0, bar="now"), NOW)
        assert [type(each) for each in found] == [LookAgain]
    assert decide(ChaperonAndPod(chaperon({}), None, 60.0, bar="ever"), NOW) == [
        PatchChaperon({"metadata": {"annotations": {SINCE: stamp(NOW)}}}, if_missing=True)
    ]
    found = decide(ChaperonAndPod(chaperon(RUNNING, ago(61)), None, 60.0, bar="ever"), NOW)
    assert [type(each) for each in found] == [LookAgain]


def test_a_fence_keeps_no_pod_from_telling_how_it_fares() -> None:
    assert decide(ChaperonAndPod(chaperon(), pod(RUNNING), 60.0, bar="ever"), NOW) == outcome(chaperon(), pod(RUNNING))
