"""A delegate is derived from the admitted proxy pod; the manifest only provides the fields that the webhook
removed."""

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.model import constraints
from agent.model.delegatepod import chaperon
from agent.model.livechanges import changes, told
from agent.model.manifest import source_pod
from agent.model.proxypod import InvalidPod, proxy_pod
from agent.model.status import annotations_home
from agent.scheduler.cache.pod_info import pod_info_of
from tests.examples import examples
from tests.model.pods import P, pod

Raw = dict[str, Any]

MANIFEST = P + "sourcepod-manifest"
USE_SPEC = P + "use-constraints-from-spec-for-proxy-pod-scheduling"
CONTAINER = {"name": "main", "image": "busybox"}
PRIVILEGED = {
    "containers": [
        {
            "name": "main",
            "image": "evil",
            "securityContext": {"privileged": True},
            "volumeMounts": [{"name": "root", "mountPath": "/host"}],
        }
    ],
    "initContainers": [{"name": "first", "image": "evil"}],
    "volumes": [{"name": "root", "hostPath": {"path": "/"}}],
    "hostPID": True,
    "hostNetwork": True,
    "serviceAccountName": "admin",
    "nodeName": "control-plane",
    "priorityClassName": "system-node-critical",
    "securityContext": {"runAsUser": 0},
    "imagePullSecrets": [{"name": "others"}],
    "runtimeClassName": "unsafe",
    "fieldOfTomorrow": True,
}
SIDECAR = {"name": "proxy", "image": "mesh", "volumeMounts": [{"name": "identity", "mountPath": "/id"}]}
SIDECAR_FIRST = {"name": "mesh-init", "image": "mesh", "volumeMounts": [{"name": "shared", "mountPath": "/s"}]}


def proxied(source: Raw) -> Raw:
    return copy.deepcopy(proxy_pod(source, [P + "default-c2"]))


def made(proxy: Raw, **options: Any) -> Raw:
    proxy["metadata"]["uid"] = "U"
    return chaperon(proxy, cluster_name="c", cluster_uid="k", **options)


def with_manifest(source: Raw, *, write: Any = json.dumps) -> Raw:
    """Return a harmless proxy pod with a forged manifest."""
    proxy = proxied(pod(spec={"containers": [CONTAINER]}))
    proxy["metadata"]["annotations"][MANIFEST] = write(source)
    return proxy


@pytest.mark.parametrize("write", [json.dumps, yaml.safe_dump], ids=["as json", "as yaml"])
def test_nothing_that_admission_has_not_seen_comes_out_of_a_handmade_manifest(write: Any) -> None:
    honest = made(proxied(pod(spec={"containers": [CONTAINER]})))
    metadata = {
        "labels": {"admin": "true"},
        "annotations": {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"},
    }
    source = {"kind": "Pod", "metadata": metadata, "spec": PRIVILEGED}
    smuggled = made(with_manifest(source, write=write))
    taken = ("nodeSelector", "schedulerName", "terminationGracePeriodSeconds")
    taken += ("volumes",)  # no container mounts it, and the manifest lacks it
    assert smuggled["spec"] == {key: value for key, value in honest["spec"].items() if key not in taken}
    assert smuggled["metadata"]["labels"] == honest["metadata"]["labels"]
    note = names.ANNOTATION_LIVE_CHANGES
    assert {key: value for key, value in smuggled["metadata"]["annotations"].items() if key != note} == honest[
        "metadata"
    ]["annotations"]


def test_the_webhook_leaves_of_a_manifest_that_is_there_only_what_it_takes_itself() -> None:
    sent = pod({MANIFEST: json.dumps({"spec": {**PRIVILEGED, "nodeSelector": {"zone": "a"}}})})
    spec = made(proxied(sent))["spec"]
    assert spec["nodeSelector"] == {"zone": "a"}
    assert not {"hostPID", "hostNetwork", "initContainers", "fieldOfTomorrow"} & spec.keys()
    assert spec["containers"][0]["image"] == "busybox"


def test_what_the_webhook_takes_away_comes_back() -> None:
    spec: Raw = {
        "nodeSelector": {"zone": "a"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}],
        "schedulerName": "volcano",
        "terminationGracePeriodSeconds": 77,
    }
    assert spec.items() <= made(proxied(pod(spec=spec)))["spec"].items()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeName", "admiralty-default-c2"),
        ("priority", 5),
        ("preemptionPolicy", "Never"),
        ("overhead", {"cpu": "1"}),
        ("serviceAccount", "default"),
        ("schedulingGates", [{"name": "g"}]),
        ("ephemeralContainers", [{"name": "debugger", "image": "tools"}]),
    ],
)
def test_what_belongs_to_the_source_does_not_travel(field: str, value: Any) -> None:
    proxy = proxied(pod())
    proxy["spec"][field] = value
    assert field not in made(proxy)["spec"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("securityContext", {"seccompProfile": {"type": "RuntimeDefault"}}),
        ("imagePullSecrets", [{"name": "registry"}]),
        ("priorityClassName", "high"),
        ("enableServiceLinks", False),
        ("dnsConfig", {"options": [{"name": "ndots"}]}),
        ("resourceClaims", [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]),
        ("fieldOfTomorrow", {"a": 1}),
    ],
)
def test_what_later_webhooks_set_for_the_whole_pod_travels(field: str, value: Any) -> None:
    proxy = proxied(pod())
    proxy["spec"][field] = value
    assert made(proxy)["spec"][field] == value


