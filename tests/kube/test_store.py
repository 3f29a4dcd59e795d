import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.kinds import PODS
from agent.kube.store import Object, Store
from tests.kube.objects import obj

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "default",
        "uid": "u1",
        "resourceVersion": "7",
        "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:metadata": {}}}],
        "annotations": {"a": "b", "copy": '{"managedFields":[]}'},
        "finalizers": ["x/y"],
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [
            {"kind": "Other", "name": "o", "uid": "o1"},
            {"kind": "ReplicaSet", "name": "rs", "uid": "r1", "controller": True},
        ],
    },
    "spec": {"nodeName": "n1", "schedulerName": "s", "futureField": {"deep": [1]}},
    "status": {"phase": "Running"},
}


def compact(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_the_head_says_what_is_looked_at_most() -> None:
    pod = Object(PODS, compact(POD))
    assert (pod.key, pod.uid, pod.version) == (("default", "web"), "u1", "7")
    assert (pod.node_name, pod.scheduler_name, pod.phase) == ("n1", "s", "Running")
    assert (pod.finalizers, pod.deleting, pod.labels) == (["x/y"], True, {})
    assert pod.annotations["a"] == "b"
    assert pod.controller is not None
    assert pod.controller.uid == "r1"


def test_what_we_do_not_know_survives_and_managed_fields_go() -> None:
    pod = Object(PODS, compact(POD))
    assert b"kubectl" not in pod.raw
    expected = json.loads(json.dumps(POD))
    del expected["metadata"]["managedFields"]
    assert pod.decode() == expected


def test_managed_fields_go_however_the_json_is_spaced() -> None:
    assert "managedFields" not in Object(PODS, json.dumps(POD, indent=2).encode()).decode()["metadata"]


def test_each_decoding_is_a_dict_of_its_own() -> None:
    pod = Object(PODS, compact(POD))
    pod.decode()["metadata"]["name"] = "changed"
    assert pod.decode()["metadata"]["name"] == "web"


def test_an_item_of_a_list_gets_its_api_version_and_kind_back() -> None:
    item = obj("a").decode()
    assert (item["apiVersion"], item["kind"]) == ("v1", "ConfigMap")


def test_absent_parts_read_as_empty() -> None:
    bare = obj("a")
    assert (bare.node_name, bare.scheduler_name, bare.phase, bare.finalizers) == ("", "", "", [])
    assert (bare.annotations, bare.controller, bare.deleting) == ({}, None, False)


def by_labels(found: Object) -> Iterable[str]:
    return found.labels.values()


names = st.sampled_from("abcde")
labels = st.dictionaries(st.sampled_from("xy"), st.sampled_from("pqr"), max_size=2)
steps = st.lists(st.tuples(st.sampled_from(["put", "remove"]), names, labels), max_size=40)


@given(steps, st.integers(0, 40))
def test_an_index_equals_its_recomputation_after_any_sequence_of_changes(
    changes: list[tuple[str, str, dict[str, str]]], made_after: int
) -> None:
    store = Store()
    model: dict[str, dict[str, str]] = {}
    for number, (step, name, labelled) in enumerate(changes):
        if number == made_after:
            store.index("label", by_labels)
        before = store.get(("default", name))
        if step == "put":
            old = store.put(obj(name, number, labels=labelled))
            model[name] = labelled
        else:
            old = store.remove(("default", name))
            model.pop(name, None)
        assert old is before
    store.index("label", by_labels)
    for value in "pqr":
        expected = {name for name, labelled in model.items() if value in labelled.values()}
        found = store.by_index("label", value)
        assert sorted(each.name for each in found) == sorted(expected)
        assert store.count("label", value) == len(expected)
        assert all(store.get(each.key) is each for each in found)
    assert {name for _, name in store.keys()} == model.keys() == {each.name for each in store}  # noqa: SIM118
    assert len(store) == len(model)


def test_an_index_made_twice_is_kept_once() -> None:
    store = Store()
    store.index("label", by_labels)
    store.put(obj("a", labels={"x": "p"}))
    store.index("label", by_labels)
    assert len(store.by_index("label", "p")) == 1


def test_an_index_that_is_not_kept_cannot_be_asked() -> None:
    with pytest.raises(KeyError):
        Store().by_index("nothing", "p")


def test_a_store_may_change_while_it_is_walked_through() -> None:
    store = Store()
    for name in "abc":
        store.put(obj(name))
    for each in store:
        store.remove(each.key)
    assert len(store) == 0
