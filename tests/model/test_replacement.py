"""Replacements, and the marks of the pods that they replace."""

from typing import Any

from agent.api import names
from agent.api.names import moves
from agent.model import livechanges, replacement
from agent.model.delegatepod import chaperon
from agent.model.proxypod import proxy_pod, source_pod
from agent.model.replacement import Moved

Raw = dict[str, Any]

OWNER: Raw = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "rs"},
    "spec": {
        "selector": {"matchLabels": {"app": "web", "pod-template-hash": "1"}},
        "template": {
            "metadata": {"labels": {"app": "web", "pod-template-hash": "1"}, "annotations": {"note": "x"}},
            "spec": {"containers": [{"name": "main", "image": "busybox"}]},
        },
    },
}
OLD: Raw = {"metadata": {"name": "web-1-a", "uid": "o", "annotations": {names.ANNOTATION_CREATED_BY: "ann"}}}


def test_a_replacement_is_its_template_but_for_the_label_by_which_it_is_adopted() -> None:
    made = replacement.manifest(OWNER, OLD, "web-1-b", "pod-template-hash", Moved("node", "Targets", "now", "t"))
    metadata = made["metadata"]
    assert metadata["labels"] == {"app": "web"}
    assert made["spec"] == OWNER["spec"]["template"]["spec"]
    assert metadata["ownerReferences"][0]["controller"] is False
    assert metadata["annotations"]["note"] == "x"
    assert metadata["annotations"][moves.ANNOTATION_REPLACES] == "o"
    assert metadata["annotations"][names.ANNOTATION_CREATED_BY] == "ann"
    assert replacement.moved(metadata["annotations"]) == Moved("node", "Targets", "now", "t")


def test_a_pod_that_alone_was_told_where_to_be_is_replaced_by_one_that_goes_there() -> None:
    said = {"multicluster/targets": "us", "multicluster.admiralty.io/allowed-targets": "!eu", "other": "x"}
    old = {"metadata": {**OLD["metadata"], "annotations": said}}
    for cause, wanted in (("Targets", {*said} - {"other"}), ("Retire", set()), ("Lost", set())):
        moved = Moved("node", cause, "now", "t")
        made = replacement.manifest(OWNER, old, "web-1-b", "pod-template-hash", moved)["metadata"]["annotations"]
        assert {key for key in made if key in said} == wanted
        assert all(made[key] == said[key] for key in wanted)


def test_of_an_owner_that_is_not_read_a_pod_shows_what_it_would_make_next() -> None:
    owner = {"apiVersion": "example.org/v1", "kind": "Cell", "name": "c", "uid": "cell", "controller": True}
    head = {"name": "c-0", "namespace": "shop", "labels": {"app": "c"}, "annotations": {names.PREFIX + names.ELECT: ""}}
    source = {"metadata": {**head, "ownerReferences": [owner]}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    pod = proxy_pod(source, ())
    assert replacement.stand_in(pod) == {
        "apiVersion": "example.org/v1",
        "kind": "Cell",
        "metadata": {"name": "c", "namespace": "shop", "uid": "cell"},
        "spec": {
            "template": {
                "metadata": {"labels": head["labels"], "annotations": head["annotations"]},
                "spec": source_pod(pod)["spec"],
            }
        },
    }
    assert replacement.stand_in({**pod, "metadata": {**pod["metadata"], "ownerReferences": []}}) is None
    assert replacement.stand_in(source) is None


def test_the_label_that_is_left_out_is_that_of_deployments_or_one_that_no_service_selects() -> None:
    labels = {"app": "web", "tier": "a", "pod-template-hash": "1"}
    selector = OWNER["spec"]["selector"]
    assert replacement.label_to_leave_out(selector, labels, frozenset()) == "pod-template-hash"
    alone = {"matchLabels": {"app": "web", "tier": "a"}}
    assert replacement.label_to_leave_out(alone, labels, frozenset({"app"})) == "tier"
    given = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    assert replacement.label_to_leave_out(given, labels, frozenset({"app"})) == "app"
    without = {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    assert replacement.label_to_leave_out(without, labels, frozenset()) == ""


def patched(pod: Raw, patch: dict[str, str | None]) -> Raw:
    annotations = {**(pod["metadata"].get("annotations") or {}), **patch}
    kept = {key: value for key, value in annotations.items() if value is not None}
    return {**pod, "metadata": {**pod["metadata"], "annotations": kept}}


def test_marks_are_taken_back_and_a_cost_that_was_there_is_there_again() -> None:
    for before in ({}, {moves.DELETION_COST: "7"}):
        pod = patched(OLD, before)
        marked = patched(pod, replacement.mark(pod, "n", 1))
        annotations = marked["metadata"]["annotations"]
        assert int(annotations[moves.DELETION_COST]) == -(2**31) + 1
        assert replacement.rank(annotations) == 1
        again = patched(marked, {**replacement.mark(marked, "m", 0), moves.ANNOTATION_WITHDRAWN: '["app"]'})
        assert patched(again, replacement.restore(again)) == pod


def test_a_cost_that_somebody_has_set_meanwhile_stays() -> None:
    marked = patched(OLD, replacement.mark(OLD, "n", 0))
    changed = patched(marked, {moves.DELETION_COST: "5"})
    restored = patched(changed, replacement.restore(changed))
    assert restored["metadata"]["annotations"][moves.DELETION_COST] == "5"
    assert moves.ANNOTATION_REPLACED_BY not in restored["metadata"]["annotations"]


def test_what_nobody_can_read_says_nothing() -> None:
    assert replacement.withdrawn({moves.ANNOTATION_WITHDRAWN: "{"}) == frozenset()
    assert replacement.moved({moves.ANNOTATION_MOVED: "{"}) is None
    assert replacement.rank({moves.DELETION_COST: "x"}) is None
    assert replacement.rank({moves.DELETION_COST: "100"}) is None


def test_a_delegate_that_an_earlier_version_withdrew_gets_its_labels_back_with_the_mark() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop", "uid": "o", "labels": {"app": "web", "tier": "a"}},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    proxy = proxy_pod(pod, [])
    sent = chaperon(proxy, cluster_name="cd", cluster_uid="u")
    sent["metadata"]["uid"] = "c"
    there = (names.PREFIX + "app", names.SHORT_PREFIX + "U_app")
    assert livechanges.changes(proxy, source_pod(proxy), sent) == {}
    marked = patched(proxy, {moves.ANNOTATION_WITHDRAWN: '["app"]'})
    told = livechanges.changes(marked, source_pod(marked), sent)
    assert told["labels"] == dict.fromkeys(there)
    patch = livechanges.chaperon_patch(told, sent)["metadata"]
    note = {**sent["metadata"]["annotations"], **patch["annotations"]}
    sent = {**sent, "metadata": {**sent["metadata"], "annotations": note}}
    restored = patched(marked, replacement.restore(marked))
    assert livechanges.changes(restored, source_pod(restored), sent)["labels"] == dict.fromkeys(there, "web")
