"""Lives of pods from the lines of audit logs."""

from pathlib import Path

import pytest

from hack.lab.soak import audit
from hack.lab.soak.lives import Life
from tests.soak.logs import ADMIN, GARBAGE, KWOK, Pod, at, delegate, history, line, proxy


def only(**clusters: Pod | bytes | list[Pod | bytes]) -> Life:
    (life,) = history(**clusters).lives.values()
    return life


def test_a_pod_is_made_placed_run_deleted_and_gone() -> None:
    life = only(us=delegate().created(1).running(3).deleted(10, user=GARBAGE).gone(12))
    assert (life.cluster, life.uid, life.parent, life.is_proxy) == ("us", "d", "p", False)
    moments = [life.born, life.placed, life.ran, life.leaving, life.gone]
    assert [round(each.latest - at(0), 1) for each in moments if each] == [1.0, 2.9, 3.0, 10.0, 12.0]
    assert (life.leaving and life.leaving.user, life.gone and life.gone.user) == (GARBAGE, KWOK)
    assert life.over == life.gone
    assert "delete pods web-1-chaperon uid=d by flotilla-kwok: 200" in life.told()[-1]


def test_a_pod_that_has_finished_is_over_before_it_is_gone() -> None:
    life = only(us=delegate(restarts="Never").created(1).running(2).told(5, "Succeeded").deleted(9).gone(9.5))
    assert (life.phase, life.restarts) == ("Succeeded", False)
    assert life.over == life.finished
    assert life.finished
    assert life.finished.latest == at(5)


def test_a_pod_with_finalizers_is_gone_when_the_last_one_is_taken_off() -> None:
    pod = proxy().created(1).running(2).deleted(4, user=ADMIN, finalizers=("a", "b"))
    assert only(cd=pod).gone is None
    life = only(cd=pod.released(6))
    assert life.is_proxy
    assert life.gone
    assert life.gone.latest == at(6)
    assert life.leaving
    assert life.leaving.user == ADMIN


def test_a_pod_that_has_no_node_goes_at_once_whatever_grace_it_has() -> None:
    pod = delegate().created(1)
    answer = {"kind": "Pod", "metadata": {"name": "web-1-chaperon", "namespace": "default", "uid": "d"}}
    life = only(us=[pod, line(2, "delete", "pods", "web-1-chaperon", answer)])
    assert life.gone
    assert life.gone.latest == at(2)


def test_a_deletion_with_grace_is_no_end() -> None:
    assert only(us=delegate().created(1).running(2).deleted(3)).gone is None


def test_of_a_pod_whose_creation_nobody_noted_the_second_is_known() -> None:
    life = only(us=delegate().unnoted(7.6).running(9))
    assert (life.born.earliest, life.born.latest) == (at(7), at(8))


def test_of_a_deletion_that_nobody_noted_the_second_is_known_but_not_who_asked() -> None:
    going = proxy().created(1).running(2).unnoted_deletion(5.6, finalizers=("f",))
    for life in (only(cd=going.told(9, "Running")), only(cd=going.released(30))):
        assert life.leaving
        assert (life.leaving.earliest, life.leaving.latest, life.leaving.user) == (at(5), at(6), "")


def test_a_pod_that_is_not_found_any_more_was_gone_at_some_time_since_it_was_seen() -> None:
    life = only(us=delegate().created(1).running(2).missing(20))
    assert life.gone
    assert at(1.9) < life.gone.earliest < at(2) < life.gone.latest == at(20)


def test_a_name_that_is_taken_again_was_free_before() -> None:
    found = history(us=[delegate("d").created(1).running(2), delegate("e").created(30)])
    assert found.lives["us", "d"].gone
    assert found.lives["us", "e"].gone is None


def test_the_same_name_in_another_cluster_is_another_pod() -> None:
    found = history(us=delegate("d").created(1), eu=[delegate("e").created(2), delegate("e").missing(3)])
    assert found.lives["us", "d"].gone is None
    assert found.lives["eu", "e"].gone


def test_a_request_that_was_refused_changes_nothing() -> None:
    answer = {"kind": "Status", "status": "Failure"}
    life = only(us=[delegate().created(1).running(2), line(3, "delete", "pods", "web-1-chaperon", answer, code=409)])
    assert (life.leaving, life.gone) == (None, None)


def test_what_is_only_tried_was_never_there() -> None:
    answer = {"kind": "Pod", "metadata": {"name": "try", "namespace": "default", "uid": "u"}}
    tried = line(1, "create", "pods", "try", answer, code=201, uri="/api/v1/namespaces/default/pods?dryRun=All")
    assert not history(cd=tried).lives


def test_a_deletion_of_many_is_one_of_each() -> None:
    one, two = delegate("d").created(1), delegate("e", name="web-2-chaperon", parent="q").created(1)
    items = [{"metadata": {"name": "x", "namespace": "default", "uid": uid}} for uid in ("d", "e")]
    found = history(us=[one, two, line(2, "deletecollection", "pods", "", {"kind": "PodList", "items": items})])
    assert all(life.gone for life in found.lives.values())


def test_leases_nodes_and_chaperons_are_noted() -> None:
    lease = {"spec": {"holderIdentity": "one"}}
    node = {
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    found = history(
        cd=[
            line(1, "update", "leases", "admiralty-controller-manager", body=lease),
            line(2, "update", "leases", "other", body=lease),
            line(3, "update", "leases", "admiralty-controller-manager", body=lease, code=409),
            line(4, "patch", "nodes/status", "n", node),
            line(5, "delete", "podchaperons", "c", {"kind": "Status", "status": "Success", "details": {"uid": "u"}}),
        ]
    )
    assert [(each.at, each.holder) for each in found.renewals] == [(at(1), "one")]
    assert [(each.name, each.ready) for each in found.nodes] == [("n", "Unknown")]
    assert [(each.name, each.at) for each in found.chaperons] == [("c", at(5))]


def test_what_a_killed_server_has_left_of_a_line_is_passed_over() -> None:
    whole = line(1, "delete", "podchaperons", "c")
    after = audit.parse(whole[:100] + whole)
    assert after is not None
    assert after.object_ref.name == "c"
    assert audit.parse(whole[:100]) is None


def test_rotated_logs_come_first(tmp_path: Path) -> None:
    (tmp_path / "audit.log").write_bytes(line(3, "delete", "podchaperons", "c") + b"\n")
    (tmp_path / "audit-2026-11-23T12-00-02.000.log").write_bytes(line(2, "delete", "podchaperons", "b") + b"\n")
    assert [each.object_ref.name for each in audit.read(tmp_path)] == ["b", "c"]


@pytest.mark.parametrize("verb", ["get", "patch", "delete"])
def test_whoever_finds_nothing_under_a_name_knows_of_an_end(verb: str) -> None:
    assert only(us=delegate().created(1).missing(5, verb)).gone
