import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agent.model import json_or_yaml
from agent.model.proxypod import InvalidPod, is_delegate, is_elected, is_proxy, proxy_pod, source_pod
from tests.model.pods import P, pod

FINALIZERS = [P + "default-c2", P + "c3"]
MANIFEST = P + "sourcepod-manifest"
CONSTRAINTS = P + "proxy-pod-scheduling-constraints"
USE_SPEC = P + "use-constraints-from-spec-for-proxy-pod-scheduling"
REGEXP = P + "no-prefix-label-regexp"

BASE_TOLERATIONS = [
    {"key": "virtual-kubelet.io/provider", "value": "admiralty"},
    {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
]


def chaperon_owner(**over: Any) -> dict[str, Any]:
    return {"apiVersion": P + "v1alpha1", "kind": "PodChaperon", "name": "x", "uid": "C", "controller": True, **over}


@pytest.mark.parametrize(
    ("annotations", "want"),
    [
        ({P + "elect": ""}, True),
        ({P + "elect": "false"}, True),
        ({"multicluster/elect": ""}, True),
        ({"multicluster/elect": "true"}, True),
        ({"multicluster/elect": "false"}, False),
        ({P + "elect": "", "multicluster/elect": "false"}, True),
        ({"elect": ""}, False),
        ({}, False),
        (None, False),
    ],
)
def test_pods_are_elected_by_the_presence_of_an_annotation(annotations: dict[str, str] | None, want: bool) -> None:
    assert is_elected({"metadata": {"annotations": annotations}}) is want


def test_a_pod_without_annotations_at_all_is_not_elected() -> None:
    assert not is_elected({"metadata": {"name": "x"}, "spec": {}})


def test_a_pod_controlled_by_a_chaperon_is_never_elected() -> None:
    delegate = pod(metadata={"ownerReferences": [chaperon_owner()]})
    assert is_delegate(delegate)
    assert not is_elected(delegate)


@pytest.mark.parametrize("over", [{"controller": False}, {"apiVersion": "other/v1"}, {"kind": "Job"}])
def test_only_a_controlling_chaperon_of_our_group_makes_a_delegate(over: dict[str, Any]) -> None:
    assert is_elected(pod(metadata={"ownerReferences": [chaperon_owner(**over)]}))


def test_a_proxy_pod_is_known_by_its_scheduler() -> None:
    assert not is_proxy(pod())
    assert is_proxy(proxy_pod(pod(), FINALIZERS))


def test_the_proxy_pod_differs_from_the_source_pod_in_exactly_these_fields() -> None:
    source = pod()
    proxy = proxy_pod(source, FINALIZERS)
    want = copy.deepcopy(source)
    want["metadata"]["annotations"][MANIFEST] = proxy["metadata"]["annotations"][MANIFEST]
    want["metadata"]["labels"][P + "has-finalizer"] = "true"
    want["metadata"]["finalizers"] = FINALIZERS
    want["spec"]["nodeSelector"] = {"virtual-kubelet.io/provider": "admiralty"}
    want["spec"]["tolerations"] = BASE_TOLERATIONS
    want["spec"]["schedulerName"] = "admiralty-proxy"
    want["spec"]["terminationGracePeriodSeconds"] = 0
    assert proxy == want


def test_the_grace_period_is_as_long_as_the_longest_sleep_of_a_hook_because_the_api_server_demands_it() -> None:
    source = pod()
    source["spec"]["containers"][0]["lifecycle"] = {"stopSignal": "SIGINT", "preStop": {"sleep": {"seconds": 3}}}
    source["spec"]["initContainers"] = [{"name": "side", "lifecycle": {"postStart": {"sleep": {"seconds": 5}}}}]
    assert proxy_pod(source, FINALIZERS)["spec"]["terminationGracePeriodSeconds"] == 5


def test_the_given_pod_is_not_changed() -> None:
    source = pod({CONSTRAINTS: "nodeSelector: {a: b}"})
    before = copy.deepcopy(source)
    proxy_pod(source, FINALIZERS)
    assert source == before


def test_the_manifest_is_json_of_the_whole_pod_but_for_managed_fields() -> None:
    source = pod(spec={"fieldOfTomorrow": {"x": [1, None]}})
    manifest = json.loads(proxy_pod(source, [])["metadata"]["annotations"][MANIFEST])
    del source["metadata"]["managedFields"]
    assert manifest == source


def test_a_manifest_says_what_it_is_even_if_the_pod_does_not() -> None:
    source = pod()
    del source["apiVersion"], source["kind"]
    manifest = json.loads(proxy_pod(source, [])["metadata"]["annotations"][MANIFEST])
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "Pod")


