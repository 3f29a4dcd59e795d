"""Feedback (wire contract, 5), with rulings 1, 4, 5 and 6."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.conditions import find_condition
from agent.api.names import links
from agent.model.podranges import PodRanges, of
from agent.model.terminating import REASON
from agent.pods.feedback.decide import CONDITION, decide, home_patch
from agent.pods.feedback.view import (
    ENDING,
    GONE,
    MAY_HAVE_RUN,
    Action,
    DeleteChaperon,
    DeleteProxy,
    Ending,
    EndProxy,
    PatchProxy,
    ProxyAndDelegates,
    ReleaseProxy,
    ShortenGrace,
    TargetChaperon,
    Withdraw,
)

EU, US, AP = (names.PREFIX + f"default-{name}" for name in ("eu", "us", "ap"))
RUNNING = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


def proxy(
    finalizers: tuple[str, ...] = (EU,),
    node: str = "admiralty-default-eu",
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "P",
            "resourceVersion": "5",
            "finalizers": list(finalizers),
            "annotations": annotations or {},
            **metadata,
        },
        "spec": {"containers": [{"name": "main"}]} | ({"nodeName": node} if node else {}),
        "status": status or {},
    }


def delegate(
    finalizer: str = EU,
    parent: str = "P",
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    cluster: str | None = "here",
    **metadata: Any,
) -> TargetChaperon:
    labels = {names.LABEL_PARENT_UID: parent}
    if cluster is not None:
        labels[names.LABEL_PARENT_CLUSTER_UID] = cluster
    identity = {"name": "web-1", "uid": f"C-{finalizer}", "labels": labels, "annotations": annotations or {}}
    return TargetChaperon(finalizer, {"metadata": identity | metadata, "status": RUNNING if status is None else status})


def once(policy: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Return the proxy pod with this restart policy."""
    return pod | {"spec": {**pod["spec"], "restartPolicy": policy}}


def ended(phase: str = "Succeeded", policy: str = "Never", *marks: str, **metadata: Any) -> TargetChaperon:
    """Return a delegate that has ended, with annotations of the target on its chaperon."""
    found = delegate(status=RUNNING | {"phase": phase}, annotations=dict.fromkeys(marks, "x"), **metadata)
    return TargetChaperon(EU, found.chaperon | {"spec": {"restartPolicy": policy}})


def outcome(
    proxy: dict[str, Any] | None,
    *delegates: TargetChaperon,
    home: str = EU,
    settled: frozenset[str] = frozenset((EU, US, AP)),
    last: TargetChaperon | None = None,
    doubtful: frozenset[str] = frozenset(),
    lost: frozenset[str] = frozenset(),
) -> list[Action]:
    return decide(ProxyAndDelegates(proxy, delegates, home, settled, "here", last=last, doubtful=doubtful, lost=lost))


def phase_told(action: Action) -> str:
    """Return the phase that a patch writes to the proxy pod."""
    assert isinstance(action, PatchProxy)
    assert action.status
    assert action.last
    assert "finalizers" not in action.patch["metadata"]
    return str(action.patch["status"]["phase"])


def finalizers_after(actions: list[Action]) -> list[str] | None:
    for action in actions:
        if isinstance(action, PatchProxy) and "finalizers" in action.patch["metadata"]:
            return list(action.patch["metadata"]["finalizers"])
        if isinstance(action, ReleaseProxy):
            return action.finalizers
    return None


class TestAnOrphan:
    def test_without_a_proxy_pod_is_deleted(self) -> None:
        one, two = delegate(), delegate(US)
        assert outcome(None, one, two, home="") == [DeleteChaperon(one), DeleteChaperon(two)]

    def test_of_an_earlier_pod_of_the_same_name_is_deleted_and_the_present_one_is_not(self) -> None:
        old, new = delegate(US, parent="earlier"), delegate()
        assert DeleteChaperon(old) in (actions := outcome(proxy(status=RUNNING), old, new))
        assert DeleteChaperon(new) not in actions

    def test_of_another_cluster_of_the_same_name_is_left_alone(self) -> None:
        assert outcome(None, delegate(cluster="elsewhere"), home="") == []

    def test_that_does_not_say_which_cluster_made_it_is_left_alone(self) -> None:
        assert outcome(None, delegate(cluster=None), home="") == []

    def test_that_is_being_deleted_is_not_deleted_again(self) -> None:
        assert outcome(None, delegate(**DELETED), home="") == []


