import copy
from typing import Any

import pytest

from agent.api import names
from agent.model.delegate_annotations import USUAL, Homecoming
from agent.model.diff import merge_patch
from agent.model.podconditions import Followed
from agent.model.podranges import ANYWHERE, of
from agent.model.proxypod import proxy_pod
from agent.model.status import annotations_home, proxy_status, with_ended
from tests.model.pods import P, pod


def container(name: str, restarts: int = 0, **rest: Any) -> dict[str, Any]:
    return {"name": name, "restartCount": restarts, "ready": True, **rest}


def proxy(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "main"}], **spec},
        "status": status if status is not None else {"phase": "Pending", "qosClass": "BestEffort"},
    }


RUNNING: dict[str, Any] = {
    "phase": "Running",
    "qosClass": "Burstable",
    "observedGeneration": 7,
    "podIP": "10.1.0.5",
    "podIPs": [{"ip": "10.1.0.5"}],
    "hostIP": "10.0.0.1",
    "startTime": "2026-01-01T00:00:00Z",
    "message": "m",
    "reason": "r",
    "fieldOfTomorrow": {"x": 1},
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [container("main")],
}


def test_all_of_the_delegates_status_comes_home_but_what_is_about_its_own_spec() -> None:
    want = {key: value for key, value in RUNNING.items() if key != "observedGeneration"}
    assert proxy_status(proxy(), RUNNING) == {**want, "qosClass": "BestEffort"}


def test_the_proxy_keeps_its_own_claim_statuses_and_gets_none_of_the_delegates() -> None:
    own = {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "mine"}], "observedGeneration": 2}
    home = {"phase": "Running", "resourceClaimStatuses": [{"name": "b"}], "extendedResourceClaimStatus": {"x": 1}}
    assert proxy_status(proxy(own), home) == {"phase": "Running", **own}


def test_a_node_nominated_in_the_target_stays_there() -> None:
    assert "nominatedNodeName" not in proxy_status(proxy(), {"phase": "Pending", "nominatedNodeName": "n"})


def test_a_field_that_the_delegate_lost_is_lost_on_the_proxy() -> None:
    assert "message" not in proxy_status(proxy({"message": "old"}), {"phase": "Running"})


def test_a_delegate_without_status_leaves_the_proxys_alone() -> None:
    mine = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    assert proxy_status(proxy(mine), {}) == mine


def test_what_is_empty_is_left_out_as_the_api_server_leaves_it_out() -> None:
    assert proxy_status(proxy({}), {"phase": "Pending", "conditions": [], "containerStatuses": []}) == {
        "phase": "Pending"
    }


def test_statuses_of_containers_that_the_target_injected_stay_there() -> None:
    status = {
        "containerStatuses": [container("main"), container("mesh")],
        "initContainerStatuses": [container("init"), container("mesh-init")],
        "ephemeralContainerStatuses": [container("debug")],
    }
    home = proxy_status(proxy(initContainers=[{"name": "init"}]), status)
    assert home["containerStatuses"] == [container("main")]
    assert home["initContainerStatuses"] == [container("init")]
    assert "ephemeralContainerStatuses" not in home


def test_a_container_that_debugged_an_earlier_delegate_has_ended_with_it() -> None:
    runs, ended = {"running": {"startedAt": "then"}}, {"terminated": {"exitCode": 3}}
    before = {"ephemeralContainerStatuses": [container("one", state=runs), container("two", state=ended)]}
    pod = {"spec": {"ephemeralContainers": [{"name": "three"}]}}
    now = {"phase": "Running", "ephemeralContainerStatuses": [container("three", state=runs)]}
    one, two, three = with_ended(now, pod, before)["ephemeralContainerStatuses"]
    assert (two, three) == (container("two", state=ended), container("three", state=runs))
    assert (one["ready"], one["state"]["terminated"]["exitCode"]) == (False, 137)
    told = with_ended(now, pod, before)
    assert with_ended(now, pod, told) == told


def test_a_container_that_debugs_the_delegate_is_told_as_its_kubelet_tells_it() -> None:
    before = {"ephemeralContainerStatuses": [container("one", state={"running": {}})]}
    now = {"ephemeralContainerStatuses": [container("one", state={"terminated": {"exitCode": 0}})]}
    assert with_ended(now, {"spec": {"ephemeralContainers": [{"name": "one"}]}}, before) == now