def test_reinvocation_changes_nothing_though_another_webhook_added_a_container_meanwhile() -> None:
    once = proxy_pod(pod(), FINALIZERS)
    once["spec"]["containers"] = [*once["spec"]["containers"], {"name": "sidecar", "image": "s"}]
    assert proxy_pod(once, FINALIZERS) == once


@given(
    annotations=st.dictionaries(
        st.sampled_from(["a/b", USE_SPEC, "multicluster/no-reservation", "multicluster/no-prefix-label-regexp"]),
        st.sampled_from(["", "x"]),
    ),
    labels=st.dictionaries(st.sampled_from(["a", "b.io/c", P + "has-finalizer"]), st.text("ab", max_size=3)),
    finalizers=st.lists(st.sampled_from([P + "a", P + "b", P + "c"])),
    there=st.lists(st.sampled_from([P + "a", P + "gone", "example.com/mine"])),
    constraints=st.booleans(),
)
def test_making_a_proxy_pod_of_a_proxy_pod_changes_nothing(
    annotations: dict[str, str], labels: dict[str, str], finalizers: list[str], there: list[str], constraints: bool
) -> None:
    if constraints:
        annotations = {**annotations, CONSTRAINTS: '{"tolerations": [{"operator": "Exists"}]}'}
    once = proxy_pod(pod(annotations, labels, metadata={"finalizers": there}), finalizers)
    assert proxy_pod(once, finalizers) == once


def test_stale_finalizers_of_ours_go_and_foreign_ones_stay_first() -> None:
    source = pod(metadata={"finalizers": [P + "gone", "multicluster/old", "example.com/mine"]})
    assert proxy_pod(source, FINALIZERS)["metadata"]["finalizers"] == ["example.com/mine", *FINALIZERS]


def test_a_pod_without_targets_still_gets_the_label() -> None:
    proxy = proxy_pod(pod(), [])
    assert proxy["metadata"]["finalizers"] == []
    assert proxy["metadata"]["labels"][P + "has-finalizer"] == "true"