def test_a_living_pod_that_another_agent_has_bound_keeps_finalizers_of_targets_that_cannot_be_asked() -> None:
    bound = proxy((EU, US, AP))
    assert finalizers_after(outcome(bound, delegate(), settled=frozenset((EU, US)))) == [AP, EU]
    assert finalizers_after(outcome(bound, delegate())) == [EU]


class TestATerminatingProxyPod:
    def test_has_its_delegate_deleted_and_waits_for_it(self) -> None:
        here = delegate()
        assert outcome(proxy(**DELETED), here) == [DeleteChaperon(here)]

    def test_waits_while_its_delegate_ends(self) -> None:
        assert outcome(proxy(**DELETED), delegate(**DELETED)) == []

    def test_goes_when_its_delegate_is_gone_and_keeps_the_finalizers_of_others(self) -> None:
        actions = outcome(proxy(("other/keeps", EU), **DELETED))
        assert finalizers_after(actions) == ["other/keeps"]
        assert len(actions) == 1

    def test_that_others_hold_has_failed_when_its_delegate_is_gone_unless_it_had_ended(self) -> None:
        (action,) = outcome(proxy(("batch.kubernetes.io/job-tracking", EU), status=RUNNING, **DELETED))
        assert isinstance(action, ReleaseProxy)
        assert action.status["phase"] == "Failed"
        ended = proxy(("batch.kubernetes.io/job-tracking", EU), status={"phase": "Succeeded"}, **DELETED)
        for pod in (ended, proxy(status=RUNNING, **DELETED)):
            (action,) = outcome(pod)
            assert isinstance(action, ReleaseProxy)
            assert not action.status

    def test_waits_for_a_target_that_cannot_be_asked(self) -> None:
        assert outcome(proxy(**DELETED), settled=frozenset((US,))) == []

    def test_waits_for_no_target_of_which_a_person_says_that_it_is_lost_unless_it_answers(self) -> None:
        ending = proxy(**DELETED | {"deletionGracePeriodSeconds": 30})
        actions = outcome(ending, settled=frozenset((US,)), lost=frozenset((EU,)))
        assert finalizers_after(actions) == []
        assert EndProxy() in actions
        back = delegate()
        assert outcome(ending, back, lost=frozenset((EU,))) == [DeleteChaperon(back)]

    def test_waits_for_a_delegate_that_may_be_on_its_way(self) -> None:
        waiting = proxy((EU, US), **DELETED | {"deletionGracePeriodSeconds": 30})
        actions = outcome(waiting, doubtful=frozenset((EU,)))
        assert finalizers_after(actions) == [EU]
        assert EndProxy() not in actions

    def test_drops_at_once_the_finalizers_of_targets_that_never_were_its_home(self) -> None:
        claimed = proxy((EU, US, AP), annotations={names.ANNOTATION_CLAIM: "admiralty-default-eu"}, **DELETED)
        assert finalizers_after(outcome(claimed, settled=frozenset((US,)))) == [EU]

    def test_that_another_agent_has_bound_waits_for_every_target_that_cannot_be_asked(self) -> None:
        bound = proxy((EU, US, AP), **DELETED)
        assert finalizers_after(outcome(bound, home="", settled=frozenset((US,)))) == [EU, AP]
        assert finalizers_after(outcome(bound, settled=frozenset((EU, US)))) == [AP]

    def test_that_was_never_claimed_goes_at_once_even_if_every_target_is_away(self) -> None:
        unclaimed = proxy((EU, US), node="", **DELETED)
        assert finalizers_after(outcome(unclaimed, home="", settled=frozenset())) == []

    def test_that_another_agents_webhook_made_waits_for_every_target_that_cannot_be_asked(self) -> None:
        annotations = {names.ANNOTATION_MANIFEST: "apiVersion: v1\nkind: Pod\n"}
        unclaimed = proxy((EU, US), node="", annotations=annotations, **DELETED)
        assert outcome(unclaimed, home="", settled=frozenset()) == []
        assert finalizers_after(outcome(unclaimed, home="", settled=frozenset((US,)))) == [EU]

    def test_loses_delegates_wherever_they_are_whoever_they_say_made_them(self) -> None:
        here, there = delegate(cluster=None), delegate(US, cluster=None)
        actions = outcome(proxy((EU, US), **DELETED), here, there)
        assert actions == [DeleteChaperon(here), DeleteChaperon(there)]

    def test_with_a_grace_period_left_is_ended_because_no_kubelet_does_it(self) -> None:
        waiting = proxy(**DELETED | {"deletionGracePeriodSeconds": 30})
        assert EndProxy() not in outcome(waiting, delegate())
        assert outcome(waiting)[-1] == EndProxy()

    def test_that_no_node_was_given_needs_no_kubelet(self) -> None:
        waiting = proxy(node="", **DELETED | {"deletionGracePeriodSeconds": 30})
        assert EndProxy() not in outcome(waiting)

    def test_is_released_without_another_status(self) -> None:
        assert outcome(proxy(**DELETED)) == [ReleaseProxy([], {})]