def test_tolerations_that_api_servers_add_to_every_pod_do_not_travel_and_others_do() -> None:
    source = pod()
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    source["spec"]["tolerations"] += [other]
    proxy = proxied(source)
    added = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    proxy["spec"]["tolerations"] += [source["spec"]["tolerations"][0], added]
    assert made(proxy)["spec"]["tolerations"] == [other, added]


def meshed(annotations: Raw | None = None) -> Raw:
    """Return a proxy pod with containers added by a service mesh's webhook, and a variable in the user's
    container."""
    proxy = proxied(pod(annotations))
    spec = proxy["spec"]
    spec["containers"][0] |= {"env": [{"name": "MESH", "value": "1"}], "image": "registry/busybox"}
    spec["containers"][0]["volumeMounts"].append({"name": "shared", "mountPath": "/s"})
    spec["containers"].append(copy.deepcopy(SIDECAR))
    spec["initContainers"] = [copy.deepcopy(SIDECAR_FIRST)]
    spec["volumes"] += [{"name": "identity", "secret": {"secretName": "id"}}, {"name": "shared", "emptyDir": {}}]
    proxy["metadata"]["labels"]["mesh"] = "on"
    proxy["metadata"]["annotations"]["mesh.io/status"] = "injected"
    return proxy


def test_what_later_webhooks_change_in_the_users_containers_goes_along_and_what_they_add_stays() -> None:
    there = made(meshed())
    (container,) = there["spec"]["containers"]
    assert container["image"] == "registry/busybox"
    assert container["env"] == [{"name": "MESH", "value": "1"}]
    assert "initContainers" not in there["spec"]
    assert [each["name"] for each in there["spec"]["volumes"]] == ["d", "shared"]
    assert there["metadata"]["labels"][P + "mesh"] == "on"
    assert there["metadata"]["annotations"]["mesh.io/status"] == "injected"


@pytest.mark.parametrize(
    ("annotation", "namespace", "follows"),
    [(None, False, False), (None, True, True), ("follow", False, True), ("stay", True, False)],
)
@pytest.mark.parametrize("prefix", [P, "multicluster/"])
def test_added_containers_follow_where_pod_or_namespace_ask_for_it(
    prefix: str, annotation: str | None, namespace: bool, follows: bool
) -> None:
    there = made(meshed({prefix + "injected": annotation} if annotation else {}), injected=namespace)
    assert [each["name"] for each in there["spec"]["containers"]] == (["main", "proxy"] if follows else ["main"])
    assert ("initContainers" in there["spec"]) is follows
    assert ("identity" in [each["name"] for each in there["spec"]["volumes"]]) is follows


