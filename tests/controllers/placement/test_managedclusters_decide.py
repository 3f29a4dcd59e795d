"""Desired state of ManagedClusters that we create."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api.conditions import find_condition
from agent.placement.managed_clusters.decide import Create, Lead, Patch, View, available, decide, settles_in

NOW = datetime(2026, 11, 23, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
SET = "cluster.open-cluster-management.io/clusterset"
UNAVAILABLE = "cluster.open-cluster-management.io/unavailable"
UNREACHABLE = "cluster.open-cluster-management.io/unreachable"
AVAILABLE = "ManagedClusterConditionAvailable"
Raw = dict[str, Any]


def said(ready: str, reason: str = "Connected", agent: str = "True") -> list[Raw]:
    return [
        {"type": "Ready", "status": ready, "reason": reason, "message": f"{reason}, it says"},
        {"type": "AgentReady", "status": agent, "reason": reason, "message": ""},
    ]


READY, DEAD = said("True"), said("False", "AgentSilent", "False")
LOST, MISSING = said("False", "Unreachable", "Unknown"), said("False", "NotInstalled", "Unknown")


def lead(conditions: list[Raw] = READY, namespace: str = "", **rest: Any) -> Lead:
    return Lead(**{"namespace": namespace, "labels": {}, "conditions": conditions, "cordoned": False, **rest})


def summary(claims: str = "", **amounts: str) -> Raw:
    annotations = {"multicluster/claims": claims} if claims else {}
    return {"metadata": {"annotations": annotations}, "capacity": amounts, "allocatable": amounts}


def view(*leads: Lead, current: Raw | None = None, **rest: Any) -> View:
    defaults: Raw = {"name": "eu", "uid": "1234", "summary": summary(cpu="4"), "now": NOW}
    return View(**{**defaults, "leads": leads or (lead(),), "current": current, **rest})


def written(first: View, *, version: str = "1") -> Raw:
    """Return the ManagedCluster after all writes, as an API server would store it."""
    action = decide(first)
    current: Raw = first.current or {}
    for _ in range(3):
        match action:
            case Create(manifest):
                current = manifest
            case Patch(body, sub):
                current = merged(current, body)
                assert sub in (None, "status")
        current["metadata"]["resourceVersion"] = version
        action = decide(View(**{**vars(first), "current": current}))
        if action is None:
            return current
    raise AssertionError(f"it is never done: {action}")


def merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        result.pop(key, None) if value is None else result.update({key: merged(result.get(key), value)})
    return result


def taints(cluster: Raw) -> list[tuple[str, str]]:
    return [(taint["key"], taint["effect"]) for taint in cluster["spec"].get("taints", ())]


def is_available(cluster: Raw) -> str:
    (found,) = (each["status"] for each in cluster["status"]["conditions"] if each["type"] == AVAILABLE)
    return str(found)


def test_a_new_one_says_all_that_is_known() -> None:
    found = written(view(lead(labels={"env": "prod"}, version="v1.36.3"), summary=summary('{"gpu":"true"}', cpu="4")))
    assert found["metadata"]["name"] == "eu"
    assert found["metadata"]["labels"] == {"env": "prod", SET: "default", "multicluster/ours": "true"}
    assert found["metadata"]["annotations"] == {
        "multicluster/applied-labels": '["env"]',
        "multicluster/cluster-uid": "1234",
    }
    assert found["spec"] == {"hubAcceptsClient": True}
    status = found["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "4"}, {"cpu": "4"})
    assert status["version"] == {"kubernetes": "v1.36.3"}
    assert [claim["name"] for claim in status["clusterClaims"]] == [
        "id.k8s.io",
        "kubeversion.open-cluster-management.io",
        "gpu",
    ]
    assert {each["type"]: each["status"] for each in status["conditions"]} == {
        "HubAcceptedManagedCluster": "True",
        "ManagedClusterJoined": "True",
        AVAILABLE: "True",
    }


def test_nothing_is_written_twice() -> None:
    found = written(view())
    assert decide(view(current=found, now=LATER)) is None


@pytest.mark.parametrize(
    ("leads", "status", "want"),
    [
        pytest.param([lead(READY)], "True", [], id="ready"),
        pytest.param([lead(DEAD)], "False", [(UNAVAILABLE, "NoSelect")], id="its agent is dead"),
        pytest.param([lead(MISSING)], "False", [(UNAVAILABLE, "NoSelect")], id="there is no agent"),
        pytest.param([lead(LOST)], "Unknown", [(UNREACHABLE, "NoSelectIfNew")], id="it does not answer"),
        pytest.param([lead(LOST, lost=True)], "Unknown", [(UNREACHABLE, "NoSelect")], id="it is lost"),
        pytest.param(
            [lead(LOST, lost=True), lead(LOST, "shop")], "Unknown", [(UNREACHABLE, "NoSelectIfNew")], id="one of two is"
        ),
        pytest.param([lead(READY, lost=True)], "True", [], id="it was lost, and answers"),
        pytest.param([lead([])], "Unknown", [(UNREACHABLE, "NoSelectIfNew")], id="nothing is known yet"),
        pytest.param([lead(LOST), lead(READY, "shop")], "True", [], id="one of two Targets is ready"),
        pytest.param([lead(DEAD), lead(LOST, "shop")], "False", [(UNAVAILABLE, "NoSelect")], id="none of two is"),
        pytest.param(
            [lead(cordoned=True)],
            "True",
            [("node.kubernetes.io/unschedulable", "NoSelectIfNew")],
            id="its virtual node is cordoned",
        ),
        pytest.param([lead(cordoned=True), lead(READY, "shop")], "True", [], id="one of two is"),
        pytest.param(
            [lead(LOST, cordoned=True)],
            "Unknown",
            [(UNREACHABLE, "NoSelectIfNew"), ("node.kubernetes.io/unschedulable", "NoSelectIfNew")],
            id="both",
        ),
        pytest.param([lead(leaving=True)], "True", [("multicluster/retiring", "NoSelect")], id="it is to be emptied"),
        pytest.param([lead(leaving=True), lead(READY, "shop")], "True", [], id="one of its Targets is"),
    ],
)
def test_its_state_is_a_condition_and_a_taint(leads: list[Lead], status: str, want: list[tuple[str, str]]) -> None:
    found = written(view(*leads))
    assert taints(found) == want
    assert all(taint["timeAdded"] == "2026-11-23T12:00:00Z" for taint in found["spec"].get("taints", ()))
    assert is_available(found) == status
    assert available(leads).status == status
    assert taints(written(view(current=found, now=LATER))) == [], "it is well again"


def connecting(since: str) -> list[Raw]:
    conditions = said("False", "Connecting", "Unknown")
    return [{**each, "lastTransitionTime": since} for each in conditions]


RECENTLY, LONG_AGO = connecting("2026-11-23T11:59:30Z"), connecting("2026-11-23T11:58:59Z")


@pytest.mark.parametrize(
    ("before", "leads", "want", "wait"),
    [
        pytest.param(READY, [lead(RECENTLY)], "True", 30, id="it was ready when the agent started"),
        pytest.param(DEAD, [lead(RECENTLY)], "False", 30, id="its agent was dead then"),
        pytest.param(LOST, [lead(RECENTLY)], "Unknown", 30, id="it did not answer then"),
        pytest.param(READY, [lead(LONG_AGO)], "Unknown", 0, id="it takes too long"),
        pytest.param(READY, [lead(LOST, "shop"), lead(RECENTLY)], "True", 30, id="one of two Targets is lost"),
        pytest.param(LOST, [lead(READY, "shop"), lead(RECENTLY)], "True", 30, id="one of two Targets is ready"),
        pytest.param(READY, [lead(LOST)], "Unknown", 0, id="it does not answer any more"),
    ],
)
def test_what_is_told_stays_while_a_target_connects(
    before: list[Raw], leads: list[Lead], want: str, wait: float
) -> None:
    found = written(view(lead(before)))
    seen = view(*leads, current=found)
    again = written(seen)
    assert is_available(again) == want
    assert (taints(again) == taints(found)) == (want == is_available(found))
    assert settles_in(seen) == wait


def test_a_new_cluster_is_unknown_while_its_target_connects() -> None:
    assert is_available(written(view(lead(RECENTLY)))) == "Unknown"


def test_a_taint_keeps_its_moment_and_those_of_others_stay() -> None:
    found = written(view(lead(LOST)))
    own = {"key": "maintenance", "effect": "NoSelect", "timeAdded": "2026-01-01T00:00:00Z"}
    bare = {"key": "gpu", "value": "no", "effect": "PreferNoSelect"}
    found["spec"]["taints"] += [own, bare]
    again = written(view(lead(LOST), current=found, now=LATER))
    assert again["spec"]["taints"] == [
        {"key": UNREACHABLE, "effect": "NoSelectIfNew", "timeAdded": "2026-11-23T12:00:00Z"},
        own,
        {**bare, "timeAdded": "2026-11-23T12:05:00Z"},
    ]
    assert written(view(current=again, now=LATER))["spec"]["taints"][0] == own


def test_a_cluster_is_lost_once_it_was_silent_for_the_longest_term_of_its_targets_and_stays_so() -> None:
    leads = (lead(LOST, failover_after=300.0), lead(LOST, "shop", failover_after=600.0))
    found = written(view(*leads, silent_for=599.0))
    assert taints(found) == [(UNREACHABLE, "NoSelectIfNew")]
    again = written(view(*leads, current=found, silent_for=600.0, now=LATER))
    assert again["spec"]["taints"] == [
        {"key": UNREACHABLE, "effect": "NoSelect", "timeAdded": "2026-11-23T12:00:00Z"}
    ], "seconds of tolerations count from when it was unknown first"
    assert taints(written(view(*leads, current=again, silent_for=0.0))) == taints(again), "as another leader sees it"
    assert taints(written(view(lead(), current=again))) == []


def test_labels_follow_those_of_the_target_and_others_stay() -> None:
    found = written(view(lead(labels={"env": "prod", "tier": "1"})))
    found["metadata"]["labels"] |= {"by-hand": "x", SET: "gold"}
    again = written(view(lead(labels={"env": "test"}), current=found))
    assert again["metadata"]["labels"] == {"env": "test", "by-hand": "x", SET: "gold", "multicluster/ours": "true"}


@pytest.mark.parametrize(
    ("leads", "want"),
    [
        pytest.param([lead(labels={SET: "gold"})], {SET: "gold"}, id="a ClusterTarget puts it into a set"),
        pytest.param([lead(namespace="shop", labels={SET: "gold"})], {SET: "default"}, id="a Target does not"),
        pytest.param(
            [lead(labels={"a": "1"}), lead(namespace="shop", labels={"a": "2", "b": "2"})],
            {"a": "1", SET: "default"},
            id="ClusterTargets before Targets",
        ),
        pytest.param(
            [lead(namespace="a", labels={"a": "1"}), lead(namespace="b", labels={"a": "2", "b": "2"})],
            {"a": "1", "b": "2", SET: "default"},
            id="two Targets",
        ),
        pytest.param(
            [lead(labels={"app.kubernetes.io/instance": "x", "argocd.argoproj.io/y": "x", "multicluster/x": "y"})],
            {SET: "default"},
            id="labels by which others would prune it",
        ),
    ],
)
def test_which_labels_are_taken(leads: list[Lead], want: dict[str, str]) -> None:
    assert written(view(*leads))["metadata"]["labels"] == {**want, "multicluster/ours": "true"}


def test_the_own_cluster_says_so() -> None:
    labels = written(view(name="local-cluster", is_self=True))["metadata"]["labels"]
    assert labels["local-cluster"] == "true"


def test_what_was_told_of_a_cluster_that_is_away_stays() -> None:
    found = written(view(lead(version="v1.36.3"), summary=summary('{"gpu":"true"}', cpu="4")))
    again = written(view(lead(LOST), current=found, summary=None, now=LATER))
    for field in ("capacity", "allocatable", "version", "clusterClaims"):
        assert again["status"][field] == found["status"][field]


def test_a_cluster_of_which_nothing_is_told_has_its_uid_at_least() -> None:
    found = written(view(lead([]), summary=None))
    assert found["status"]["clusterClaims"] == [{"name": "id.k8s.io", "value": "1234"}]
    unknown = written(view(lead([]), summary=None, uid=""))
    assert "clusterClaims" not in unknown["status"]
    assert "multicluster/cluster-uid" not in unknown["metadata"]["annotations"]


def test_a_claim_that_goes_is_taken_away() -> None:
    found = written(view(summary=summary('{"gpu":"true"}', cpu="4")))
    again = written(view(current=found))
    assert [claim["name"] for claim in again["status"]["clusterClaims"]] == ["id.k8s.io"]


def test_a_namespace_of_somebody_else_is_told_until_it_is_not() -> None:
    found = written(view(foreign_namespace=True))
    taken = find_condition(found["status"]["conditions"], "NamespaceTaken")
    assert taken is not None
    assert taken["status"] == "True"
    assert "label it open-cluster-management.io/cluster-name=eu" in taken["message"]
    again = find_condition(written(view(current=found))["status"]["conditions"], "NamespaceTaken")
    assert again is not None
    assert again["status"] == "False"


def test_one_that_is_being_deleted_is_left_alone() -> None:
    found = written(view())
    found["metadata"]["deletionTimestamp"] = "2026-11-23T12:00:00Z"
    assert decide(view(lead(LOST), current=found)) is None


@pytest.mark.parametrize("text", ["", "{", '{"a": 1}', "null"])
def test_an_annotation_that_somebody_edited_takes_no_label_away(text: str) -> None:
    found = written(view(lead(labels={"env": "prod"})))
    found["metadata"]["annotations"]["multicluster/applied-labels"] = text
    assert written(view(current=found))["metadata"]["labels"]["env"] == "prod"
