"""Limits of Targets and ResourceQuotas, computed as in Kubernetes' quota admission."""

from typing import Any

import pytest

from agent.ranking.quota import in_scope, over_limit, over_quota, quota_usage
from agent.ranking.snapshot import PodInfo, Quota, Scope, amounts
from agent.ranking.usage import Usages
from tests.ranking.pods_and_targets import pod_info, ranked, target_info

MAIN = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}


def pod(resources: dict[str, Any] | None = None, **spec: Any) -> PodInfo:
    return pod_info(spec={"containers": [{"name": "c", "resources": resources or {}}], **spec})


def quota(hard: dict[str, Any], used: dict[str, Any] | None = None, *scopes: Scope) -> Quota:
    return Quota("team-a", amounts(hard), amounts(dict.fromkeys(hard, 0) | (used or {})), scopes)


def rejected(quota: Quota, wanted: PodInfo, *undelegated_in: PodInfo) -> str:
    found = over_quota([quota], [each.template for each in undelegated_in], wanted.template)
    return f"{found.reason}: {found.message}" if found else ""


def test_a_limit_is_for_all_our_pods_together() -> None:
    held = amounts({"cpu": "7500m", "pods": "3"})
    found = over_limit(amounts({"cpu": "8"}), held, pod_info(cpu="600m").template)
    assert found is not None
    assert found == ("LimitReached", "limit cpu of the target reached (7500m of 8)")
    assert over_limit(amounts({"cpu": "8"}), held, pod_info(cpu="500m").template) is None


def test_a_pod_that_asks_for_none_of_it_passes_a_limit_that_is_exceeded() -> None:
    assert over_limit(amounts({"cpu": "1"}), amounts({"cpu": "2"}), pod_info(memory="1Gi").template) is None


def test_pods_and_any_resource_can_be_limited() -> None:
    target = target_info("eu", limits=amounts({"pods": "2", "example.com/gpu": "1"}))
    held = Usages()
    held.put(pod_info(uid="1", **{"example.com/gpu": "1"}), target.node_name)
    gpu = ranked(pod_info(**{"example.com/gpu": "1"}), target, held=held)
    assert gpu.rejected[0][1].message == "limit example.com/gpu of the target reached (1 of 1)"
    assert ranked(pod_info(), target, held=held).order == (target,)
    held.put(pod_info(uid="2"), target.node_name)
    assert ranked(pod_info(), target, held=held).rejected[0][1].message == "limit pods of the target reached (2 of 2)"
    held.remove("2")
    assert ranked(pod_info(), target, held=held).order == (target,)


def test_a_quota_counts_requests_limits_and_pods() -> None:
    template = pod({**MAIN, "requests": {**MAIN["requests"], "example.com/gpu": "1"}}).template
    one = {"count/pods": "1", "pods": "1", "cpu": "1", "requests.cpu": "1", "memory": "1Gi", "requests.memory": "1Gi"}
    assert quota_usage(template) == amounts({**one, "limits.cpu": "2", "requests.example.com/gpu": "1"})


@pytest.mark.parametrize(
    ("hard", "used", "message"),
    [
        ({"pods": "20"}, {"pods": "20"}, "pods (20 of 20)"),
        ({"count/pods": "1"}, {"count/pods": "1"}, "count/pods (1 of 1)"),
        ({"cpu": "4"}, {"cpu": "3500m"}, "cpu (3500m of 4)"),
        ({"requests.memory": "4Gi"}, {"requests.memory": "3584Mi"}, "requests.memory (3584Mi of 4Gi)"),
        ({"limits.cpu": "3"}, {"limits.cpu": "2"}, "limits.cpu (2 of 3)"),
        ({"pods": "1", "cpu": "1"}, {"pods": "1", "cpu": "1"}, "cpu (1 of 1), pods (1 of 1)"),
    ],
)
def test_a_quota_that_is_used_up_says_what_of(hard: dict[str, str], used: dict[str, str], message: str) -> None:
    assert rejected(quota(hard, used), pod(MAIN)) == f"QuotaExceeded: exceeded quota team-a: {message}"


def test_what_just_fits_a_quota_passes() -> None:
    full = quota({"pods": "2", "requests.cpu": "2"}, {"pods": "1", "requests.cpu": "1"})
    assert rejected(full, pod(MAIN)) == ""
    assert "pods (2 of 2)" in rejected(full, pod(MAIN), pod(MAIN))