def test_another_word_about_added_containers_is_refused() -> None:
    with pytest.raises(InvalidPod, match=r"multicluster/injected\]: must be follow or stay, not 'yes'"):
        proxy_pod(pod({"multicluster/injected": "yes"}), [])


def test_a_manifest_that_knows_none_of_the_containers_is_refused_with_what_to_do() -> None:
    proxy = with_manifest({"spec": {"containers": [{"name": "another"}]}})
    with pytest.raises(InvalidPod, match=r"sourcepod-manifest\]: it names none of the containers.*create the"):
        made(proxy)
    with pytest.raises(InvalidPod, match="it names none of the containers"):
        proxy_pod(pod({MANIFEST: proxy["metadata"]["annotations"][MANIFEST]}), [])


def test_a_pod_that_just_started_has_nothing_to_tell_whatever_webhooks_did_to_it() -> None:
    for injected in (False, True):
        proxy = meshed()
        proxy["metadata"]["labels"].pop("pod-template-hash")
        proxy["metadata"]["annotations"]["team"] = "y"
        proxy["spec"]["tolerations"].append({"key": "late", "operator": "Exists"})
        proxy["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
        proxy["spec"]["activeDeadlineSeconds"] = 9
        there = made(proxy, injected=injected)
        # Label and binding change the pod like this in the meantime.
        proxy["spec"]["nodeName"] = "admiralty-default-c2"
        assert changes(proxy, source_pod(proxy), there) == told(there)


def test_what_is_changed_later_is_told_although_a_webhook_had_changed_it_before() -> None:
    proxy = meshed()
    there = made(proxy)
    proxy["metadata"]["annotations"]["mesh.io/status"] = "mine"
    del proxy["metadata"]["labels"]["mesh"]
    proxy["spec"]["containers"][0]["image"] = "busybox"
    proxy["spec"]["containers"][1]["image"] = "another mesh"
    changed = changes(proxy, source_pod(proxy), there)
    assert changed["annotations"] == {"mesh.io/status": "mine"}
    assert changed["labels"] == {P + "mesh": None, "multicluster/U_mesh": None}
    assert changed["images"] == {"main": "busybox"}
    assert annotations_home(proxy["metadata"]["annotations"], there["metadata"]["annotations"]) == {}


def test_what_the_target_changes_comes_home_although_a_webhook_had_changed_it_here() -> None:
    proxy = meshed()
    there = made(proxy)
    there["metadata"]["annotations"]["mesh.io/status"] = "injected there"
    assert changes(proxy, source_pod(proxy), there) == told(there)
    home = annotations_home(proxy["metadata"]["annotations"], there["metadata"]["annotations"])
    assert home == {"mesh.io/status": "injected there"}


def before_this(proxy: Raw) -> Raw:
    """Return the chaperon of a proxy pod as earlier versions created it, from the manifest."""
    source = source_pod(proxy)
    metadata = {"name": "x", "labels": {P + "app": "web"}, "annotations": {"team": "x"}}
    return {"metadata": metadata, "spec": {key: value for key, value in source["spec"].items() if key != "priority"}}


def test_a_delegate_from_an_earlier_version_is_told_nothing_new() -> None:
    proxy = proxied(pod())
    assert changes(proxy, source_pod(proxy), before_this(proxy)) == {}
    proxy = meshed()
    there = before_this(proxy)
    text = {"images": {"main": "registry/busybox"}, "labels": {P + "mesh": "on"}}
    text["labels"]["multicluster/U_mesh"] = "on"
    text["annotations"] = {"mesh.io/status": "injected"}
    there["metadata"]["annotations"] |= {
        names.ANNOTATION_LIVE_CHANGES: json.dumps(text),
        "mesh.io/status": "injected",
    }
    assert changes(proxy, source_pod(proxy), there) == text


def test_a_proxy_pod_that_admiralty_made_has_a_delegate_as_before() -> None:
    source = pod(spec={"nodeSelector": {"zone": "a"}})
    proxy = proxied(source)
    proxy["spec"]["tolerations"] = [*proxy["spec"]["tolerations"][:2], *source["spec"]["tolerations"]]
    proxy["metadata"]["annotations"][MANIFEST] = yaml.safe_dump(source)
    there = made(proxy)
    assert there["spec"]["nodeSelector"] == {"zone": "a"}
    assert "tolerations" not in there["spec"]
    assert there["spec"]["terminationGracePeriodSeconds"] == 30
    assert changes(proxy, source_pod(proxy), there) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("initContainers", "volumes", "schedulerName", "terminationGracePeriodSeconds", *constraints.FIELDS)
NAMED = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["main", "d"]) | JSON}), max_size=2)
SPEC = st.fixed_dictionaries({"containers": NAMED | JSON}, optional=dict.fromkeys(FIELDS, JSON | NAMED))
METADATA = st.fixed_dictionaries({}, optional={"labels": JSON, "annotations": JSON, "name": JSON})
ANY_MANIFEST = (
    st.text()
    | JSON.map(json.dumps)
    | st.fixed_dictionaries({"spec": SPEC | JSON}, optional={"metadata": METADATA | JSON, "kind": JSON}).map(json.dumps)
    | SPEC.map(lambda spec: yaml.safe_dump({"spec": spec}))
)


