"""Identity of a Target's cluster, from its status and from this process's observations."""

from types import SimpleNamespace
from typing import Any, cast

from agent.clusters.identity import Expected
from agent.clusters.target import Target
from agent.targets.target.recorded import Recorded

KEY = ("team", "us")


def target(uid: str = "t1", *, used: bool = True, cluster: str = "", **annotations: str) -> dict[str, Any]:
    metadata = {
        "uid": uid,
        "finalizers": ["multicluster/drain"] if used else [],
        "annotations": {f"multicluster/{key.replace('_', '-')}": value for key, value in annotations.items()},
    }
    return {"metadata": metadata, "status": {"clusterUID": cluster} if cluster else {}}


def connected(uid: str, *, ready: bool = True) -> Target:
    return cast("Target", SimpleNamespace(ready=ready, identity=SimpleNamespace(uid=uid)))


def test_what_its_status_says_counts_more_than_what_it_was_made_for() -> None:
    assert Recorded().expected(KEY, target(cluster="a", cluster_uid="b")) == Expected("a", "", "")
    assert Recorded().expected(KEY, target(used=False, cluster_uid="b")) == Expected("", "b", "")
    assert Recorded().expected(KEY, target(accept_cluster="c")) == Expected("", "", "c")


def test_a_target_in_use_that_has_lost_its_status_may_be_any_cluster() -> None:
    """Its kubeconfig may have changed before the status was recorded, or it may be restored from a backup."""
    assert Recorded().expected(KEY, target(cluster_uid="b")) == Expected()


def test_what_this_process_has_seen_counts_before_it_is_written_and_when_it_is_lost() -> None:
    recorded = Recorded()
    assert recorded.note(KEY, target(), connected("a")) == {"clusterUID": "a"}
    for told in (target(), target(cluster="old")):
        assert recorded.expected(KEY, told).recorded == "a"
    # Another Target of that name.
    assert recorded.expected(KEY, target("t2")) == Expected()
    recorded.forget(KEY)
    assert recorded.expected(KEY, target()) == Expected()


def test_a_cluster_is_noted_while_its_target_is_ready_and_tells_which_it_is() -> None:
    recorded = Recorded()
    for unknown in (None, connected("a", ready=False), connected("")):
        assert recorded.note(KEY, target(), unknown) == {}
    assert recorded.expected(KEY, target()) == Expected()


def test_a_cluster_is_written_once_and_again_when_it_is_another() -> None:
    recorded = Recorded()
    status = recorded.note(KEY, target(), connected("a"))
    # Only after the write has succeeded.
    assert recorded.note(KEY, target(), connected("a")) == status
    recorded.written(KEY, {"conditions": [], **status})
    assert recorded.note(KEY, target(cluster="a"), connected("a")) == {}
    # The CRD lacks the field.
    assert recorded.note(KEY, target(), connected("a")) == {}
    assert recorded.note(KEY, target(cluster="a"), connected("b")) == {"clusterUID": "b"}
    assert recorded.note(KEY, target("t2"), connected("b")) == {"clusterUID": "b"}