@pytest.mark.parametrize("prefix", [P, "multicluster/"])
@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["as json", "as yaml"])
def test_constraints_for_the_proxy_pod_are_taken_from_the_annotation(prefix: str, write: Any) -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "topology.kubernetes.io/region"}
    fragment = {
        "nodeSelector": {"region": "eu"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
        "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}],
    }
    key = prefix + "proxy-pod-scheduling-constraints"
    spec = proxy_pod(pod({key: write(fragment), USE_SPEC: ""}), [])["spec"]
    assert spec["nodeSelector"] == {"region": "eu", "virtual-kubelet.io/provider": "admiralty"}
    assert spec["tolerations"] == [*BASE_TOLERATIONS, *fragment["tolerations"]]
    assert spec["affinity"] == fragment["affinity"]
    assert spec["topologySpreadConstraints"] == fragment["topologySpreadConstraints"]


def test_constraints_of_the_spec_stay_off_the_proxy_pod_unless_asked_for() -> None:
    spec = {"affinity": {"nodeAffinity": {}}, "topologySpreadConstraints": [{"maxSkew": 1}]}
    assert not {"affinity", "topologySpreadConstraints"} & proxy_pod(pod(spec=spec), [])["spec"].keys()
    assert spec.items() <= proxy_pod(pod({USE_SPEC: ""}, spec=spec), [])["spec"].items()


def test_constraints_of_the_spec_come_without_the_300_seconds_that_api_servers_add() -> None:
    mine = {"key": "gpu", "operator": "Exists"}
    source = pod({USE_SPEC: ""})
    source["spec"]["tolerations"].append(mine)
    spec = proxy_pod(source, [])["spec"]
    assert spec["tolerations"] == [*BASE_TOLERATIONS, mine]
    assert spec["nodeSelector"]["topology.kubernetes.io/region"] == "eu"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("nodeSelecter: {a: b}", "nodeSelecter"),
        ("containers: []", "containers"),
        ("nodeSelector: {a: 1}", "nodeSelector"),
        ("nodeSelector: [a]", "nodeSelector"),
        ("tolerations: {key: a}", "tolerations"),
        ("tolerations: [{key: a, efect: NoSchedule}]", "efect"),
        ("affinity: {nodeAffinity: {required: {}}}", "nodeAffinity"),
        ("topologySpreadConstraints: [{maxSkew: one, topologyKey: a, whenUnsatisfiable: b}]", "maxSkew"),
        ("- a", "array"),
        ("{", "parsing"),
        ("nodeSelector: {a: b, a: c}", "twice"),
        ("nodeSelector: {<<: {a: b}}", "not a string"),
        ("affinity: &a {nodeAffinity: *a}", "written out"),
        (
            "\n".join(["a0: &a0 {}", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))]),
            "written out",
        ),
        ("1: 2", "not a string"),
        ("nodeSelector: !!python/object:os.system {}", "python"),
        ("[" * 100_000, "nested"),
    ],
)
def test_wrong_constraints_are_refused_with_the_annotation_and_the_reason(text: str, want: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        proxy_pod(pod({CONSTRAINTS: text}), [])
    assert caught.value.field == f"metadata.annotations[{CONSTRAINTS}]"
    assert want in caught.value.reason


@pytest.mark.parametrize("text", ["", "{}", "null", "nodeSelector:", "affinity: null"])
def test_empty_constraints_are_none(text: str) -> None:
    spec = proxy_pod(pod({CONSTRAINTS: text}), [])["spec"]
    assert spec["tolerations"] == BASE_TOLERATIONS
    assert "affinity" not in spec


@pytest.mark.parametrize(
    "source", [{CONSTRAINTS: "nodeSelector: {virtual-kubelet.io/provider: other}"}, {USE_SPEC: ""}]
)
def test_a_selector_that_no_virtual_node_can_match_is_refused(source: dict[str, str]) -> None:
    with pytest.raises(InvalidPod, match=r"virtual-kubelet\.io/provider"):
        proxy_pod(pod(source, spec={"nodeSelector": {"virtual-kubelet.io/provider": "azure"}}), [])


@pytest.mark.parametrize("key", [REGEXP, "multicluster/no-prefix-label-regexp"])
@pytest.mark.parametrize("regexp", ["?!foo", "(", "(?=x)", r"(a)\1"])
def test_a_wrong_regexp_is_refused(key: str, regexp: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        proxy_pod(pod({key: regexp}), [])
    assert caught.value.field == f"metadata.annotations[{key}]"
    assert "regular expression" in caught.value.reason


def test_aliases_in_yaml_are_written_out() -> None:
    text = "tolerations: [&t {key: a, operator: Exists}, {key: b}, *t]"
    tolerations = proxy_pod(pod({CONSTRAINTS: text}), [])["spec"]["tolerations"]
    assert tolerations[-1] == {"key": "a", "operator": "Exists"}


def test_an_elected_pod_cannot_name_its_node() -> None:
    with pytest.raises(InvalidPod, match=r"spec\.nodeName"):
        proxy_pod(pod(spec={"nodeName": "n"}), [])


def test_a_pod_whose_manifest_does_not_fit_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidPod, match="262144"):
        proxy_pod(pod({"big": "x" * 140_000}), [])


@pytest.mark.parametrize("key", [MANIFEST, CONSTRAINTS])
def test_what_does_not_fit_is_refused_before_it_is_read(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(text: str) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(json_or_yaml, "read", read)
    with pytest.raises(InvalidPod, match="262144"):
        proxy_pod(pod({key: "a: " + "x" * 270_000}), [])


def test_a_manifest_in_yaml_is_kept_as_json() -> None:
    source = pod()
    del source["metadata"]["managedFields"]
    kept = proxy_pod(pod({MANIFEST: yaml.safe_dump(source)}), [])["metadata"]["annotations"][MANIFEST]
    assert json.loads(kept) == source


def test_a_manifest_in_long_yaml_is_refused_with_the_limit() -> None:
    with pytest.raises(InvalidPod, match="as YAML it may have 65536 characters, not 70000: write it as JSON"):
        proxy_pod(pod({MANIFEST: "a" * 70_000}), [])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"spec": {}}', '{"kind": "Job", "spec": {"containers": [{}]}}'])
def test_what_is_not_the_manifest_of_a_pod_is_refused(text: str) -> None:
    with pytest.raises(InvalidPod) as caught:
        proxy_pod(pod({MANIFEST: text}), [])
    assert caught.value.field == f"metadata.annotations[{MANIFEST}]"


def test_a_pod_without_manifest_has_no_source() -> None:
    with pytest.raises(InvalidPod, match="no manifest"):
        source_pod(pod())


def test_the_source_pod_is_read_from_json_and_from_yaml_as_admiralty_writes_it() -> None:
    source = pod()
    del source["metadata"]["managedFields"]
    for text in (json.dumps(source), yaml.safe_dump(source)):
        assert source_pod({"metadata": {"annotations": {MANIFEST: text}}}) == source


def test_times_in_a_yaml_manifest_stay_strings() -> None:
    text = "metadata: {creationTimestamp: 2026-01-01T00:00:00Z}\nspec: {containers: [{name: a}]}"
    source = source_pod({"metadata": {"annotations": {MANIFEST: text}}})
    assert source["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("annotations", "told"),
    [
        ({"group": ""}, "multicluster/group]: is empty"),
        ({"group": "a"}, "multicluster/group-size]: is missing: write how many pods start together"),
        ({"group": "a", "group-size": "0"}, "multicluster/group-size]: must be a number from 1, not '0'"),
        ({"group": "a", "group-size": "many"}, "must be a number from 1, not 'many'"),
        ({"group": "a", "group-size": "2", "group-policy": "best"}, "must be any or one-cluster, not 'best'"),
        ({"group-size": "2"}, "multicluster/group-size]: is about a group and there is none: write multicluster/group"),
        ({"group-policy": "any"}, "multicluster/group-policy]: is about a group and there is none"),
        ({"group-on-failure": "keep"}, "multicluster/group-on-failure]: is about a group and there is none"),
        ({"group": "a", "group-size": "2", "group-on-failure": "again"}, "must be keep or restart, not 'again'"),
    ],
)
def test_a_group_that_cannot_be_is_refused(annotations: dict[str, str], told: str) -> None:
    keys = {f"multicluster/{key}": value for key, value in annotations.items()}
    with pytest.raises(InvalidPod) as refused:
        proxy_pod(pod(annotations=keys), [])
    assert told in str(refused.value)


@pytest.mark.parametrize("suffix", ["follow-service-account", "follow-roles", "follow-network-policies", "source-api"])
def test_a_switch_is_on_or_off(suffix: str) -> None:
    for prefix in (P, "multicluster/"):
        for value in ("true", "false"):
            proxy_pod(pod(annotations={prefix + suffix: value}), [])
        with pytest.raises(InvalidPod, match=f"{prefix}{suffix}.*must be true or false, not 'yes'"):
            proxy_pod(pod(annotations={prefix + suffix: "yes"}), [])


def test_a_group_that_starts_again_as_a_whole_is_of_pods_that_are_made_again() -> None:
    marks = {"multicluster/group": "a", "multicluster/group-size": "3", "multicluster/group-on-failure": "restart"}
    made = pod(annotations=marks)
    assert any(owner["controller"] for owner in made["metadata"]["ownerReferences"])
    assert proxy_pod(made, [])["metadata"]["annotations"].items() >= marks.items()
    for owners in ([], [{"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}]):
        made["metadata"]["ownerReferences"] = owners
        with pytest.raises(
            InvalidPod, match=r"multicluster/group-on-failure]: restart deletes the pods .*this pod has none"
        ):
            proxy_pod(made, [])


def test_a_group_with_a_size_is_accepted_under_either_prefix() -> None:
    for prefix in (P, "multicluster/"):
        proxy_pod(pod(annotations={prefix + "group": "a", prefix + "group-size": "3"}), [])