class TestABoundProxyPod:
    def test_shows_the_status_of_its_delegate(self) -> None:
        (action,) = outcome(proxy(), delegate())
        assert isinstance(action, PatchProxy)
        assert action.status
        assert action.patch["status"] == RUNNING
        assert "finalizers" not in action.patch["metadata"]

    def test_that_shows_it_already_is_left_alone(self) -> None:
        assert outcome(proxy(status=RUNNING), delegate()) == []

    def test_shows_what_node_lifecycle_changed_as_it_really_is(self) -> None:
        (action,) = outcome(proxy(status=RUNNING | {"conditions": [{"type": "Ready", "status": "False"}]}), delegate())
        assert isinstance(action, PatchProxy)
        assert action.patch["status"] == {"conditions": RUNNING["conditions"]}

    def test_is_written_as_it_was_read_where_others_may_have_added_a_condition(self) -> None:
        (action,) = outcome(proxy(), delegate())
        (other,) = outcome(proxy(status=RUNNING | {"podIP": "10.0.0.9"}), delegate())
        assert isinstance(action, PatchProxy)
        assert isinstance(other, PatchProxy)
        assert action.patch["metadata"]["resourceVersion"] == "5"
        assert "resourceVersion" not in other.patch["metadata"]

    def test_keeps_what_is_its_own_in_the_status(self) -> None:
        mine = RUNNING | {"qosClass": "Guaranteed", "observedGeneration": 3}
        theirs = RUNNING | {"qosClass": "BestEffort", "observedGeneration": 9, "nominatedNodeName": "n"}
        assert outcome(proxy(status=mine), delegate(status=theirs)) == []

    def test_gets_the_delegates_annotations_and_keeps_its_own_in_the_same_write(self) -> None:
        (action,) = outcome(
            proxy(annotations={"mine": "1"}),
            delegate(annotations={"cni": "x", names.ANNOTATION_IS_ALLOWED: "true", "multicluster/claim": "x"}),
        )
        assert isinstance(action, PatchProxy)
        assert action.patch["metadata"]["annotations"] == {"cni": "x"}
        assert action.patch["status"] == RUNNING

    def test_keeps_only_the_finalizer_of_its_target_beside_those_of_others(self) -> None:
        actions = outcome(proxy(("other/keeps", US, EU)), delegate())
        assert finalizers_after(actions) == ["other/keeps", EU]
        assert actions[0].patch["metadata"]["resourceVersion"] == "5"  # type: ignore[union-attr]

    def test_that_lost_its_finalizer_gets_it_back(self) -> None:
        assert finalizers_after(outcome(proxy(()), delegate())) == [EU]

    def test_whose_delegate_is_gone_is_deleted(self) -> None:
        assert outcome(proxy(status=RUNNING)) == [DeleteProxy(GONE)]

    def test_whose_target_is_away_keeps_what_it_last_showed(self) -> None:
        assert outcome(proxy(status=RUNNING), settled=frozenset((US,))) == []

    def test_whose_chaperon_is_being_deleted_is_deleted_too_and_waits_for_it(self) -> None:
        assert outcome(proxy(status=RUNNING), delegate(**DELETED)) == [DeleteProxy(ENDING)]
        lost = delegate(annotations={names.ANNOTATION_POD_MISSING_SINCE: "2026-01-01T00:00:00Z"}, **DELETED)
        assert outcome(proxy(status=RUNNING), lost) == []

    @pytest.mark.parametrize("policy", ["Never", "OnFailure"])
    def test_whose_chaperon_is_being_deleted_and_that_may_end_well_is_not_ready(self, policy: str) -> None:
        pod = once(policy, proxy(status=RUNNING))
        (action,) = outcome(pod, delegate(**DELETED))
        assert isinstance(action, PatchProxy)
        (ready,) = action.patch["status"]["conditions"]
        assert (ready["status"], ready["reason"]) == ("False", REASON)
        assert outcome(pod | {"status": RUNNING | {"conditions": [ready]}}, delegate(**DELETED)) == []
        assert outcome(once(policy, proxy(status=RUNNING, **DELETED)), delegate(**DELETED)) == []

    def test_whose_delegate_is_missing_has_the_chaperon_deleted_before_it_makes_another(self) -> None:
        lost = delegate(annotations={names.ANNOTATION_POD_MISSING_SINCE: "2026-01-01T00:00:00Z"})
        assert outcome(proxy(status=RUNNING), lost) == [DeleteChaperon(lost)]

    def test_whose_delegate_somebody_deletes_is_deleted_too_and_waits_for_it(self) -> None:
        ends = delegate(annotations={names.ANNOTATION_POD_ENDING: "2026-01-01T00:00:00Z"})
        assert outcome(proxy(status=RUNNING), ends) == [DeleteProxy(ENDING)]
        assert finalizers_after(outcome(proxy(status=RUNNING, **DELETED), ends)) is None

    def test_loses_candidates_in_other_targets(self) -> None:
        stray = delegate(US)
        assert outcome(proxy(status=RUNNING), delegate(), stray) == [DeleteChaperon(stray)]

    @pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
    def test_whose_delegate_has_ended_says_so_and_stays(self, phase: str) -> None:
        ended = RUNNING | {"phase": phase}
        assert outcome(proxy(status=ended), delegate(status=ended)) == []

    def test_whose_delegate_has_told_nothing_yet_shows_its_own(self) -> None:
        assert outcome(proxy(status={"phase": "Pending"}), delegate(status={})) == []


