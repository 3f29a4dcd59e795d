from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import PODS
from agent.kube.store import Object
from agent.model.errors import InvalidPod
from agent.model.proxypod import proxy_pod
from agent.ranking.snapshot import amounts
from agent.scheduler.cache.pod_info import PodInfos, pod_info_of
from tests.model.pods import pod


def demand_for(**annotations: str) -> Any:
    spec = {"nodeSelector": {"region": "eu"}, "containers": [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]}
    keys = {names.PREFIX + name.replace("_", "-"): value for name, value in annotations.items()}
    return pod_info_of(proxy_pod(pod(annotations=keys, spec=spec), []))


def test_the_sources_constraints_are_for_the_targets_own_nodes() -> None:
    pod_info = demand_for()
    assert pod_info.source["nodeSelector"] == {"region": "eu"}
    assert "region" not in pod_info.proxy["nodeSelector"]
    assert pod_info.requests == amounts({"cpu": "2", "pods": "1"})


def test_constraints_that_choose_the_target_are_not_asked_of_its_nodes() -> None:
    pod_info = demand_for(use_constraints_from_spec_for_proxy_pod_scheduling="")
    assert pod_info.proxy["nodeSelector"]["region"] == "eu"
    assert "nodeSelector" not in pod_info.source


def test_a_proxy_pod_without_manifest_has_no_demand() -> None:
    with pytest.raises(InvalidPod, match="sourcepod-manifest"):
        pod_info_of(pod())


def test_a_manifest_without_end_is_a_flaw_of_the_pod_and_no_error_of_ours() -> None:
    sent = pod()
    sent["metadata"]["annotations"][names.ANNOTATION_MANIFEST] = '{"spec":{"containers":[{}]},"x":' + "[" * 5000
    obj = Object(PODS, msgspec.json.encode(sent))
    pod_infos = PodInfos()
    assert pod_infos.about(obj).source == {}
    with pytest.raises(InvalidPod, match="nested too deeply"):
        pod_infos.of(obj)


def test_a_pod_whose_environment_is_too_long_for_a_delegate_has_a_flaw_until_it_is_repaired() -> None:
    key = "multicluster/note"
    source = {"fieldRef": {"fieldPath": f"metadata.annotations['{key}']"}}
    env = [{"name": f"V{index}", "valueFrom": source} for index in range(18)]
    sent = proxy_pod(pod({key: "x" * 60_000}, spec={"containers": [{"name": "main", "env": env}]}), [])
    sent["metadata"] |= {"resourceVersion": "1", "generation": 1}
    pod_infos = PodInfos()
    with pytest.raises(InvalidPod, match="more than 1048576 bytes"):
        pod_infos.of(Object(PODS, msgspec.json.encode(sent)))
    sent["metadata"]["annotations"][key] = "short"
    sent["metadata"]["resourceVersion"] = "2"
    assert pod_infos.of(Object(PODS, msgspec.json.encode(sent))).name == sent["metadata"]["name"]


def stored(**changes: Any) -> Object:
    """Return a proxy pod as the API server stores it."""
    fields: dict[str, Any] = {"name": "web-1", "uid": "u1", "generation": 1, "annotations": {}} | changes
    wanted = fields.pop("wanted", {"nodeSelector": {"region": "eu"}})
    image = fields.pop("image", "busybox")
    source = pod(
        annotations={names.PREFIX + key: value for key, value in fields.pop("annotations").items()},
        spec={"containers": [{"name": "m", "image": image, "env": [{"name": "A"}]}], **wanted},
    )
    proxy = proxy_pod(source, [])
    proxy["metadata"] |= {"resourceVersion": fields.pop("version", "1"), **fields}
    return Object(PODS, msgspec.json.encode(proxy))


def test_what_is_read_in_a_hurry_is_what_is_read_at_leisure() -> None:
    for changes in (
        {},
        {"annotations": {"use-constraints-from-spec-for-proxy-pod-scheduling": ""}},
        {"wanted": {"activeDeadlineSeconds": 5, "priority": 7, "priorityClassName": "high", "tolerations": []}},
    ):
        obj = stored(**changes)
        found, wanted = PodInfos().of(obj), pod_info_of(obj.decode())
        assert vars(found.template) == vars(wanted.template)
        assert (found.name, found.uid, found.labels, found.priority, found.attempts) == (
            wanted.name,
            wanted.uid,
            wanted.labels,
            wanted.priority,
            wanted.attempts,
        )