@settings(max_examples=examples(1000), deadline=None)
@given(ANY_MANIFEST)
def test_any_manifest_makes_a_delegate_or_is_refused(text: str) -> None:
    proxy = proxied(pod())
    proxy["metadata"]["annotations"][MANIFEST] = text
    try:
        there = made(proxy)
        changed = changes(proxy, source_pod(proxy), there)
    except InvalidPod:
        return
    assert changed == told(there)
    webhook_again = {**proxy, "metadata": {**proxy["metadata"], "name": source_pod(proxy)["metadata"].get("name")}}
    proxy_pod(webhook_again, [])
    assert {each["image"] for each in there["spec"]["containers"]} == {"busybox"}


TERM = {
    "labelSelector": {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
    },
    "topologyKey": "zone",
    "matchLabelKeys": ["app"],
}
WHOLE = {
    "containers": [{"name": "main"}],
    "volumes": [{"name": "d"}],
    "nodeSelector": {"zone": "a"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": TERM}],
        },
    },
    "topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", **TERM}],
    "schedulerName": "volcano",
    "terminationGracePeriodSeconds": 5,
}


def spoiled(draw: st.DrawFn, value: Any) -> Any:
    """Return a value with one random part replaced."""
    if not value or not isinstance(value, dict | list) or draw(st.integers(0, 4)) == 0:
        return draw(JSON)
    if isinstance(value, list):
        return [spoiled(draw, value[0]), *value[1:]]
    key = draw(st.sampled_from(sorted(value)))
    return {**value, key: spoiled(draw, value[key])}


@settings(max_examples=examples(1000), deadline=None)
@given(st.composite(spoiled)(WHOLE), st.sampled_from([{}, {USE_SPEC: ""}]))
def test_a_manifest_with_something_spoiled_makes_a_delegate_or_is_refused(spec: Any, annotations: Raw) -> None:
    text = json.dumps({"spec": spec, "metadata": {"annotations": annotations}})
    proxy = proxied(pod(annotations))
    proxy["metadata"]["annotations"][MANIFEST] = text
    try:
        pod_info_of(proxy)
        there = made(proxy)
        changed = changes(proxy, source_pod(proxy), there)
        proxy_pod({**proxy, "metadata": {**proxy["metadata"], "name": None}}, [])
    except InvalidPod:
        return
    assert changed == told(there)