class TestAProxyPodWithoutNode:
    def test_and_without_claim_is_the_schedulers_alone(self) -> None:
        assert outcome(proxy(node=""), delegate(), home="") == []

    def test_but_with_a_claim_loses_candidates_elsewhere_only(self) -> None:
        stray = delegate(US)
        assert outcome(proxy(node=""), delegate(), stray) == [DeleteChaperon(stray)]

    @pytest.mark.parametrize("home", [EU, ""], ids=["claimed", "in mode reserve"])
    def test_whose_candidate_lost_its_pod_in_the_target_has_it_deleted_to_get_another(self, home: str) -> None:
        lost = delegate(annotations={names.ANNOTATION_POD_MISSING_SINCE: "2026-01-01T00:00:00Z"})
        assert outcome(proxy(node=""), lost, home=home) == [DeleteChaperon(lost)]

    @pytest.mark.parametrize("home", [EU, ""], ids=["claimed", "in mode reserve"])
    def test_whose_delegate_is_lost_and_must_not_run_twice_is_deleted_rather_than_run_again(self, home: str) -> None:
        lost = lost_for_ever()
        assert outcome(proxy(node=""), lost, home=home) == [DeleteProxy(MAY_HAVE_RUN)]
        allowed = lost_for_ever(names.ANNOTATION_IS_ALLOWED, schedulerName=names.SCHEDULER_CANDIDATE)
        assert outcome(proxy(node=""), allowed, home=home) == [DeleteProxy(MAY_HAVE_RUN)]

    def test_whose_lost_candidate_had_no_leave_to_start_gets_another(self) -> None:
        candidate = lost_for_ever(schedulerName=names.SCHEDULER_CANDIDATE)
        assert outcome(proxy(node=""), candidate, home="") == [DeleteChaperon(candidate)]

    def test_is_not_deleted_for_having_no_chaperon_yet(self) -> None:
        assert outcome(proxy(node="")) == []


