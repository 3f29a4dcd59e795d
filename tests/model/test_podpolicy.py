import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.api.crds.admiralty import POLICY
from agent.model.podpolicy import InvalidPolicy, Policy, Rule, flaws, read, refusal, refusal_of_change
from tests.examples import examples
from tests.model.podspecs import pods

Raw = dict[str, Any]

STRICT = read(
    {
        "hostNamespaces": False,
        "hostPaths": False,
        "privileged": False,
        "nodeNames": False,
        "priorityClassNames": ["low"],
        "serviceAccountNames": ["default", "builder"],
        "imagePrefixes": ["registry.example/team"],
    }
)
IMAGE = "registry.example/team/web:1"
HOST_PROCESS = {"windowsOptions": {"hostProcess": True}}
BY_HOSTNAME = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def container(**more: Any) -> Raw:
    return {"name": "main", "image": IMAGE, **more}


def spec(**more: Any) -> Raw:
    return {"containers": [container()], **more}


def affinity(**more: Any) -> Raw:
    return {"affinity": {"nodeAffinity": more}}


def rule(policy: Policy = STRICT) -> Rule:
    return Rule("Source team/cd", policy)


@pytest.mark.parametrize(
    "allowed",
    [
        spec(),
        spec(hostNetwork=False, hostPID=None, serviceAccountName="builder", priorityClassName="low"),
        spec(priorityClassName="", serviceAccountName="", nodeName=""),
        spec(containers=[container(securityContext={"privileged": False, "runAsUser": 1})]),
        spec(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "image": {"reference": IMAGE}}]),
        spec(nodeSelector={"disk": "ssd"}, **affinity(**{REQUIRED: {"nodeSelectorTerms": [{}]}})),
        spec(topologySpreadConstraints=[{"topologyKey": "kubernetes.io/hostname"}]),
    ],
)
def test_a_pod_within_the_policy_is_allowed(allowed: Raw) -> None:
    assert refusal(allowed, [rule()]) is None


@pytest.mark.parametrize(
    ("pod", "field", "what"),
    [
        (spec(hostNetwork=True), "hostNamespaces", "spec.hostNetwork"),
        (spec(hostPID=True), "hostNamespaces", "spec.hostPID"),
        (spec(hostIPC="true"), "hostNamespaces", "spec.hostIPC"),
        (spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]), "hostPaths", "volume a"),
        (spec(containers=[container(securityContext={"privileged": True})]), "privileged", "container main"),
        (spec(initContainers=[container(securityContext={"privileged": True})]), "privileged", "main is privileged"),
        (spec(ephemeralContainers=[container(securityContext={"privileged": 1})]), "privileged", "main is privileged"),
        (spec(securityContext=HOST_PROCESS), "privileged", "hostProcess"),
        (spec(containers=[container(securityContext=HOST_PROCESS)]), "privileged", "main is a hostProcess"),
        (spec(nodeName="n1"), "nodeNames", "spec.nodeName to n1"),
        (spec(nodeSelector={"kubernetes.io/hostname": "n1"}), "nodeNames", "spec.nodeSelector"),
        (
            spec(**affinity(**{REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [BY_HOSTNAME]}]}})),
            "nodeNames",
            "by its name",
        ),
        (
            spec(**affinity(**{PREFERRED: [{"weight": 1, "preference": {"matchFields": [{"key": "metadata.name"}]}}]})),
            "nodeNames",
            "by its name",
        ),
        (spec(priorityClassName="system-node-critical"), "priorityClassNames", "system-node-critical"),
        (spec(serviceAccountName="admin"), "serviceAccountNames", "account is admin"),
        (spec(serviceAccount="admin"), "serviceAccountNames", "account is admin"),
        (spec(containers=[container(image="registry.example/team-evil/x")]), "imagePrefixes", "none of the prefixes"),
        (spec(initContainers=[container(image="nginx")]), "imagePrefixes", "names no registry"),
        (spec(ephemeralContainers=[{"name": "debug"}]), "imagePrefixes", "image of container debug"),
        (spec(volumes=[{"name": "v", "image": {"reference": "evil.example/x"}}]), "imagePrefixes", "image of volume v"),
        (spec(volumes=[{"name": "v", "image": {}}]), "imagePrefixes", "image of volume v"),
    ],
)
def test_a_pod_outside_is_refused_with_source_field_and_remedy(pod: Raw, field: str, what: str) -> None:
    refused = refusal(pod, [Rule("ClusterSource us", Policy()), rule()])
    assert refused is not None
    assert refused.source == "Source team/cd"
    assert refused.message.startswith(f"Source team/cd does not allow it (spec.policy.{field}): ")
    assert what in refused.message
    assert "ask the administrator" in refused.message


