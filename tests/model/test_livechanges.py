"""Changes of a running proxy pod: the permitted ones reach its delegate, all others do not."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import delegates
from agent.model.delegatepod import chaperon, delegate
from agent.model.errors import InvalidPod
from agent.model.livechanges import (
    changes,
    chaperon_patch,
    delegate_patch,
    ephemeral_patch,
    missing_labels,
    new_labels,
    resize_patch,
    told,
)
from agent.model.proxypod import proxy_pod, source_pod
from tests.examples import examples

Raw = dict[str, Any]

ZONE = 'topology.kubernetes.io/zone="us-1"'
LABELS_FILE, ANNOTATIONS_FILE = delegates.ANNOTATION_LABELS_FILE, delegates.ANNOTATION_ANNOTATIONS_FILE


def a_pod() -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "namespace": "default",
            "labels": {"app": "web"},
            "annotations": {"multicluster/elect": "", "team": "x"},
        },
        "spec": {
            "containers": [
                {"name": "c", "image": "one", "resources": {"requests": {"cpu": "1"}}},
                {"name": "d", "image": "other"},
            ],
            "initContainers": [{"name": "i", "image": "init"}],
            "tolerations": [{"key": "own", "operator": "Exists"}],
        },
    }


class Both:
    """A proxy pod, its chaperon and its delegate, with the transfer of changes between them."""

    def __init__(self) -> None:
        self.proxy = copy.deepcopy(proxy_pod(a_pod(), ["multicluster.admiralty.io/default-t"]))
        self.proxy["metadata"]["uid"] = "u"
        self.chaperon = copy.deepcopy(chaperon(self.proxy, cluster_name="c", cluster_uid="k"))
        self.chaperon["metadata"]["uid"] = "cu"
        self.pod = copy.deepcopy(delegate(self.chaperon))

    @property
    def annotations(self) -> Raw:
        found: Raw = self.proxy["metadata"]["annotations"]
        return found

    def changed(self) -> Raw:
        return changes(self.proxy, source_pod(self.proxy), self.chaperon)

    def of_an_earlier_version(self) -> dict[str, str]:
        """Remove the labels with the short prefix. Return them."""
        labels = self.pod["metadata"]["labels"]
        ours = {key: value for key, value in labels.items() if key.startswith(names.SHORT_PREFIX)}
        for each in (self.chaperon, self.pod):
            merge(each["metadata"]["labels"], dict.fromkeys(ours))
        return ours

    def tell(self) -> Raw:
        changed = self.changed()
        added = new_labels(self.proxy, changed, self.chaperon, "k")
        patch = chaperon_patch(changed, self.chaperon, added)
        for field, values in patch.get("metadata", {}).items():
            if isinstance(values, dict):
                merge(self.chaperon["metadata"].setdefault(field, {}), values)
        return patch

    def follow(self) -> tuple[Raw, Raw]:
        meant = told(self.chaperon)
        return delegate_patch(meant, self.pod), resize_patch(meant, self.pod)


def merge(into: Raw, values: Raw) -> None:
    for key, value in values.items():
        if value is None:
            into.pop(key, None)
        else:
            into[key] = value


def test_a_delegate_serves_from_its_creation() -> None:
    both = Both()
    assert names.LABEL_SERVING not in both.proxy["metadata"]["labels"]
    assert both.pod["metadata"]["labels"][names.LABEL_SERVING] == "true"
    assert both.tell() == {}, "pods of this version cost no write"


def test_a_delegate_that_is_withdrawn_by_our_label_alone_keeps_its_own_labels() -> None:
    both = Both()
    both.annotations["multicluster/withdrawn"] = '["multicluster/serving"]'
    both.tell()
    assert both.follow()[0] == {"metadata": {"labels": {names.LABEL_SERVING: None}}}
    assert names.LABEL_SERVING not in both.chaperon["metadata"]["labels"]
    del both.annotations["multicluster/withdrawn"], both.pod["metadata"]["labels"][names.LABEL_SERVING]
    both.tell()
    assert both.follow()[0] == {"metadata": {"labels": {names.LABEL_SERVING: "true"}}}, "it serves again"


def test_a_delegate_of_an_earlier_version_gets_our_labels_without_a_live_change() -> None:
    both = Both()
    ours = both.of_an_earlier_version()
    assert missing_labels({}, both.chaperon, both.pod) is None
    both.tell()
    assert told(both.chaperon) == {}, "an earlier version would take a live change back"
    lacking = missing_labels({}, both.chaperon, both.pod)
    assert lacking == ours
    merge(both.pod["metadata"]["labels"], lacking)
    assert missing_labels({}, both.chaperon, both.pod) == {}
    assert both.tell() == {}
    assert delegates.ANNOTATION_NEW_LABELS not in delegate(both.chaperon)["metadata"]["annotations"]


def test_a_withdrawn_delegate_of_an_earlier_version_does_not_serve() -> None:
    both = Both()
    both.of_an_earlier_version()
    both.tell()
    both.annotations["multicluster/withdrawn"] = '["multicluster/serving"]'
    both.tell()
    lacking = missing_labels(told(both.chaperon), both.chaperon, both.pod) or {}
    assert lacking
    assert names.LABEL_SERVING not in lacking
    assert both.follow()[0] == {}


def test_a_pod_that_nobody_changed_has_nothing_to_tell() -> None:
    both = Both()
    assert both.changed() == {}
    assert both.tell() == {}
    assert both.follow() == ({}, {})


def test_a_new_label_arrives_under_our_prefix_on_chaperon_and_delegate() -> None:
    both = Both()
    both.proxy["metadata"]["labels"]["tier"] = "front"
    both.tell()
    want = {names.PREFIX + "tier": "front", "multicluster/U_tier": "front"}
    assert want.items() <= both.chaperon["metadata"]["labels"].items()
    assert both.follow()[0] == {"metadata": {"labels": want}}


def test_a_removed_label_is_removed() -> None:
    both = Both()
    del both.proxy["metadata"]["labels"]["app"]
    both.tell()
    assert names.PREFIX + "app" not in both.chaperon["metadata"]["labels"]
    assert both.follow()[0] == {"metadata": {"labels": {names.PREFIX + "app": None, "multicluster/U_app": None}}}


def test_files_of_all_labels_and_annotations_follow_and_what_came_home_is_not_in_them() -> None:
    both = Both()
    for key, text in ((LABELS_FILE, 'app="web"'), (ANNOTATIONS_FILE, 'team="x"')):
        for each in (both.chaperon, both.pod):
            each["metadata"]["annotations"][key] = text
    for each in (both.proxy, both.chaperon, both.pod):
        each["metadata"]["annotations"]["cni"] = "10.0.0.1"
    assert both.tell() == {}, "an annotation that came home costs no write"
    both.proxy["metadata"]["labels"] |= {"x.io/tier": "front", "topology.kubernetes.io/zone": "us-1"}
    both.annotations["team"] = "y"
    both.tell()
    told_now = both.follow()[0]["metadata"]["annotations"]
    assert told_now == {"team": "y", LABELS_FILE: f'app="web"\n{ZONE}\nx.io/tier="front"', ANNOTATIONS_FILE: 'team="y"'}
    merge(both.pod["metadata"]["annotations"], told_now)
    assert both.tell() == {}
    del both.proxy["metadata"]["labels"]["x.io/tier"]
    both.tell()
    assert both.follow()[0]["metadata"]["annotations"] == {LABELS_FILE: f'app="web"\n{ZONE}'}


def test_labels_that_name_the_parent_never_change() -> None:
    both = Both()
    both.proxy["metadata"]["labels"]["tier"] = "front"
    both.tell()
    assert both.chaperon["metadata"]["labels"][names.LABEL_PARENT_UID] == "u"


@pytest.mark.parametrize("value", ["y", None], ids=["changed", "removed"])
def test_an_annotation_of_the_user_follows(value: str | None) -> None:
    both = Both()
    merge(both.annotations, {"team": value})
    both.tell()
    assert both.chaperon["metadata"]["annotations"].get("team") == value
    assert both.follow()[0] == {"metadata": {"annotations": {"team": value}}}


def test_an_annotation_that_came_home_from_the_delegate_is_no_change() -> None:
    both = Both()
    both.chaperon["metadata"]["annotations"]["cni"] = "10.0.0.1"
    both.annotations["cni"] = "10.0.0.1"
    assert both.changed() == {}


def test_an_annotation_that_the_delegate_changed_is_not_taken_back_while_home_is_behind() -> None:
    both = Both()
    both.chaperon["metadata"]["annotations"]["team"] = "from the target"
    assert both.changed() == {}


def test_topology_labels_that_binding_added_are_no_change() -> None:
    both = Both()
    both.proxy["metadata"]["labels"] |= {"topology.kubernetes.io/region": "us", "topology.kubernetes.io/zone": "us-1"}
    assert both.changed() == {}


def test_our_own_keys_never_travel() -> None:
    both = Both()
    both.annotations.update({"multicluster/claim": "n", names.PREFIX + "x": "y"})
    both.proxy["metadata"]["labels"]["multicluster/mine"] = "z"
    assert both.changed() == {}


def test_a_change_that_is_taken_back_is_followed_back() -> None:
    both = Both()
    both.annotations["team"] = "y"
    both.tell()
    both.pod["metadata"]["annotations"]["team"] = "y"
    both.annotations["team"] = "x"
    assert both.tell() != {}
    assert both.follow()[0] == {"metadata": {"annotations": {"team": "x"}}}


def test_a_new_image_reaches_its_container_only() -> None:
    both = Both()
    both.proxy["spec"]["containers"][0]["image"] = "two"
    both.tell()
    assert both.follow()[0] == {"spec": {"containers": [{"name": "c", "image": "two"}]}}


def test_an_image_that_the_target_rewrote_at_creation_is_left_alone() -> None:
    both = Both()
    both.pod["spec"]["containers"][1]["image"] = "mirror/other"
    both.proxy["spec"]["containers"][0]["image"] = "two"
    both.tell()
    assert both.follow()[0] == {"spec": {"containers": [{"name": "c", "image": "two"}]}}


def test_new_resources_go_through_the_resize_subresource() -> None:
    both = Both()
    resources = {"requests": {"cpu": "2"}}
    both.proxy["spec"]["containers"][0]["resources"] = resources
    both.tell()
    assert both.follow() == ({}, {"spec": {"containers": [{"name": "c", "resources": resources}]}})


def test_new_resources_of_the_whole_pod_go_the_same_way_and_are_taken_back() -> None:
    both = Both()
    first, second = {"requests": {"cpu": "1"}}, {"requests": {"cpu": "2"}}
    for each in (both.proxy, both.chaperon, both.pod):
        each["spec"]["resources"] = first
    assert both.changed() == {}
    both.proxy["spec"]["resources"] = second
    both.tell()
    assert both.follow() == ({}, {"spec": {"resources": second}})
    both.pod["spec"]["resources"] = second
    assert both.follow() == ({}, {})
    both.proxy["spec"]["resources"] = first
    both.tell()
    assert both.follow() == ({}, {"spec": {"resources": first}})


def test_an_added_toleration_is_added_and_the_api_servers_own_are_not() -> None:
    both = Both()
    added = {"key": "new", "operator": "Exists", "effect": "NoSchedule"}
    limited = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for_a_while = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}
    both.proxy["spec"]["tolerations"] += [limited, added, for_a_while]
    both.tell()
    assert both.follow()[0] == {"spec": {"tolerations": [{"key": "own", "operator": "Exists"}, added, for_a_while]}}


def debugger(name: str = "debugger", **more: Any) -> Raw:
    return {"name": name, "image": "busybox", "targetContainerName": "c", **more}


def test_a_container_to_debug_it_with_is_added_once() -> None:
    both = Both()
    both.proxy["spec"]["ephemeralContainers"] = [debugger()]
    both.tell()
    meant = told(both.chaperon)
    assert ephemeral_patch(meant, both.pod, ()) == {"spec": {"ephemeralContainers": [debugger()]}}
    both.pod["spec"]["ephemeralContainers"] = [debugger(imagePullPolicy="Always")]
    assert ephemeral_patch(meant, both.pod, ()) == {}
    both.proxy["spec"]["ephemeralContainers"].append(debugger("other"))
    both.tell()
    assert ephemeral_patch(told(both.chaperon), both.pod, ()) == {"spec": {"ephemeralContainers": [debugger("other")]}}


def test_a_container_to_debug_it_with_is_not_started_again_in_another_delegate() -> None:
    both = Both()
    both.proxy["spec"]["ephemeralContainers"] = [debugger(), debugger("other")]
    both.tell()
    patch = ephemeral_patch(told(both.chaperon), both.pod, {"debugger"})
    assert patch == {"spec": {"ephemeralContainers": [debugger("other")]}}


def test_a_container_to_debug_it_with_sees_the_proxy_and_no_token_of_the_source() -> None:
    both = Both()
    own = {"name": "data", "mountPath": "/data"}
    volume = {"name": "kube-api-access-q9", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    both.proxy["spec"]["volumes"] = [volume]
    token = {"name": volume["name"], "mountPath": names.SERVICE_ACCOUNT_MOUNT}
    env = [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    both.proxy["spec"]["ephemeralContainers"] = [debugger(env=env, volumeMounts=[own, token])]
    both.tell()
    want = debugger(env=[{"name": "POD", "value": "web-1"}], volumeMounts=[own])
    assert ephemeral_patch(told(both.chaperon), both.pod, ()) == {"spec": {"ephemeralContainers": [want]}}


def test_containers_to_debug_it_with_have_a_limit_for_the_values_that_are_written_out() -> None:
    both = Both()
    long = "multicluster/note"
    both.proxy["metadata"]["annotations"][long] = "x" * 100_000
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{long}']"}}
    env = [{"name": f"V{index}", "valueFrom": source} for index in range(6)]
    both.proxy["spec"]["ephemeralContainers"] = [debugger("one", env=env), debugger("two", env=env)]
    with pytest.raises(InvalidPod, match="more than 1048576 bytes"):
        both.tell()


def test_what_was_said_of_a_container_to_debug_it_with_stays() -> None:
    both = Both()
    env = [{"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}}]
    both.proxy["spec"]["ephemeralContainers"] = [debugger(env=env)]
    both.tell()
    said = told(both.chaperon)["ephemeralContainers"]
    both.proxy["metadata"]["labels"]["app"] = "another"
    both.tell()
    assert told(both.chaperon)["ephemeralContainers"] == said


def test_labels_stay_as_they_are_while_the_pattern_is_too_much_for_them() -> None:
    both = Both()
    manifest = both.annotations[names.ANNOTATION_MANIFEST]
    key = "multicluster/no-prefix-label-regexp"
    both.annotations[names.ANNOTATION_MANIFEST] = manifest.replace(
        '"annotations":{', f'"annotations":{{"{key}":"(.{{50}}x)+q",'
    )
    both.proxy["metadata"]["labels"]["tier"] = "front"
    both.tell()
    known = both.changed()["labels"]
    assert "front" in known.values()
    both.proxy["metadata"]["labels"] |= {f"label-{index}": "x" * 60 for index in range(500)}
    assert both.changed()["labels"] == known


def test_a_sooner_deadline_follows() -> None:
    both = Both()
    both.proxy["spec"]["activeDeadlineSeconds"] = 60
    both.tell()
    assert both.follow()[0] == {"spec": {"activeDeadlineSeconds": 60}}


def test_a_delegate_that_has_followed_is_not_patched_again() -> None:
    both = Both()
    both.proxy["spec"]["containers"][0]["image"] = "two"
    both.annotations["team"] = "y"
    both.tell()
    both.pod["spec"]["containers"][0]["image"] = "two"
    both.pod["metadata"]["annotations"]["team"] = "y"
    assert both.tell() == {}
    assert both.follow() == ({}, {})


def test_a_damaged_annotation_on_a_chaperon_counts_as_none() -> None:
    both = Both()
    both.chaperon["metadata"]["annotations"][names.ANNOTATION_LIVE_CHANGES] = "{"
    assert told(both.chaperon) == {}


SCALAR = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
INNER = st.recursive(SCALAR, lambda each: st.lists(each, max_size=2) | st.dictionaries(st.text(max_size=3), each))
FIELDS = ("labels", "annotations", "images", "resources", "tolerations", "activeDeadlineSeconds", "ephemeralContainers")


@settings(max_examples=examples(500))
@given(
    st.text(max_size=20)
    | st.builds(
        lambda said: msgspec.json.encode(said).decode(),
        st.dictionaries(st.sampled_from(FIELDS), INNER | st.lists(st.dictionaries(st.just("name"), INNER), max_size=2)),
    )
)
def test_whatever_a_chaperon_says_of_changes_there_are_patches_or_none(text: str) -> None:
    said = told({"metadata": {"annotations": {names.ANNOTATION_LIVE_CHANGES: text}}})
    pod = {"metadata": {}, "spec": a_pod()["spec"]}
    assert isinstance(delegate_patch(said, pod), dict)
    assert isinstance(resize_patch(said, pod), dict)
    assert isinstance(ephemeral_patch(said, pod, ()), dict)