def test_pods_to_come_count_only_where_they_are_in_scope() -> None:
    lasting = quota({"pods": "1"}, None, Scope("NotTerminating"))
    assert rejected(lasting, pod(), pod(activeDeadlineSeconds=5)) == ""
    assert rejected(lasting, pod(), pod()) != ""


def test_a_resource_that_the_pod_does_not_ask_for_is_not_looked_at() -> None:
    assert rejected(quota({"requests.example.com/gpu": "1"}, {"requests.example.com/gpu": "5"}), pod(MAIN)) == ""


def test_a_quota_over_cpu_or_memory_demands_that_every_container_tells_it() -> None:
    demanding = quota({"requests.cpu": "9", "limits.memory": "9Gi"})
    assert rejected(demanding, pod(MAIN)) == "QuotaDemands: quota team-a demands that every container has limits.memory"
    two = pod_info(spec={"containers": [{"name": "a", "resources": MAIN}, {"name": "b"}]})
    assert "requests.cpu" in rejected(quota({"cpu": "9"}), two)
    whole = pod_info(spec={"containers": [{"name": "a"}], "resources": {"requests": {"cpu": "1"}}})
    assert rejected(quota({"cpu": "9"}), whole) == ""


def test_a_quota_of_which_nothing_is_counted_yet_keeps_nobody_away() -> None:
    assert rejected(Quota("new", amounts({"pods": "0"}), {}), pod()) == ""


HIGH = {"priorityClassName": "high"}
SCOPES: list[tuple[Scope, PodInfo, bool]] = [
    (Scope("Terminating"), pod(activeDeadlineSeconds=0), True),
    (Scope("Terminating"), pod(), False),
    (Scope("NotTerminating"), pod(), True),
    (Scope("NotTerminating"), pod(activeDeadlineSeconds=9), False),
    (Scope("BestEffort"), pod(), True),
    (Scope("BestEffort"), pod({"limits": {"cpu": "1"}}), False),
    (Scope("BestEffort"), pod({"requests": {"example.com/gpu": "1"}}), True),
    (Scope("NotBestEffort"), pod(MAIN), True),
    (Scope("NotBestEffort"), pod(), False),
    (Scope("PriorityClass"), pod(**HIGH), True),
    (Scope("PriorityClass"), pod(), False),
    (Scope("PriorityClass", "In", ("high", "low")), pod(**HIGH), True),
    (Scope("PriorityClass", "In", ("low",)), pod(**HIGH), False),
    (Scope("PriorityClass", "NotIn", ("low",)), pod(**HIGH), True),
    (Scope("PriorityClass", "NotIn", ("low",)), pod(), True),
    (Scope("PriorityClass", "DoesNotExist"), pod(), True),
    (Scope("PriorityClass", "DoesNotExist"), pod(**HIGH), False),
    (Scope("SomethingNew"), pod(), False),
]


@pytest.mark.parametrize(("scope", "wanted", "counts"), SCOPES, ids=lambda value: str(value)[:60])
def test_scopes_mean_what_they_mean_in_kubernetes(scope: Scope, wanted: PodInfo, counts: bool) -> None:
    assert in_scope([scope], wanted.template) is counts
    assert in_scope([scope, Scope("SomethingNew")], wanted.template) is False
    assert bool(rejected(quota({"pods": "0"}, None, scope), wanted)) is counts


def test_a_scope_for_affinity_across_namespaces_looks_at_the_delegates_terms() -> None:
    def far(**term: Any) -> PodInfo:
        return pod_info(
            source={"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
        )

    scope = [Scope("CrossNamespacePodAffinity")]
    assert in_scope(scope, far(namespaces=["a"]).template)
    assert in_scope(scope, far(namespaceSelector={}).template)
    assert not in_scope(scope, far(topologyKey="zone").template)


def test_pods_that_have_no_delegate_yet_count_against_a_quota_and_others_do_not() -> None:
    target = target_info("eu", quotas={"default": (quota({"pods": "1"}),), "other": (quota({"pods": "0"}),)})
    held = Usages()
    held.put(pod_info(uid="1"), target.node_name, assumed=True, undelegated=True)
    assert ranked(pod_info(), target, held=held).rejected[0][1].reason == "QuotaExceeded"
    held.of(target.node_name).delegated("1")
    assert ranked(pod_info(), target, held=held).order == (target,)
    assert ranked(pod_info(namespace="other"), target_info("eu", namespace="", quotas=target.quotas)).rejected
