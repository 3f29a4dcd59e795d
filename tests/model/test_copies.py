"""Copies of config maps and secrets: the same but for whose child they are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import CONFIGMAPS, SECRETS
from agent.model import copies
from agent.model.annotations import LIMIT
from agent.model.annotations import size as annotation_size

Raw = dict[str, Any]

OURS = "5e1f-cluster"
OF_CLIENTS = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "objectset.rio.cattle.io/applied": "{}",
    "kapp.k14s.io/original": "{}",
    "meta.helm.sh/release-name": "web",
    "argocd.argoproj.io/tracking-id": "web:/ConfigMap:team/settings",
}
P = names.PREFIX


def original(**fields: Any) -> Raw:
    metadata = {
        "name": "settings",
        "namespace": "team",
        "uid": "U1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"app": "web", P + "has-finalizer": "true"},
        "annotations": {"note": "mine", "multicluster/note": "x", **OF_CLIENTS},
        "finalizers": [P + "team-us"],
        "ownerReferences": [{"uid": "O"}],
    }
    return {"metadata": metadata, "data": {"a": "1"}, **fields}


def copied(given: Raw | None = None) -> Raw:
    return copies.copy_of(CONFIGMAPS, given or original(), cluster_name="cd", cluster_uid=OURS)


@given(st.lists(st.sampled_from([1, 1000, 100_000, 262_000]), max_size=8))
def test_annotations_that_do_not_fit_beside_ours_are_left_out_the_largest_first(sizes: list[int]) -> None:
    annotations = {f"example.com/{index}": "x" * size for index, size in enumerate(sizes)}
    given_original = original()
    given_original["metadata"]["annotations"] = annotations
    found = copied(given_original)["metadata"]["annotations"]
    assert annotation_size(found) <= LIMIT
    left_out = annotations.keys() - found.keys()
    smallest = min((len(annotations[key]) for key in left_out), default=LIMIT)
    assert all(len(value) <= smallest for value in found.values())
    assert annotation_size(found) + smallest > LIMIT - 200


def stored(copy: Raw, **metadata: Any) -> Raw:
    """Return the object as the target's API server stores it."""
    return {**copy, "metadata": {**copy["metadata"], "uid": "C1", "resourceVersion": "3", **metadata}}


def test_a_copy_has_the_content_and_says_whose_child_it_is() -> None:
    assert copied(original(binaryData={"b": "AA=="}, immutable=True, futureField=[1])) == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "settings",
            "namespace": "team",
            "labels": {
                "app": "web",
                P + "parent-uid": "U1",
                P + "parent-cluster-name": "cd",
                "multicluster/parent-cluster-uid": OURS,
            },
            "annotations": {
                "note": "mine",
                P + "parent-name": "settings",
                P + "parent-namespace": "team",
            },
        },
        "data": {"a": "1"},
        "binaryData": {"b": "AA=="},
        "immutable": True,
        "futureField": [1],
    }


def test_a_copy_of_a_copy_is_a_child_of_the_copy() -> None:
    chained = copies.copy_of(CONFIGMAPS, stored(copied()), cluster_name="us", cluster_uid="other")
    assert chained["metadata"]["labels"] == {
        "app": "web",
        P + "parent-uid": "C1",
        P + "parent-cluster-name": "us",
        "multicluster/parent-cluster-uid": "other",
    }


EDITS = [
    pytest.param({"data": {"a": "2"}}, id="other data"),
    pytest.param({"data": {"a": "1", "b": "1"}}, id="more data"),
    pytest.param({"binaryData": {"b": "AA=="}}, id="binary data"),
    pytest.param({"immutable": True}, id="made immutable"),
]


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_copy_differs(edit: Raw) -> None:
    assert copies.same_content(stored(copied()), copied())
    assert not copies.same_content({**stored(copied()), **edit}, copied())


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_label_or_annotation_added_or_removed_by_hand_differs(field: str) -> None:
    copy = stored(copied())
    assert not copies.same_content(stored(copy, **{field: {**copy["metadata"][field], "by": "hand"}}), copied())
    assert not copies.same_content(stored(copy, **{field: {}}), copied())