MARKS = (names.ANNOTATION_POD_MISSING_SINCE, names.ANNOTATION_POD_ENDING)
HELD = ("batch.kubernetes.io/job-tracking", EU)


@pytest.mark.parametrize("policy", ["Never", "OnFailure"])
@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
class TestWorkThatIsDone:
    @pytest.mark.parametrize("mark", MARKS)
    def test_comes_home_though_the_target_says_that_the_pod_is_gone_and_stays(
        self, phase: str, policy: str, mark: str
    ) -> None:
        here = ended(phase, policy, mark)
        (action,) = outcome(once(policy, proxy(status=RUNNING)), here)
        assert isinstance(action, PatchProxy)
        assert action.patch["status"] == {"phase": phase}
        assert outcome(once(policy, proxy(status=RUNNING | {"phase": phase})), here) == []

    def test_stays_though_its_chaperon_is_gone(self, phase: str, policy: str) -> None:
        assert outcome(once(policy, proxy(status=RUNNING | {"phase": phase}))) == []

    def test_comes_home_from_a_chaperon_that_is_gone(self, phase: str, policy: str) -> None:
        (action,) = outcome(once(policy, proxy(status=RUNNING)), last=ended(phase, policy))
        assert phase_told(action) == phase

    def test_comes_home_from_a_chaperon_that_is_being_deleted(self, phase: str, policy: str) -> None:
        (action,) = outcome(once(policy, proxy(status=RUNNING)), ended(phase, policy, **DELETED))
        assert phase_told(action) == phase

    @pytest.mark.parametrize("mark", MARKS)
    def test_is_not_done_again_for_a_pod_that_is_not_bound_yet(self, phase: str, policy: str, mark: str) -> None:
        unbound = once(policy, proxy(node=""))
        assert outcome(unbound, ended(phase, policy, mark)) == []
        assert outcome(unbound, ended(phase, policy, mark), home="") == []

    def test_comes_home_before_a_deleted_pod_has_its_delegate_deleted(self, phase: str, policy: str) -> None:
        here = ended(phase, policy)
        told, deleted = outcome(once(policy, proxy(status=RUNNING, **DELETED)), here)
        assert phase_told(told) == phase
        assert deleted == DeleteChaperon(here)

    def test_comes_home_while_the_delegate_goes_and_before_the_pod_does(self, phase: str, policy: str) -> None:
        waits = once(policy, proxy(status=RUNNING, **DELETED))
        (told,) = outcome(waits, ended(phase, policy, **DELETED))
        assert phase_told(told) == phase
        (told,) = outcome(waits, last=ended(phase, policy))
        assert phase_told(told) == phase
        tells = once(policy, proxy(status=RUNNING | {"phase": phase}, **DELETED))
        assert finalizers_after(outcome(tells, last=ended(phase, policy))) == []

    def test_of_a_pod_that_others_hold_is_what_it_was_and_not_that_its_delegate_is_gone(
        self, phase: str, policy: str
    ) -> None:
        tells = once(policy, proxy(HELD, status=RUNNING | {"phase": phase}, **DELETED))
        assert outcome(tells) == [ReleaseProxy(["batch.kubernetes.io/job-tracking"], {})]


