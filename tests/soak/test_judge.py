"""Every rule finds its violations and nothing else."""

from collections.abc import Sequence

import pytest

from agent.api.names import LABEL_PARENT_UID
from hack.lab.soak.evidence import Outage
from hack.lab.soak.judge import judge
from hack.lab.soak.lives import History
from tests.soak.logs import (
    ADMIN,
    AGENT,
    KUBE,
    NODES,
    REPLICAS,
    Pod,
    delegate,
    evidence,
    history,
    line,
    outage,
    proxy,
    stamp,
)

CHAPERON = {"kind": "PodChaperon", "metadata": {"name": "c", "labels": {LABEL_PARENT_UID: "p"}}}
"""Chaperon of the proxy pod with UID `p`, as an API server returns it."""


def rules(found: History, *outages: Outage, living: set[tuple[str, str]] | None = None, **jobs: int) -> list[str]:
    """Return the violated rules."""
    return [each.rule for each in judge(evidence(found, *outages, living=living, **jobs))]


def a_proxy(**more: str) -> Pod:
    return proxy(**more).created(0, user=REPLICAS).running(3)


def a_job_pod(uid: str = "p", name: str = "job-1") -> Pod:
    return proxy(uid, name, owner="Job", restarts="Never").created(0, user=f"{KUBE}job-controller").running(3)


def gone_in_order() -> dict[str, Pod]:
    """Return a pod that its user deletes and whose delegate ends first."""
    return {
        "cd": a_proxy().deleted(10, user=ADMIN, finalizers=("f",)).released(14),
        "us": delegate().created(1).running(2).deleted(11).gone(13),
    }


def test_a_pod_that_runs_and_one_that_went_in_order_break_nothing() -> None:
    assert rules(history(**gone_in_order())) == []
    assert rules(history(cd=a_proxy(), us=delegate().created(1).running(2))) == []


def test_two_delegates_at_once_in_two_clusters() -> None:
    found = history(cd=a_proxy(), us=delegate("d").created(1).running(2), eu=delegate("e").created(9))
    (violation,) = judge(evidence(found))
    assert violation.rule == "two delegates at once"
    assert violation.what == "of proxy pod web-1"
    assert any("uid=d" in each for each in violation.lines)
    assert any("eu: create pods web-1-chaperon uid=e" in each for each in violation.lines)


def test_one_that_is_still_ending_counts_as_one() -> None:
    first = delegate("d").created(1).running(2).deleted(5)
    found = history(cd=a_proxy(), us=first.gone(8), eu=delegate("e").created(7).running(9))
    assert "two delegates at once" in rules(found)
    later = history(cd=a_proxy(), us=first, eu=delegate("e").created(8.5).running(9))
    assert "two delegates at once" not in rules(later)


def test_two_delegates_that_are_not_neighbours_are_found_too() -> None:
    short = delegate("e").created(3).gone(4)
    found = history(cd=a_proxy(), us=delegate("d").created(1).running(2), eu=[short, delegate("f").created(5)])
    assert rules(found).count("two delegates at once") == 2


def test_a_deletion_that_took_long_may_have_been_done_at_its_beginning() -> None:
    pod = delegate("d").created(1).running(2).deleted(5)
    answer = {"kind": "Pod", "metadata": {"name": "web-1-chaperon", "namespace": "default", "uid": "d"}}
    slow = line(20, "delete", "pods", "web-1-chaperon", answer, body={"gracePeriodSeconds": 0}, took=13)
    found = history(cd=a_proxy(), us=[pod, slow], eu=delegate("e").created(8))
    assert "two delegates at once" not in rules(found)


def test_what_a_killed_server_did_not_note_may_have_been_done() -> None:
    found = history(cd=a_proxy(), us=delegate("d").created(1).running(2).deleted(5), eu=delegate("e").created(9))
    living = {("eu", "e")}
    assert "two delegates at once" not in rules(found, outage("us", "kube-apiserver", 6, 8), living=living)
    broken = rules(found, outage("us", "agent", 6, 8), living=living)
    assert {"two delegates at once", "a delegate vanished"} <= set(broken)


def test_two_pods_of_one_stateful_sets_name() -> None:
    one = proxy("p", "db-0", owner="StatefulSet").created(0).deleted(4, user=ADMIN, finalizers=("f",)).released(5)
    two = proxy("q", "db-0", owner="StatefulSet").created(6)
    first = delegate("d", "p").created(1).running(2).deleted(4).gone(9)
    found = history(cd=[one, two], us=first, eu=delegate("e", "q", "db-0-other").created(7).running(8))
    assert sorted(rules(found)) == [
        "a proxy pod went before its delegate",
        "two pods of one StatefulSet's name at once",
    ]