def test_what_is_immutable_is_replaced_only_where_its_content_differs() -> None:
    frozen = copied(original(immutable=True))
    assert not copies.must_be_replaced(stored(frozen), frozen)
    assert copies.must_be_replaced(stored(frozen), copied(original(immutable=True, data={"a": "2"})))
    assert copies.must_be_replaced(stored(frozen), copied())
    assert not copies.must_be_replaced(stored(copied()), copied(original(immutable=True, data={"a": "2"})))


def test_a_secret_of_another_type_is_replaced() -> None:
    opaque, tls = (
        copies.copy_of(SECRETS, original(type=kind), cluster_name="", cluster_uid=OURS)
        for kind in ("Opaque", "kubernetes.io/tls")
    )
    assert copies.must_be_replaced(stored(opaque), tls)
    assert not copies.must_be_replaced(stored(opaque), opaque)


def test_a_revision_is_of_this_very_copy_and_leaves_its_owners() -> None:
    owner = [{"uid": "T"}]
    body = copies.revised(stored(copied(), ownerReferences=owner, finalizers=["x/y"]), copied())
    assert body["metadata"]["uid"] == "C1"
    assert body["metadata"]["resourceVersion"] == "3"
    assert body["metadata"]["ownerReferences"] == owner
    assert body["metadata"]["finalizers"] == ["x/y"]
    assert body["data"] == {"a": "1"}


def labelled(**labels: str) -> Raw:
    return {"metadata": {"uid": "X", "labels": labels}}


OWNERS = [
    pytest.param({"metadata": {"uid": "X"}}, False, id="foreign"),
    pytest.param(stored(copied()), True, id="ours"),
    pytest.param(stored(copied(), labels={names.LABEL_PARENT_CLUSTER_UID: OURS}), True, id="ours of an older original"),
    pytest.param(labelled(**{names.LABEL_PARENT_UID: "U1"}), True, id="made by Admiralty of this original"),
    pytest.param(labelled(**{names.LABEL_PARENT_UID: "U0"}), False, id="made by Admiralty of another original"),
    pytest.param(
        labelled(**{names.LABEL_PARENT_UID: "U1", names.LABEL_PARENT_CLUSTER_UID: "other"}),
        False,
        id="of another cluster",
    ),
    pytest.param(
        {"metadata": {"uid": "X", "annotations": {names.LABEL_PARENT_UID: "U1"}}}, True, id="made by Admiralty v0.10"
    ),
]


@pytest.mark.parametrize(("found", "want"), OWNERS)
def test_a_copy_is_ours_by_our_clusters_uid_else_by_its_original(found: Raw, want: bool) -> None:
    assert copies.belongs_to(found, "U1", OURS) is want


def test_the_original_itself_and_what_it_is_a_copy_of_are_recognised() -> None:
    assert copies.is_same_or_upstream({"metadata": {"uid": "U1"}}, original())
    assert copies.is_same_or_upstream(original(), stored(copied()))
    assert not copies.is_same_or_upstream({"metadata": {"uid": "X"}}, original())


_PAIRS = st.dictionaries(st.sampled_from(["a", "b", P + "c", "multicluster/d"]), st.sampled_from(["", "1"]))


@given(_PAIRS, _PAIRS, _PAIRS)
def test_a_copy_just_made_is_the_same_whatever_the_original_carries(labels: Raw, annotations: Raw, data: Raw) -> None:
    given_original = original(data=data)
    given_original["metadata"] |= {"labels": labels, "annotations": annotations}
    copy = copied(given_original)
    assert copies.same_content(stored(copy), copied(given_original))
    assert copies.belongs_to(copy, "U1", OURS)
    theirs = {key: value for key, value in labels.items() if not names.is_ours(key)}
    assert {key: copy["metadata"]["labels"].get(key) for key in theirs} == theirs