def test_restart_counts_are_never_lowered_when_a_delegate_was_made_anew() -> None:
    before = {"containerStatuses": [container("main", 5)]}
    assert proxy_status(proxy(before), {"containerStatuses": [container("main", 0)]})["containerStatuses"] == [
        container("main", 5)
    ]
    assert proxy_status(proxy(before), {"containerStatuses": [container("main", 6)]})["containerStatuses"] == [
        container("main", 6)
    ]


def test_conditions_about_the_proxy_stay_and_the_delegates_replace_the_others() -> None:
    mine = {"type": P + "Scheduled", "status": "True"}
    before = {"conditions": [mine, {"type": "Ready", "status": "False"}, {"type": "Initialized", "status": "True"}]}
    news = [{"type": "Ready", "status": "True"}, {"type": P + "Scheduled", "status": "False"}]
    assert proxy_status(proxy(before), {"conditions": news})["conditions"] == [
        {"type": "Ready", "status": "True"},
        mine,
    ]


def test_that_a_proxy_is_being_evicted_stays_said_unless_its_delegate_is() -> None:
    here = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    there = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
    ready = {"type": "Ready", "status": "True"}
    assert proxy_status(proxy({"conditions": [here]}), {"conditions": [ready]})["conditions"] == [ready, here]
    assert proxy_status(proxy({"conditions": [here]}), {"conditions": [there]})["conditions"] == [there]


def test_conditions_keep_the_generation_that_the_api_server_would_not_let_go() -> None:
    before = {"conditions": [{"type": "Ready", "status": "False", "observedGeneration": 1}]}
    news = [
        {"type": "Ready", "status": "True", "observedGeneration": 9},
        {"type": "PodScheduled", "status": "True", "observedGeneration": 9},
    ]
    assert proxy_status(proxy(before), {"conditions": news})["conditions"] == [
        {"type": "Ready", "status": "True", "observedGeneration": 1},
        {"type": "PodScheduled", "status": "True"},
    ]


@pytest.mark.parametrize(("generation", "followed", "wanted"), [(3, 2, 2), (3, 1, 1), (1, 2, 1), (None, 1, None)])
def test_the_generation_that_the_delegate_has_followed_is_the_observed_one(
    generation: int | None, followed: int, wanted: int | None
) -> None:
    mine = proxy()
    mine["metadata"]["generation"] = generation
    news = {"observedGeneration": 9, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 9}]}
    status = proxy_status(mine, news, ANYWHERE, Followed((), followed))
    assert status.get("observedGeneration") == status["conditions"][0].get("observedGeneration") == wanted
    later = proxy_status({**mine, "status": {"observedGeneration": 3}}, news, ANYWHERE, Followed((), followed))
    assert later["observedGeneration"] == 3, "it is never lowered"


def test_the_same_status_again_needs_no_patch() -> None:
    target = proxy()
    target["status"] = proxy_status(target, RUNNING)
    assert merge_patch(target["status"], proxy_status(target, RUNNING)) == {}


def test_nothing_that_was_given_is_changed() -> None:
    target, news = proxy({"containerStatuses": [container("main", 5)]}), copy.deepcopy(RUNNING)
    before = copy.deepcopy(target)
    proxy_status(target, news)
    assert (target, news) == (before, RUNNING)


def annotations_of(**annotations: str) -> dict[str, str]:
    """Return the annotations of a proxy pod that was created with these."""
    result: dict[str, str] = proxy_pod(pod(annotations), [])["metadata"]["annotations"]
    return result


def test_annotations_that_the_delegate_got_in_the_target_come_home() -> None:
    assert annotations_home(annotations_of(a="1"), {"team": "x", "a": "1", "cni": "ip"}) == {"cni": "ip"}


def test_a_value_that_was_changed_in_the_target_comes_home() -> None:
    assert annotations_home(annotations_of(a="1"), {"a": "2"}) == {"a": "2"}


def test_a_value_that_was_changed_in_the_source_is_not_changed_back() -> None:
    assert annotations_home({**annotations_of(a="1"), "a": "mine"}, {"a": "1"}) == {}


def test_an_annotation_that_was_removed_in_the_source_does_not_come_back() -> None:
    mine = annotations_of(a="1")
    del mine["a"]
    assert annotations_home(mine, {"a": "1"}) == {}


def test_annotations_that_only_the_proxy_has_survive() -> None:
    assert annotations_home({"mine": "1"}, {}) == {}