@pytest.mark.parametrize(("mark", "then"), [(MARKS[0], DeleteChaperon), (MARKS[1], DeleteProxy)])
def test_how_a_pod_ended_that_is_started_again_comes_home_before_it_is_given_up(mark: str, then: type[Action]) -> None:
    here = ended("Failed", "Always", mark)
    told, gives_up = outcome(proxy(status=RUNNING), here)
    assert phase_told(told) == "Failed"
    assert isinstance(gives_up, then)
    (gives_up,) = outcome(proxy(status=RUNNING | {"phase": "Failed"}), here)
    assert isinstance(gives_up, then)


class TestAPodThatIsStartedAgainWhateverHappens:
    def test_is_let_go_without_a_word_more(self) -> None:
        here = ended("Succeeded", "Always", **DELETED)
        assert outcome(proxy(status=RUNNING, **DELETED), here) == []
        assert finalizers_after(outcome(proxy(status=RUNNING, **DELETED), last=here)) == []
        assert outcome(proxy(status=RUNNING), last=here) == [DeleteProxy(GONE)]

    def test_tells_how_it_ended_while_others_hold_it(self) -> None:
        (told,) = outcome(proxy(HELD, status=RUNNING, **DELETED), ended("Succeeded", "Always", **DELETED))
        assert phase_told(told) == "Succeeded"


def test_exit_codes_come_home_while_a_pod_that_may_be_done_is_let_go() -> None:
    codes = [{"name": "main", "state": {"terminated": {"exitCode": 3}}}]
    here = delegate(status=RUNNING | {"containerStatuses": codes}, **DELETED)
    (told,) = outcome(once("Never", proxy(status=RUNNING, **DELETED)), here)
    assert isinstance(told, PatchProxy)
    assert told.patch["status"] == {"containerStatuses": [{**codes[0], "restartCount": 0}]}


def test_a_pod_that_is_let_go_and_has_ended_never_runs_again() -> None:
    failed = once("Never", proxy(status={"phase": "Failed"}, **DELETED))
    assert outcome(failed, delegate(**DELETED)) == []


class TestOfAPodThatHasFailedWithItsTarget:
    """Its Job has created another pod: the target's later status is ignored, and the delegate is deleted."""

    given_up = once("Never", proxy(status={"conditions": [{"type": "DisruptionTarget", "reason": "TargetLost"}]}))
    given_up["status"] |= {"phase": "Failed", "reason": "TargetLost"}

    @pytest.mark.parametrize("theirs", [delegate(), ended(), ended("Failed")], ids=["runs", "succeeded", "failed"])
    def test_the_delegate_is_deleted_and_the_pod_stays_failed(self, theirs: TargetChaperon) -> None:
        assert outcome(self.given_up, theirs) == [DeleteChaperon(theirs)]
        gone = replace(theirs, chaperon={**theirs.chaperon, "metadata": theirs.chaperon["metadata"] | DELETED})
        assert outcome(self.given_up, gone) == []

    def test_nothing_is_done_while_the_target_is_away_or_when_its_delegate_is_gone(self) -> None:
        assert outcome(self.given_up, settled=frozenset()) == []
        assert outcome(self.given_up, last=ended()) == []

    def test_it_goes_when_it_is_deleted_as_any_other_does(self) -> None:
        deleted = {**self.given_up, "metadata": self.given_up["metadata"] | DELETED}
        assert outcome(deleted, ended()) == [DeleteChaperon(ended())]
        assert finalizers_after(outcome(deleted, last=ended())) == []
        assert finalizers_after(outcome(deleted, settled=frozenset(), lost=frozenset({EU}))) == []