def test_a_delegate_that_is_deleted_although_its_pod_is_wanted() -> None:
    chaperon = line(4.9, "delete", "podchaperons", "web-1-chaperon", user="system:serviceaccount:default:cd")
    found = history(cd=a_proxy(), us=[delegate().created(1).running(2).deleted(5).gone(6), chaperon])
    (violation,) = judge(evidence(found))
    assert violation.rule == "a delegate was deleted in vain"
    assert any("by system:serviceaccount:default:cd" in each for each in violation.lines)


@pytest.mark.parametrize(
    ("given_up", "want"),
    [(20, []), (34, ["a delegate was deleted in vain"]), (0.5, ["a delegate was deleted in vain"])],
    ids=["before it had a node", "afterwards", "an earlier one of its name"],
)
def test_a_delegate_that_its_source_gave_up_may_get_a_node_until_the_garbage_collector_comes(
    given_up: float, want: list[str]
) -> None:
    chaperon = line(given_up, "delete", "podchaperons", "web-1-chaperon", user="system:serviceaccount:default:cd")
    first = delegate("d").created(1).running(30).deleted(35).gone(36)
    assert rules(history(cd=a_proxy(), us=[first, delegate("e").created(37).running(38), chaperon])) == want


def test_a_deletion_may_be_answered_after_others_have_seen_what_it_did() -> None:
    pod = a_proxy()
    seen = pod.deleted(9.9, user=AGENT, finalizers=("f",)).lines.pop()
    asked = pod.deleted(10, user=REPLICAS, finalizers=("f",)).lines.pop()
    pod.released(14)
    patched = seen.replace(b'"verb":"delete"', b'"verb":"patch"')
    slow = asked.replace(stamp(10 - 0.01).encode(), stamp(9.5).encode())
    us = delegate().created(1).running(2).deleted(11).gone(13)
    assert rules(history(cd=[pod, patched, slow], us=us)) == []
    assert rules(history(cd=[pod, patched], us=us)) == ["a proxy pod was deleted by nobody who may"]


def test_a_delegate_that_went_away_before_its_pod_was_deleted() -> None:
    found = history(
        cd=a_proxy().deleted(10, user=ADMIN, finalizers=("f",)).released(14),
        us=delegate().created(1).running(2).deleted(5).gone(6),
    )
    assert rules(found) == ["a delegate was deleted in vain"]


def test_an_attempt_that_never_got_a_node_may_be_given_up() -> None:
    found = history(cd=a_proxy(), us=delegate("d").created(1).gone(5), eu=delegate("e").created(6).running(7))
    assert rules(found) == []


def test_a_finished_delegate_may_be_deleted() -> None:
    first = delegate(restarts="Never").created(1).running(2).told(4, "Succeeded").deleted(5).gone(6)
    assert rules(history(cd=a_job_pod().told(5, "Succeeded"), us=first)) == []


@pytest.mark.parametrize("user", [AGENT, NODES, f"{KUBE}pod-garbage-collector"])
def test_a_proxy_pod_that_is_deleted_by_who_must_not(user: str) -> None:
    found = history(
        cd=a_proxy().deleted(10, user=user, finalizers=("f",)).released(14),
        us=delegate().created(1).running(2).deleted(11).gone(13),
    )
    assert rules(found) == ["a proxy pod was deleted by nobody who may"]


@pytest.mark.parametrize(
    ("killed", "want"),
    [(10.5, []), (20, ["a proxy pod was deleted by nobody who may"])],
    ids=["by an API server that was killed then", "while nothing was the matter"],
)
def test_a_proxy_pod_whose_deletion_nobody_noted(killed: float, want: list[str]) -> None:
    pod = a_proxy().unnoted_deletion(10, finalizers=("f",)).released(30)
    us = delegate().created(1).running(2).deleted(11).gone(21)
    assert rules(history(cd=pod, us=us), outage("cd", "kube-apiserver", killed, killed + 5)) == want