def test_keys_of_ours_never_travel() -> None:
    chaperon = {P + "is-allowed": "true", P + "parent-name": "p", "multicluster/attempts": "1"}
    assert annotations_home({}, chaperon) == {}


def test_without_a_manifest_the_delegates_word_counts() -> None:
    assert annotations_home({"a": "mine"}, {"a": "1"}) == {"a": "1"}
    assert annotations_home(None, {"a": "1"}) == {"a": "1"}
    assert annotations_home(None, None) == {}


def test_an_annotation_that_the_delegate_is_told_to_follow_does_not_come_home() -> None:
    live = {names.ANNOTATION_LIVE_CHANGES: '{"annotations":{"note":"1","team":"y"}}'}
    assert annotations_home({"team": "x"}, {"note": "1", "team": "y", "cni": "10.0.0.1", **live}) == {"cni": "10.0.0.1"}


def test_an_address_that_was_copied_before_the_target_had_ranges_is_removed() -> None:
    kept = USUAL.without_addresses()
    address = {"cni.projectcalico.org/podIP": "10.0.0.1/32"}
    mine = annotations_of(a="1")
    assert annotations_home(mine | address | {"note": "x"}, {"a": "1", **address}, kept) == dict.fromkeys(address)
    # Even one that the delegate has lost or changed, with any list of the installation.
    assert annotations_home(mine | address, {"a": "1"}, kept) == dict.fromkeys(address)
    chosen = Homecoming(frozenset(address)).without_addresses()
    assert annotations_home(mine | address, {"a": "1", **address}, chosen) == dict.fromkeys(address)
    assert annotations_home(mine, {"a": "1", **address}, kept) == {}


def test_an_address_that_a_user_gave_the_pod_stays_and_a_copied_value_of_it_is_taken_back() -> None:
    kept, key = USUAL.without_addresses(), "ipam.antrea.io/pod-ips"
    mine = annotations_of(**{key: "10.1.0.7"})
    assert annotations_home(mine, {key: "10.1.0.7"}, kept) == {}
    assert annotations_home({**mine, key: "10.9.0.9"}, {key: "10.9.0.9"}, kept) == {key: "10.1.0.7"}
    live = {names.ANNOTATION_LIVE_CHANGES: f'{{"annotations":{{"{key}":"10.1.0.8"}}}}'}
    assert annotations_home({**mine, key: "10.1.0.8"}, {key: "10.1.0.8", **live}, kept) == {}
    assert annotations_home({key: "10.1.0.7"}, {key: "10.1.0.7"}, kept) == {}, "without a manifest it may be a user's"


RANGES = of({"spec": {"podCIDRs": ["10.1.0.0/16"]}})
OUTSIDE = {**RUNNING, "podIP": "10.9.0.5", "podIPs": [{"ip": "10.9.0.5"}]}


def test_a_pod_ip_outside_the_ranges_of_the_target_stays_away_and_a_condition_says_so() -> None:
    assert proxy_status(proxy(), RUNNING, RANGES) == proxy_status(proxy(), RUNNING)
    status = proxy_status(proxy(), OUTSIDE, RANGES)
    assert not {"podIP", "podIPs"} & status.keys()
    assert (status["phase"], status["hostIP"]) == ("Running", "10.0.0.1")
    ready, condition = status["conditions"]
    assert ready["type"] == "Ready"
    assert (condition["type"], condition["status"]) == ("multicluster/PodIPsAllowed", "False")
    assert "10.9.0.5" in condition["message"]
    assert "spec.podCIDRs" in condition["message"]


def test_what_is_told_of_an_address_outside_is_told_once_and_goes_with_it() -> None:
    first = proxy_status(proxy(), OUTSIDE, RANGES)
    first["conditions"][1] |= {"lastProbeTime": None, "lastTransitionTime": None}
    assert merge_patch(first, proxy_status(proxy(first), OUTSIDE, RANGES)) == {}
    assert [each["type"] for each in proxy_status(proxy(first), RUNNING, RANGES)["conditions"]] == ["Ready"]
    assert [each["type"] for each in proxy_status(proxy(first), OUTSIDE)["conditions"]] == ["Ready"]


def test_annotations_that_others_act_upon_stay_with_the_delegate() -> None:
    theirs = {"prometheus.io/port": "1", "k8s.v1.cni.cncf.io/network-status": "[]"}
    assert annotations_home({}, theirs) == {"k8s.v1.cni.cncf.io/network-status": "[]"}