def lost_for_ever(*annotations: str, **spec: Any) -> TargetChaperon:
    """Return a delegate that existed, must not run twice, and is missing."""
    told = dict.fromkeys((names.ANNOTATION_POD_MISSING_SINCE, names.ANNOTATION_POD_MADE, *annotations), "true")
    found = delegate(annotations=told)
    return replace(found, chaperon=found.chaperon | {"spec": {"restartPolicy": "Never", **spec}})


targets = st.sampled_from([EU, US, AP])
delegates = st.builds(
    delegate,
    targets,
    parent=st.sampled_from(["P", "earlier"]),
    cluster=st.sampled_from(["here", "elsewhere", None]),
)


@given(
    st.sets(targets),
    st.sampled_from(["", "admiralty-default-eu"]),
    st.booleans(),
    st.lists(delegates, max_size=3, unique_by=lambda one: one.finalizer),
    st.sampled_from(["", EU]),
    st.sets(targets),
)
def test_a_proxy_pod_never_goes_before_a_delegate_that_is_known_or_may_exist(
    finalizers: set[str], node: str, deleted: bool, found: list[TargetChaperon], home: str, settled: set[str]
) -> None:
    found = [one for one in found if one.finalizer in settled]
    pod = proxy(tuple(sorted(finalizers)), node, status=RUNNING, **(DELETED if deleted else {}))
    actions = outcome(pod, *found, home=home, settled=frozenset(settled))
    kept = finalizers_after(actions)
    if kept is not None and deleted:
        assert {one.finalizer for one in found if one.parent_uid == "P"} & finalizers <= set(kept)
        assert home in settled or home not in finalizers or home in kept
    if DeleteProxy(GONE) in actions:
        assert home in settled
        assert not any(one.finalizer == home and one.parent_uid == "P" for one in found)
    for action in actions:
        if isinstance(action, DeleteChaperon) and action.delegate.parent_uid != "P":
            assert action.delegate.chaperon["metadata"]["labels"][names.LABEL_PARENT_CLUSTER_UID] == "here"


def test_of_a_target_with_ranges_neither_pod_ips_nor_annotations_bring_other_addresses() -> None:
    annotations = {"cni.projectcalico.org/podIP": "10.0.0.1/32", "cni.projectcalico.org/containerID": "x"}
    free = delegate(annotations=annotations)
    bound = replace(free, ranges=of({"spec": {"podCIDRs": ["10.9.0.0/16"]}}))
    assert home_patch(proxy(), free)["metadata"]["annotations"] == annotations
    patch = home_patch(proxy(), bound)
    assert patch["metadata"]["annotations"] == {"cni.projectcalico.org/containerID": "x"}
    assert "podIP" not in patch["status"]
    assert patch["status"]["phase"] == "Running"


def test_addresses_that_lead_to_strangers_are_told_in_an_annotation_until_they_do_not() -> None:
    free = delegate()
    strange = replace(free, ranges=PodRanges(None, links.OVERLAP))
    patch = home_patch(proxy(), strange)
    assert patch["metadata"]["annotations"] == {links.ANNOTATION_POD_IPS: "10.0.0.1"}
    assert "podIP" not in patch["status"]
    left_out = find_condition(patch["status"]["conditions"], "multicluster/PodIPsAllowed")
    assert left_out is not None
    assert left_out["reason"] == links.OVERLAP
    settled = proxy(annotations={links.ANNOTATION_POD_IPS: "10.0.0.1"}, status=patch["status"])
    assert home_patch(settled, strange) == {}
    back = home_patch(settled, free)
    assert back["metadata"]["annotations"] == {links.ANNOTATION_POD_IPS: None}
    assert back["status"]["podIP"] == "10.0.0.1"
    assert [each["type"] for each in back["status"]["conditions"]] == ["Ready"]


