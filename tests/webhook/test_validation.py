import contextlib
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.review import Malformed, user_of
from webhook.validation import SecretReference, faults, judge, secret_of

Raw = dict[str, Any]


FIELDS = (
    "self", "kubeconfigSecret", "name", "namespace", "key", "context", "limits", "cpu", "excludedLabelsRegexp",
    "annotations", "multicluster/weight", "userName", "serviceAccountName", "serviceAccount", "deletionTimestamp",
    "username", "groups", "extra", "uid",
)  # fmt: skip


def ours(kind: str, spec: Raw | None = None, name: str = "c2") -> Raw:
    namespaced = {} if kind.startswith("Cluster") else {"namespace": "default"}
    made: Raw = {
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **namespaced},
    }
    return made if spec is None else made | {"spec": spec}


def request(obj: Raw, old: Raw | None = None, **more: Any) -> Raw:
    operation = "UPDATE" if old else "CREATE"
    return {"uid": "1", "operation": operation, "object": obj, "oldObject": old, **more}


def limits(**amounts: Any) -> Raw:
    return ours("Target", {"self": True, "limits": {name.replace("__", "."): v for name, v in amounts.items()}})


def weight(text: str, key: str = "multicluster/weight") -> Raw:
    target = ours("ClusterTarget", {"self": True})
    target["metadata"]["annotations"] = {key: text}
    return target


def regexp(kind: str, pattern: str) -> Raw:
    return ours(kind, {"self": True, "excludedLabelsRegexp": pattern})


@pytest.mark.parametrize(
    "obj",
    [
        ours("Target", {"self": True}),
        ours("Target", {"self": True}, name="c" * 63),
        regexp("Target", "^a=|^b="),
        regexp("Target", ""),
        regexp("ClusterTarget", r"^prefix\.io/"),
        ours("Target"),
        limits(cpu="7500m", memory="1Gi", pods=20, example__com="3"),
        limits(cpu=0),
        ours("Target", {"self": True, "podCIDRs": ["10.1.0.0/16", "fd00::/48"]}),
        weight("-100"),
        weight("+100"),
        weight("0", "multicluster.admiralty.io/weight"),
        ours("Source", {"userName": "cd"}),
        ours("Source", {"serviceAccountName": "cd"}),
        ours("Source", {"userName": "cd", "serviceAccountName": "cd"}, name="c" * 253),
        ours("ClusterSource", {"userName": "cd"}),
        ours("ClusterSource", {"userName": "cd", "policy": {"imagePrefixes": ["registry.example/team"]}}),
        ours("ClusterSource", {"userName": "cd", "serviceAccount": {}}),
        ours("ClusterSource", {"serviceAccount": {"name": "cd", "namespace": "default"}}),
    ],
)
def test_what_works_has_no_fault(obj: Raw) -> None:
    assert faults(obj) == []


@pytest.mark.parametrize(
    ("obj", "field", "remedy"),
    [
        pytest.param(regexp("Target", "("), "spec.excludedLabelsRegexp", "correct it", id="a Target"),
        pytest.param(regexp("ClusterTarget", "?!x"), "spec.excludedLabelsRegexp", "correct it", id="a ClusterTarget"),
        pytest.param(limits(cpu="much"), "spec.limits[cpu]", "'much' is not a quantity.*remove it", id="no quantity"),
        pytest.param(limits(pods=-1), "spec.limits[pods]", "0 or more, not -1", id="less than nothing"),
        pytest.param(limits(requests__cpu=1), "spec.limits[requests.cpu]", "the resource itself, cpu", id="as a quota"),
        pytest.param(
            ours("Target", {"self": True, "podCIDRs": ["10.1.0.0/16", "10.2.3.0/16"]}),
            "spec.podCIDRs[1]",
            "write 10.2.0.0/16",
            id="a range",
        ),
        pytest.param(
            ours("ClusterTarget", {"self": True, "podCIDRs": ["pods"]}), "spec.podCIDRs[0]", "no CIDR", id="no range"
        ),
        pytest.param(weight("101"), "metadata.annotations[multicluster/weight]", "-100.*to 100.*'101'", id="a weight"),
        pytest.param(
            weight("1s", "multicluster/failover-after"),
            "metadata.annotations[multicluster/failover-after]",
            "must be 10s at least, or never",
            id="a term that is too short",
        ),
        pytest.param(
            weight("yes", "multicluster/retire"),
            "metadata.annotations[multicluster/retire]",
            "one of true, false",
            id="no switch",
        ),
        pytest.param(weight("high"), "metadata.annotations[multicluster/weight]", "whole number", id="a word"),
        pytest.param(
            weight("1e2", "multicluster.admiralty.io/weight"),
            "metadata.annotations[multicluster.admiralty.io/weight]",
            "whole number",
            id="a weight under the long prefix",
        ),
        pytest.param(
            ours("Target", {"self": True}, name="c" * 64),
            "metadata.name",
            r"64 characters.*multicluster.admiralty.io/target-name.*shorter",
            id="a Target's name that is no label value",
        ),
        pytest.param(
            ours("ClusterTarget", {"self": True}, name="c" * 64),
            "metadata.name",
            r"multicluster.admiralty.io/cluster-target-name.*shorter",
            id="a ClusterTarget's name that is no label value",
        ),
        pytest.param(ours("Source", {}), "spec", "set userName, serviceAccountName", id="a Source of nobody"),
        pytest.param(ours("Source"), "spec", "set userName, serviceAccountName", id="a Source without spec"),
        pytest.param(ours("Source", {"userName": ""}), "spec", "set userName", id="a Source with an empty name"),
        pytest.param(ours("ClusterSource", {}), "spec", "userName, serviceAccount,", id="a ClusterSource of nobody"),
        pytest.param(
            ours("Source", {"userName": "cd", "policy": {"imagePrefixes": ["registry.example", "team"]}}),
            "spec.policy.imagePrefixes[1]",
            "'team' is no beginning.*write the registry's host",
            id="a prefix without a registry",
        ),
        pytest.param(
            ours("Source", {"userName": "cd", "policy": {"privileged": "no"}}),
            "spec.policy",
            "cannot be read.*correct it",
            id="a policy of another form",
        ),
        pytest.param(
            ours("ClusterSource", {"serviceAccount": {"name": "cd"}}),
            "spec.serviceAccount.namespace",
            "is missing",
            id="a service account without namespace",
        ),
        pytest.param(
            ours("ClusterSource", {"userName": "cd", "serviceAccount": {"namespace": "default"}}),
            "spec.serviceAccount.name",
            "is missing",
            id="a service account without name beside a user",
        ),
    ],
)
def test_a_fault_names_its_field_and_the_remedy(obj: Raw, field: str, remedy: str) -> None:
    (fault,) = judge(request(obj)).faults
    assert fault.field == field
    assert re.search(remedy, fault.reason), fault.reason