def test_pods_that_ask_the_same_share_what_they_want() -> None:
    pod_infos = PodInfos()
    one, other = pod_infos.of(stored()), pod_infos.of(stored(name="web-2", uid="u2"))
    assert one.template is other.template
    assert pod_infos.of(stored(name="db", uid="u3", image="db")).template is not one.template


def test_a_pod_is_read_once_until_its_spec_or_labels_change() -> None:
    pod_infos = PodInfos()
    first = pod_infos.of(stored())
    assert pod_infos.of(stored(version="2")) is first
    assert pod_infos.of(stored(version="3", labels={"a": "b"})).labels == {"a": "b"}
    changed = pod_infos.of(stored(version="4", generation=2, wanted={"nodeSelector": {"region": "us"}}))
    assert changed.source["nodeSelector"] == {"region": "us"}
    pod_infos.forget("u1")
    assert len(pod_infos) == 0


def test_without_generations_every_version_of_a_pod_without_node_is_read() -> None:
    pod_infos = PodInfos()
    first = pod_infos.of(stored(generation=0))
    assert pod_infos.of(stored(generation=0)) is first
    assert pod_infos.of(stored(generation=0, version="2")) is not first


def test_attempts_are_those_of_now() -> None:
    pod_infos = PodInfos()
    assert pod_infos.of(stored()).attempts == {}
    proxy = stored().decode()
    proxy["metadata"]["annotations"][names.ANNOTATION_ATTEMPTS] = '{"eu":"full"}'
    assert pod_infos.of(Object(PODS, msgspec.json.encode(proxy))).attempts == {"eu": "full"}


def test_a_manifest_in_yaml_is_read_too_and_an_unusable_one_is_an_error_every_time() -> None:
    proxy = stored().decode()
    annotations = proxy["metadata"]["annotations"]
    annotations[names.ANNOTATION_MANIFEST] = "spec: {nodeSelector: {region: eu}, containers: [{name: m}]}"
    pod_infos = PodInfos()
    assert pod_infos.of(Object(PODS, msgspec.json.encode(proxy))).source == {"nodeSelector": {"region": "eu"}}
    for text in ("[1]", '{"spec":{}}', '{"kind":"Node","spec":{"containers":[{}]}}'):
        annotations[names.ANNOTATION_MANIFEST] = text
        proxy["metadata"]["uid"] = text
        broken = Object(PODS, msgspec.json.encode(proxy))
        for _ in range(2):
            with pytest.raises(InvalidPod, match="sourcepod-manifest"):
                pod_infos.of(broken)
        assert pod_infos.about(broken).images == {"busybox"}


def test_labels_of_a_namespace_are_live() -> None:
    pod_infos = PodInfos()
    pod_info = pod_infos.of(stored())
    assert pod_info.namespace_labels == {}
    assert pod_infos.relabel(pod_info.namespace, {"team": "a"})
    assert not pod_infos.relabel(pod_info.namespace, {"team": "a"})
    assert pod_info.namespace_labels == {"team": "a"}


def test_claims_that_a_pod_asks_for_are_those_of_now() -> None:
    def asking(version: str, **annotations: str) -> Object:
        metadata = {
            "name": "a",
            "namespace": "shop",
            "uid": "u",
            "resourceVersion": version,
            "annotations": annotations,
        }
        return Object(PODS, msgspec.json.encode({"metadata": metadata, "spec": {}}))

    infos, region = PodInfos(), {"p2code.filter.region": "south"}
    assert infos.asks(asking("1")) is None
    assert infos.asks(asking("1", **region)) is None, "one version is searched once"
    asked = infos.asks(asking("2", **region))
    assert asked is not None
    assert (asked.where, asked.wanted) == ("the pod", (("p2code.filter.region", "south"),))
    assert infos.asks(asking("3")) is None
    infos.forget("u")
    assert infos.asks(asking("3", **region)) == asked