def come_home(annotations: dict[str, str], found: dict[str, Any]) -> dict[str, Any] | None:
    """Return the patch that copies annotations to the proxy pod; None if there is none."""
    actions = decide(ProxyAndDelegates(found, (delegate(annotations=annotations),), EU, frozenset({EU}), "here"))
    if not actions:
        return None
    (action,) = actions
    assert isinstance(action, PatchProxy)
    assert action.status
    return action.patch


def test_the_status_comes_home_without_annotations_that_do_not_fit_and_says_which() -> None:
    told = {"big": "x" * 150_000, "bigger": "x" * 160_000, "small": "1", "No/Key At All": "1"}
    patch = come_home(told, proxy(annotations={"mine": "x" * 80_000}))
    assert patch is not None
    assert patch["metadata"]["annotations"] == {"big": told["big"], "small": "1"}
    assert patch["status"]["phase"] == "Running"
    condition = find_condition(patch["status"]["conditions"], CONDITION) or {}
    assert (condition["status"], condition["reason"]) == ("False", "LeftOut")
    assert "do not come home: No/Key At All, bigger: " in condition["message"]

    # With these fields on the proxy pod no write remains, whatever other fields API servers add.
    stored = [{**each, "lastTransitionTime": None} for each in patch["status"]["conditions"]]
    now = proxy(
        annotations={"mine": "x" * 80_000, "big": told["big"], "small": "1"}, status={**RUNNING, "conditions": stored}
    )
    assert come_home(told, now) is None
    mended = come_home({**told, "bigger": "1", "No/Key At All": "1"}, now)
    assert mended is not None
    assert mended["metadata"]["annotations"] == {"bigger": "1"}
    del told["No/Key At All"]
    mended = come_home({**told, "bigger": "1"}, now)
    assert mended is not None
    assert find_condition(mended["status"]["conditions"], CONDITION) is None


def serving(**metadata: Any) -> TargetChaperon:
    """Return a local delegate that Services route to."""
    found = delegate()
    chaperon = {**found.chaperon, "metadata": {**found.chaperon["metadata"], **metadata}}
    return replace(found, chaperon=chaperon)


WITHDRAWN = {"annotations": {names.ANNOTATION_LIVE_CHANGES: f'{{"labels":{{"{names.LABEL_SERVING}":null}}}}'}}
GOING = {"deletionTimestamp": "2026-01-01T00:00:05Z"}


@pytest.mark.parametrize(
    ("here", "ending", "wanted"),
    [
        (serving(), Ending(1.0, 24), [Withdraw]),
        (serving(**WITHDRAWN), Ending(1.0), []),
        (serving(**WITHDRAWN), Ending(0.0), [DeleteChaperon]),
        (serving(**WITHDRAWN), Ending(0.0, 20), [ShortenGrace, DeleteChaperon]),
        (serving(), Ending(0.0, 3), [ShortenGrace, DeleteChaperon]),
        (serving(**GOING), Ending(0.0, 1), [ShortenGrace]),
        (serving(**GOING), Ending(0.0), []),
    ],
    ids=[
        "Services route to it",
        "withdrawn",
        "withdrawn for long enough",
        "and a cluster took long",
        "a short deletion",
        "a second deletion",
        "it ends",
    ],
)
def test_the_end_of_a_delegate_that_serves(here: TargetChaperon, ending: Ending, wanted: list[type[Action]]) -> None:
    view = ProxyAndDelegates(
        proxy=proxy(**DELETED, status=RUNNING),
        delegates=(here, replace(here, finalizer=US)),
        home=EU,
        settled=frozenset((EU, US)),
        cluster_uid="HERE",
        ending=ending,
    )
    found = [action for action in decide(view) if isinstance(action, Withdraw | ShortenGrace | DeleteChaperon)]
    assert [type(action) for action in found if action.delegate is here] == wanted
    twin = [action for action in found if action.delegate is not here]
    assert bool(twin) is (DeleteChaperon in wanted), "another Target of the same cluster shows the same chaperon"