def test_of_a_proxy_pod_that_was_taken_its_chaperon_and_delegate_are_shown() -> None:
    asked = [line(1, "create", "podchaperons", "c", CHAPERON), line(9, "patch", "podchaperons", "c", CHAPERON)]
    pod = a_proxy().deleted(10, user=AGENT, finalizers=("f",)).released(14)
    us = [*asked, delegate().created(2).deleted(11).gone(13)]
    (violation,) = judge(evidence(history(cd=pod, us=us)))
    shown = [" ".join(each.split()[1:4]) for each in violation.lines if " us: " in each]
    assert shown[:3] == ["us: create podchaperons", "us: patch podchaperons", "us: create pods"]


@pytest.mark.parametrize(
    ("restarts", "user", "cluster", "process", "broken"),
    [
        ("Never", AGENT, "us", "kube-apiserver", False),
        ("Never", AGENT, "us", "etcd", False),
        ("Never", AGENT, "us", "agent", True),
        ("Never", AGENT, "eu", "kube-apiserver", True),
        ("Never", NODES, "us", "kube-apiserver", True),
        ("Always", AGENT, "us", "kube-apiserver", True),
    ],
)
def test_a_target_that_died_while_it_was_to_make_what_must_not_run_twice(
    restarts: str, user: str, cluster: str, process: str, broken: bool
) -> None:
    pod = proxy(owner="Job", restarts=restarts).created(0, user=f"{KUBE}job-controller")
    us = line(1, "create", "podchaperons", "c", CHAPERON)
    found = history(cd=pod.deleted(10, user=user, finalizers=("f",)).released(14), us=[us])
    died = outage(cluster, process, 2, 4)
    assert rules(found, died) == (["a proxy pod was deleted by nobody who may"] if broken else [])
    if not broken:
        assert rules(found) == ["a proxy pod was deleted by nobody who may"]
        found = history(cd=pod, us=[us, delegate().created(1.5).running(2).deleted(11).gone(13)])
        assert rules(found, died) == ["a proxy pod was deleted by nobody who may"]


def test_the_agent_may_end_a_proxy_pod_that_its_user_has_deleted() -> None:
    found = history(
        cd=a_proxy().deleted(10, user=REPLICAS, finalizers=("f",)).deleted(12, user=AGENT).gone(14, user=AGENT),
        us=delegate().created(1).running(2).deleted(11).gone(11.5),
    )
    assert rules(found) == []


def test_a_proxy_pod_that_is_let_go_while_its_delegate_is_there() -> None:
    pod = a_proxy().deleted(10, user=ADMIN, finalizers=("f",)).released(12)
    assert rules(history(cd=pod, us=delegate().created(1).running(2).deleted(11).gone(15))) == [
        "a proxy pod went before its delegate"
    ]
    assert rules(history(cd=pod, us=delegate().created(1).running(2))) == ["a proxy pod went before its delegate"]


def test_a_delegate_that_is_made_when_its_proxy_pod_has_gone() -> None:
    pod = a_proxy().deleted(10, user=ADMIN, finalizers=("f",)).released(12)
    asked = line(13, "create", "podchaperons", "web-1-chaperon", code=201, took=9)
    (violation,) = judge(evidence(history(cd=pod, us=[asked, delegate().created(20).gone(21)])))
    assert violation.rule == "a proxy pod went before its delegate"
    assert any("create podchaperons web-1-chaperon" in each and each.endswith("9.0 s") for each in violation.lines)


def test_a_delegate_of_nobody() -> None:
    assert rules(history(us=delegate().created(1))) == ["a delegate of no proxy pod"]


def test_finished_work_that_is_run_again_for_the_same_pod() -> None:
    first = delegate("d", restarts="Never").created(1).running(2).told(4, "Succeeded").deleted(5).gone(6)
    again = delegate("e", restarts="Never").created(8).running(9)
    assert rules(history(cd=a_job_pod(), us=first, eu=again)) == ["finished work ran again"]


def test_finished_work_that_its_job_runs_again() -> None:
    proxies: list[Pod | bytes] = [a_job_pod("p", "job-1"), a_job_pod("q", "job-2")]
    done: list[Pod | bytes] = [
        delegate(f"d{uid}", uid, f"{uid}-x", restarts="Never").created(1).running(2).told(4, "Succeeded")
        for uid in ("p", "q")
    ]
    found = history(cd=proxies, us=done)
    assert rules(found, job=2) == []
    assert rules(found, job=1) == ["finished work ran again"]


def test_work_that_is_said_to_have_failed_although_it_did_not() -> None:
    pod = a_job_pod().told(20, "Failed", reason="DelegateGone")
    done = delegate(restarts="Never").created(1).running(2).told(4, "Succeeded").deleted(5).gone(6)
    (violation,) = judge(evidence(history(cd=pod, us=done)))
    assert violation.rule == "work was lost"
    assert "DelegateGone" in violation.what