def test_all_faults_are_told_at_once() -> None:
    source = ours("Source", {"policy": {"imagePrefixes": ["a", "b"]}})
    fields = ["spec", "spec.policy.imagePrefixes[0]", "spec.policy.imagePrefixes[1]"]
    assert [fault.field for fault in judge(request(source)).faults] == fields
    obj = ours("Target", {"self": True, "excludedLabelsRegexp": "("}, name="c" * 64)
    assert [fault.field for fault in judge(request(obj)).faults] == ["metadata.name", "spec.excludedLabelsRegexp"]


def test_an_update_is_refused_for_its_own_faults_only() -> None:
    old = regexp("Target", "(")
    finalizer = old | {"metadata": {**old["metadata"], "finalizers": ["multicluster/drain"]}}
    tolerated = judge(request(finalizer, old))
    assert tolerated.faults == ()
    assert [fault.field for fault in tolerated.tolerated] == ["spec.excludedLabelsRegexp"]
    assert judge(request(regexp("Target", "["), old)).faults
    assert judge(request(regexp("Target", "("), regexp("Target", "a"))).faults
    assert judge(request(regexp("Target", "a"), old)).faults == ()


def test_what_is_being_deleted_can_go() -> None:
    obj = regexp("Target", "(")
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert judge(request(obj, regexp("Target", "a"))).faults == ()


@pytest.mark.parametrize("more", [{"operation": "DELETE"}, {"subResource": "status"}])
def test_only_creation_and_updates_are_judged(more: Raw) -> None:
    assert judge(request(regexp("Target", "("), **more)).faults == ()


@pytest.mark.parametrize(
    "obj", [None, [], {}, {"kind": "Pod", "apiVersion": "v1"}, {"kind": "Target", "apiVersion": "example.com/v1"}]
)
def test_what_is_none_of_our_kinds_is_malformed(obj: Any) -> None:
    with pytest.raises(Malformed, match="none of Target, ClusterTarget, Source, ClusterSource"):
        judge(request(obj))


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (ours("Target", {"self": True}), None),
        (ours("Source", {"userName": "cd"}), None),
        (ours("Target", {"kubeconfigSecret": {"name": "s"}}), SecretReference("team", "s", "config", None)),
        (
            ours("Target", {"kubeconfigSecret": {"name": "s", "key": "k", "context": "c"}}),
            SecretReference("team", "s", "k", "c"),
        ),
        (
            ours("ClusterTarget", {"kubeconfigSecret": {"namespace": "other", "name": "s"}}),
            SecretReference("other", "s", "config", None),
        ),
    ],
)
def test_the_secret_of_a_target_is_found(obj: Raw, want: SecretReference | None) -> None:
    assert secret_of(obj, "team") == want


@pytest.mark.parametrize(
    "name", ["../../kube-system/secrets/s", "s/../../x", "..", "s?watch=1", "S", "", 5, ["s"], None]
)
def test_a_name_that_no_secret_has_leads_nowhere(name: Any) -> None:
    assert secret_of(ours("Target", {"kubeconfigSecret": {"name": name}}), "team") is None
    assert secret_of(ours("ClusterTarget", {"kubeconfigSecret": {"name": "s", "namespace": name}}), "") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(("Target", "ClusterTarget", "Source", "ClusterSource")), JSON, JSON, JSON, JSON)
def test_whatever_is_sent_is_judged(kind: str, metadata: Any, spec: Any, old: Any, user: Any) -> None:
    obj = {"apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    sent = request(obj, old, userInfo=user)
    with contextlib.suppress(Malformed):
        judge(sent)
    assert secret_of(obj, "team") is None or isinstance(spec, dict)
    assert user_of(sent).keys() <= {"user", "groups", "uid", "extra"}