def test_without_a_policy_everything_is_allowed() -> None:
    everything = spec(hostNetwork=True, nodeName="n1", volumes=[{"hostPath": {}}], serviceAccountName="admin")
    assert refusal(everything, []) is None
    assert refusal(everything, [rule(read({}))]) is None


def test_a_pod_that_names_no_account_has_the_default_one() -> None:
    named = rule(read({"serviceAccountNames": ["builder"]}))
    assert refusal(spec(serviceAccountName="builder"), [named]) is None
    refused = refusal(spec(), [named])
    assert refused is not None
    assert "its service account is default" in refused.message


def test_an_empty_list_allows_none() -> None:
    assert refusal(spec(priorityClassName="low"), [rule(read({"priorityClassNames": []}))])
    assert refusal(spec(), [rule(read({"imagePrefixes": []}))])


def test_a_rule_that_bars_allows_nothing_at_all() -> None:
    assert refusal(spec(), [rule()._replace(barred="it is gone")]) == ("Source team/cd", "Source team/cd: it is gone")


def test_of_a_change_images_and_privileges_count_and_the_account_does_not() -> None:
    assert refusal_of_change({"containers": [{"name": "a", "image": IMAGE}]}, [rule()]) is None
    assert refusal_of_change({"initContainers": [{"name": "a", "image": "nginx"}]}, [rule()])
    debug = container(name="debug", securityContext={"privileged": True})
    assert refusal_of_change({"ephemeralContainers": [debug]}, [rule()])


@pytest.mark.parametrize(
    "odd",
    [
        {"containers": "x"},
        {"containers": [5]},
        {"containers": [container(securityContext=[])]},
        {"securityContext": "x"},
        {"volumes": {"a": 1}},
        {"affinity": []},
        {"priorityClassName": {"a": 1}},
        {"serviceAccountName": ["builder"]},
        None,
        [],
    ],
)
def test_what_no_api_server_takes_is_refused(odd: Any) -> None:
    assert refusal(odd, [rule()]) is not None


def test_prefixes_that_are_none_are_flaws_of_the_policy() -> None:
    assert flaws(STRICT) == []
    ((field, reason),) = flaws(read({"imagePrefixes": ["registry.example", "team"]}))
    assert field == "spec.policy.imagePrefixes[1]"
    assert "write the registry's host" in reason


def test_the_schema_has_the_fields_that_are_read() -> None:
    assert set(POLICY["properties"]) == set(Policy.__struct_encode_fields__)


@settings(max_examples=examples(500))
@given(JSON)
def test_any_json_is_a_policy_or_says_what_is_wrong(policy: Any) -> None:
    with contextlib.suppress(InvalidPolicy):
        assert isinstance(flaws(read(policy)), list)


def test_a_policy_that_cannot_be_read_names_field_and_remedy() -> None:
    with pytest.raises(InvalidPolicy, match=r"spec.policy .*privileged.*correct it"):
        read({"privileged": "no"})


FIELDS = [
    *("containers", "initContainers", "ephemeralContainers", "volumes", "securityContext", "affinity", "nodeSelector"),
    *("nodeName", "hostNetwork", "serviceAccountName", "priorityClassName", "nodeAffinity", "image", "hostPath"),
    "windowsOptions",
]


def objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=3)


@settings(max_examples=examples(1000))
@given(JSON | st.recursive(JSON, objects, max_leaves=12))
def test_there_is_a_verdict_about_any_json(pod: Any) -> None:
    assert refusal(pod, []) is None
    for judged in (refusal(pod, [rule()]), refusal_of_change(pod, [rule()])):
        assert judged is None or judged.message


@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(pods(), st.sampled_from(["hostNetwork", "nodeName", "serviceAccountName"]))
def test_a_random_pod_is_refused_for_its_image_and_for_what_is_added(pod: Raw, field: str) -> None:
    policy = read({"hostNamespaces": False, "nodeNames": False, "serviceAccountNames": ["default"]})
    assert refusal(pod["spec"], [rule()])
    if "kubernetes.io/hostname" not in str(pod["spec"]):
        assert refusal(pod["spec"], [rule(policy)]) is None
    assert refusal({**pod["spec"], field: "x"}, [rule(policy)])