def test_work_that_failed_may_say_so_and_so_may_a_pod_that_was_deleted() -> None:
    failed = delegate(restarts="Never").created(1).running(2).told(4, "Failed")
    assert rules(history(cd=a_job_pod().told(5, "Failed"), us=failed)) == []
    ended = a_job_pod().deleted(10, user=ADMIN, finalizers=("f",)).told(12, "Failed").released(13)
    assert rules(history(cd=ended, us=delegate(restarts="Never").created(1).running(2).deleted(11).gone(11.5))) == []


def test_a_delegate_that_vanishes() -> None:
    found = history(cd=a_proxy(), us=delegate().created(1).running(2))
    assert rules(found, living={("cd", "p")}) == ["a delegate vanished"]
    assert rules(found, outage("us", "etcd", 20, 21), living={("cd", "p")}) == []


def told(seconds: float, ready: str, name: str = "admiralty-default-us") -> bytes:
    conditions = [{"type": "Ready", "status": ready}]
    answer = {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": conditions}}
    return line(seconds, "patch", "nodes/status", name, answer, user=NODES)


@pytest.mark.parametrize(
    ("lines", "outages", "want"),
    [
        ([told(1, "True"), told(90, "Unknown")], [], 1),
        ([told(1, "False"), told(2, "True")], [], 0),
        ([told(1, "True"), told(90, "Unknown")], [outage("cd", "kube-apiserver", 40, 80, "stop")], 0),
        ([told(1, "True"), told(90, "Unknown")], [outage("cd", "kube-apiserver", 70, 80, "stop")], 1),
        ([told(1, "True"), told(90, "Unknown")], [outage("us", "kube-apiserver", 40, 80, "stop")], 1),
        ([told(1, "True", "cd-node-1"), told(90, "Unknown", "cd-node-1")], [], 0),
        ([told(1, "True"), told(85, "Unknown", "cd-node-1"), told(90, "Unknown")], [], 0),
    ],
    ids=[
        "it was Ready",
        "it is new",
        "a long outage",
        "a short outage",
        "another cluster's outage",
        "a real node",
        "as real nodes at that time",
    ],
)
def test_a_virtual_node_that_is_not_ready(lines: list[Pod | bytes], outages: Sequence[Outage], want: int) -> None:
    assert rules(history(cd=lines), *outages) == ["a virtual node was not Ready"] * want


def renewed(seconds: float, holder: str, code: int = 200) -> bytes:
    lease = {"spec": {"holderIdentity": holder}}
    return line(seconds, "update", "leases", "admiralty-controller-manager", body=lease, code=code)


@pytest.mark.parametrize(
    ("lines", "outages", "want"),
    [
        ([renewed(1, "a"), renewed(15, "b")], [], 0),
        ([renewed(1, "a"), renewed(17, "b")], [], 1),
        ([renewed(1, "a"), renewed(17, "a")], [], 1),
        ([renewed(1, "a"), renewed(2, ""), renewed(17, "b")], [], 1),
        ([renewed(1, "a"), renewed(3, "a", 504), renewed(17, "b")], [], 0),
        ([renewed(1, "a"), renewed(3, "a", 409), renewed(17, "b")], [], 1),
        ([renewed(1, "a"), renewed(17, "b")], [outage("us", "etcd", 5, 6)], 0),
        ([renewed(1, "a"), renewed(17, "b")], [outage("us", "agent", 1, 16)], 1),
        ([renewed(1, "a"), renewed(17, "b")], [outage("us", "etcd", 30, 40)], 1),
        ([renewed(1, "a"), renewed(20, "b")], [outage("us", "agent", 2, 8), outage("us", "agent-2", 11, 21)], 0),
        ([renewed(1, "a"), renewed(24, "b")], [outage("us", "agent", 2, 8), outage("us", "agent-2", 11, 25)], 1),
    ],
    ids=[
        "in time",
        "late",
        "the same",
        "given up",
        "killed while it was renewed",
        "refused",
        "an outage",
        "the leader's end",
        "an outage afterwards",
        "one killed, then the other stopped",
        "the same, and the first was back for long enough",
    ],
)
def test_nobody_leads_for_too_long(lines: list[Pod | bytes], outages: Sequence[Outage], want: int) -> None:
    assert rules(history(us=lines), *outages) == ["another led too late"] * want
