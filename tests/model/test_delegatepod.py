import copy
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.model.delegatepod import chaperon, check, delegate
from agent.model.downward import LIMIT
from agent.model.proxypod import InvalidPod, is_delegate, is_elected, is_proxy, proxy_pod
from tests.model.pods import UID, P, pod

GPU = {"key": "gpu", "operator": "Exists"}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
USE_SPEC = P + "use-constraints-from-spec-for-proxy-pod-scheduling"


def proxied(source: dict[str, Any]) -> dict[str, Any]:
    return proxy_pod(source, [P + "default-c2"])


def made(source: dict[str, Any], **options: Any) -> dict[str, Any]:
    return chaperon(proxied(source), **{"cluster_name": "c1", "cluster_uid": "CU", **options})


def env_of(source: dict[str, Any]) -> Any:
    return made(source)["spec"]["containers"][0]["env"]


def reference(path: str) -> dict[str, Any]:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}


def test_appendix_a_the_worked_example_of_the_contract_comes_out() -> None:
    source = pod()
    want_spec = copy.deepcopy(source["spec"])
    del want_spec["priority"], want_spec["tolerations"]
    want_spec["containers"][0]["volumeMounts"] = [{"name": "d", "mountPath": "/d"}]
    want_spec["volumes"] = [{"name": "d", "emptyDir": {}}]
    want_spec["hostname"] = "web-abc12"
    assert made(source) == {
        "apiVersion": "multicluster.admiralty.io/v1alpha1",
        "kind": "PodChaperon",
        "metadata": {
            "name": names.chaperon("web-abc12", UID),
            "namespace": "default",
            "labels": {
                P + "app": "web",
                P + "pod-template-hash": "7d",
                "multicluster/U_app": "web",
                "multicluster/U_pod-template-hash": "7d",
                P + "parent-uid": UID,
                P + "parent-cluster-name": "c1",
                "multicluster/parent-cluster-uid": "CU",
                "multicluster/serving": "true",
            },
            "annotations": {"team": "x", P + "parent-namespace": "default", P + "parent-name": "web-abc12"},
        },
        "spec": want_spec,
    }


def test_neither_the_proxy_nor_its_parts_are_changed() -> None:
    proxy = proxied(pod())
    before = copy.deepcopy(proxy)
    delegate(
        {**chaperon(proxy, cluster_name="", cluster_uid="u"), "metadata": {"name": "a", "namespace": "b", "uid": "c"}}
    )
    assert proxy == before


def test_the_cluster_name_label_is_there_even_if_it_is_empty() -> None:
    assert made(pod(), cluster_name="")["metadata"]["labels"][P + "parent-cluster-name"] == ""


def test_ours_override_labels_of_the_same_key() -> None:
    assert made(pod(labels={"x.io/parent-uid": "fake"}))["metadata"]["labels"][P + "parent-uid"] == UID


def test_what_is_under_our_prefixes_stays_in_the_source() -> None:
    annotations = {P + "no-reservation": "", "multicluster/scheduling": "ranked", "a/b": "c"}
    metadata = made(pod(annotations, labels={"multicluster/x": "y", "app": "web"}))["metadata"]
    assert metadata["annotations"] == {
        "team": "x",
        "a/b": "c",
        P + "parent-namespace": "default",
        P + "parent-name": "web-abc12",
    }
    assert P + "x" not in metadata["labels"]
    assert "multicluster/x" not in metadata["labels"]


def test_who_created_the_pod_is_told_to_the_target_and_not_to_the_delegate() -> None:
    proxy = proxied(pod({"multicluster/created-by": "a lie"}))
    proxy["metadata"]["annotations"]["multicluster/created-by"] = "jane"
    told = chaperon(proxy, cluster_name="c1", cluster_uid="CU")
    assert told["metadata"]["annotations"]["multicluster/created-by"] == "jane"
    told["metadata"]["uid"] = "CHAP"
    assert "multicluster/created-by" not in delegate(told)["metadata"]["annotations"]


def test_the_no_prefix_regexp_is_read_under_both_prefixes() -> None:
    for prefix in (P, "multicluster/"):
        labels = made(pod({prefix + "no-prefix-label-regexp": "^app="}))["metadata"]["labels"]
        assert labels["app"] == "web"
        assert P + "pod-template-hash" in labels


def test_a_pod_that_never_saw_the_webhook_has_no_chaperon() -> None:
    with pytest.raises(InvalidPod, match="no manifest"):
        chaperon(pod(), cluster_name="", cluster_uid="u")


@pytest.mark.parametrize(
    ("scheduler", "reserve", "want"),
    [
        ("default-scheduler", False, "default-scheduler"),
        ("volcano", False, "volcano"),
        ("volcano", True, "admiralty-candidate"),
        ("admiralty-proxy", False, None),
        ("admiralty-candidate", False, None),
    ],
)
def test_the_delegate_keeps_its_scheduler_unless_nodes_are_reserved(
    scheduler: str, reserve: bool, want: str | None
) -> None:
    assert made(pod(spec={"schedulerName": scheduler}), reserve=reserve)["spec"].get("schedulerName") == want


def test_constraints_that_placed_the_proxy_are_taken_from_the_delegate() -> None:
    affinity = {"nodeAffinity": {"fieldOfTomorrow": 1}}
    spec = {"affinity": affinity, "topologySpreadConstraints": [SPREAD], "tolerations": [GPU]}
    kept = made(pod(spec=spec))["spec"]
    assert spec.items() <= kept.items()
    stripped = made(pod({USE_SPEC: ""}, spec=spec))["spec"]
    assert not {"nodeSelector", "tolerations", "affinity", "topologySpreadConstraints"} & stripped.keys()


def test_selectors_in_the_delegates_own_affinity_are_rewritten() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    spec = made(pod(spec={"affinity": affinity}))["spec"]
    (rewritten,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rewritten["labelSelector"] == {"matchLabels": {"multicluster/U_app": "web"}}
    spec = made(pod(spec={"affinity": affinity}), exact=False)["spec"]
    (rewritten,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rewritten["labelSelector"] == {"matchLabels": {P + "app": "web"}}, "older delegates have no other label"


@pytest.mark.parametrize(
    ("name", "spec", "want"),
    [
        ("web-0", {}, "web-0"),
        ("web-0", {"hostname": "mine"}, "mine"),
        ("web-0", {"hostNetwork": True}, None),
        ("a.b", {}, None),
        ("a" * 62 + "-bcd", {}, "a" * 62),
    ],
)
def test_the_hostname_is_the_proxys_name_unless_set(name: str, spec: dict[str, Any], want: str | None) -> None:
    assert made(pod(metadata={"name": name}, spec=spec))["spec"].get("hostname") == want


def test_the_service_account_token_goes_from_all_containers_but_a_volume_used_elsewhere_stays() -> None:
    source = pod()
    token = source["spec"]["containers"][0]["volumeMounts"][0]
    source["spec"]["initContainers"] = [{"name": "i", "volumeMounts": [token]}]
    spec = made(source)["spec"]
    assert spec["initContainers"][0]["volumeMounts"] == []
    assert [volume["name"] for volume in spec["volumes"]] == ["d"]
    source["spec"]["initContainers"][0]["volumeMounts"].append({**token, "mountPath": "/else"})
    spec = made(source)["spec"]
    assert [volume["name"] for volume in spec["volumes"]] == ["kube-api-access-q9", "d"]
    assert spec["serviceAccountName"] == "default"


@pytest.mark.parametrize(
    "volume",
    [
        {"name": "kube-api-access-mine", "emptyDir": {}},
        {"name": "api-access", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
        {"name": "kube-api-access-vault", "projected": {"sources": [{"serviceAccountToken": {"audience": "vault"}}]}},
        {"name": "hidden", "emptyDir": {"medium": "Memory"}},
    ],
)
def test_a_volume_of_the_users_own_stays_where_the_token_of_the_service_account_would_be(
    volume: dict[str, Any],
) -> None:
    mount = {"name": volume["name"], "mountPath": names.SERVICE_ACCOUNT_MOUNT}
    source = pod()
    source["spec"]["volumes"].append(volume)
    source["spec"]["containers"].append({"name": "own", "image": "busybox", "volumeMounts": [mount]})
    spec = made(source)["spec"]
    first, own = spec["containers"]
    assert own["volumeMounts"] == [mount]
    assert names.SERVICE_ACCOUNT_MOUNT not in {each["mountPath"] for each in first["volumeMounts"]}
    assert [each["name"] for each in spec["volumes"]] == ["d", volume["name"]]


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("metadata.name", "web-abc12"),
        ("metadata.namespace", "default"),
        ("metadata.uid", UID),
        ("metadata.labels['app']", "web"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['none']", ""),
        ("metadata.annotations['multicluster/money']", "5$$ $$(HOME)"),
    ],
)
def test_the_environment_speaks_of_the_proxy(path: str, want: str) -> None:
    containers = [{"name": "main", "env": [{"name": "A", "value": "1"}, {"name": "V", "valueFrom": reference(path)}]}]
    source = pod({"multicluster/money": "5$ $(HOME)"}, spec={"containers": containers})
    assert env_of(source) == [{"name": "A", "value": "1"}, {"name": "V", "value": want}]


def test_an_annotation_that_the_delegate_has_is_resolved_in_the_target() -> None:
    env = [{"name": "V", "valueFrom": reference("metadata.annotations['team']")}]
    told = made(pod(spec={"containers": [{"name": "main", "env": env}]}))
    assert told["spec"]["containers"][0]["env"] == env
    told["metadata"]["uid"] = "CHAP"
    assert delegate(told)["metadata"]["annotations"]["team"] == "x"


def bomb(key: str, size: int, variables: int) -> dict[str, Any]:
    """Return a pod whose variables all name one long annotation; half of them in an init container."""
    env = [
        {"name": f"V{index}", "valueFrom": reference(f"metadata.annotations['{key}']")} for index in range(variables)
    ]
    half = variables // 2
    spec = {
        "initContainers": [{"name": "init", "env": env[:half]}],
        "containers": [{"name": "main", "env": env[half:]}],
    }
    # A user's own short manifest leaves space for more variables.
    manifest = '{"metadata":{},"spec":{"containers":[{"name":"main"}],"initContainers":[{"name":"init"}]}}'
    return pod({key: "x" * size, names.ANNOTATION_MANIFEST: manifest}, spec=spec)


def test_a_long_annotation_is_not_copied_for_each_variable_that_names_it() -> None:
    told = made(bomb("b", 60_000, 3000))
    assert len(msgspec.json.encode(told)) < 1 << 20


def test_values_that_are_written_out_have_a_limit_over_all_containers() -> None:
    proxy = proxied(bomb("multicluster/b", 60_000, 16))
    assert len(msgspec.json.encode(chaperon(proxy, cluster_name="", cluster_uid=""))) > 16 * 60_000
    too_long = proxied(bomb("multicluster/b", 60_000, 18))
    for refuse in (check, lambda proxy: chaperon(proxy, cluster_name="", cluster_uid="")):
        with pytest.raises(InvalidPod) as refused:
            refuse(too_long)
        assert refused.value.field == "spec.containers[main].env[V17]"
        assert f"more than {LIMIT} bytes" in refused.value.reason
        assert "downwardAPI volume" in refused.value.reason


def test_a_pod_whose_name_is_not_known_yet_is_checked_with_the_longest() -> None:
    env = [{"name": f"V{index}", "valueFrom": reference("metadata.name")} for index in range(LIMIT // 253 + 1)]
    proxy = pod(spec={"containers": [{"name": "main", "env": env}]})
    proxy["metadata"]["annotations"][names.ANNOTATION_MANIFEST] = '{"spec":{"containers":[{"name":"main"}]}}'
    del proxy["metadata"]["name"], proxy["metadata"]["uid"]
    with pytest.raises(InvalidPod, match=r"metadata\.name"):
        check(proxy)


def test_a_pattern_that_is_too_much_for_the_labels_is_refused_at_the_key_that_the_user_wrote() -> None:
    labels = {f"example.com/label-{index}": "x" * 40 for index in range(300)}
    proxy = proxied(pod({"multicluster/no-prefix-label-regexp": "(?:.{40}x|.{41}x)q"}, labels=labels))
    with pytest.raises(InvalidPod, match="is too large for so many labels") as refused:
        check(proxy)
    assert refused.value.field == "metadata.annotations[multicluster/no-prefix-label-regexp]"


def test_the_limit_for_a_pattern_is_for_labels_and_selectors_together() -> None:
    values = [f"{index:060}" for index in range(150)]
    term = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}}
    preferred = [{"weight": 1, "podAffinityTerm": {**term, "topologyKey": "zone"}}]
    pattern = {"multicluster/no-prefix-label-regexp": "app=[0-9]{60}$|x{100}"}

    def spread(count: int) -> dict[str, Any]:
        kind = {"preferredDuringSchedulingIgnoredDuringExecution": preferred * count}
        return pod(pattern, spec={"affinity": {"podAffinity": kind}})

    made(spread(1))
    with pytest.raises(InvalidPod, match="is too large for so many labels"):
        made(spread(10))


@pytest.mark.parametrize(
    "source",
    [
        reference("spec.nodeName"),
        reference("status.podIP"),
        {"configMapKeyRef": {"name": "a", "key": "b"}},
        {"resourceFieldRef": {"resource": "limits.cpu"}},
        reference("metadata.labels['topology.kubernetes.io/zone']"),
    ],
)
def test_what_only_the_target_knows_is_left_to_it(source: dict[str, Any]) -> None:
    env = [{"name": "V", "valueFrom": source}]
    assert env_of(pod(spec={"containers": [{"name": "main", "env": env}]})) == env


@pytest.mark.parametrize(
    ("path", "want"),
    [
        ("metadata.name", f"metadata.annotations['{P}parent-name']"),
        ("metadata.uid", f"metadata.labels['{P}parent-uid']"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.labels['app']", "metadata.labels['multicluster/U_app']"),
        ("metadata.labels['kept']", "metadata.labels['multicluster/U_kept']"),
        ("metadata.annotations['team']", "metadata.annotations['team']"),
        ("metadata.labels", "metadata.annotations['multicluster/labels-file']"),
        ("metadata.annotations", "metadata.annotations['multicluster/annotations-file']"),
        ("metadata.labels['topology.kubernetes.io/zone']", "metadata.labels['topology.kubernetes.io/zone']"),
    ],
)
def test_downward_files_are_pointed_at_what_the_delegate_carries_of_the_proxy(path: str, want: str) -> None:
    def volumes(path: str) -> list[dict[str, Any]]:
        items = [{"path": "f", **reference(path)}, {"path": "cpu", "resourceFieldRef": {"resource": "limits.cpu"}}]
        return [
            {"name": "plain", "downwardAPI": {"items": items}},
            {
                "name": "projected",
                "projected": {"sources": [{"secret": {"name": "s"}}, {"downwardAPI": {"items": items}}]},
            },
        ]

    source = pod(
        {P + "no-prefix-label-regexp": "^kept="},
        labels={"app": "web", "kept": "1"},
        spec={"containers": [{"name": "main"}], "volumes": volumes(path)},
    )
    assert made(source)["spec"]["volumes"] == volumes(want)


def test_files_of_all_labels_and_annotations_show_the_pods_own_as_kubelets_write_them() -> None:
    items = [{"path": each, **reference(f"metadata.{each}")} for each in ("labels", "annotations")]
    source = pod(
        {P + "elect": "", "note": 'a "b"\\\n\t\x1b', "grüße": "è\u200b"},
        labels={"x.io/app": "web", "app": "web"},
        spec={"containers": [{"name": "main"}], "volumes": [{"name": "v", "downwardAPI": {"items": items}}]},
    )
    annotations = made(source)["metadata"]["annotations"]
    assert annotations["multicluster/labels-file"] == 'app="web"\nx.io/app="web"'
    files = annotations["multicluster/annotations-file"].split("\n")
    assert files == ["grüße=" + r'"è\u200b"', "note=" + r'"a \"b\"\\\n\t\x1b"', 'team="x"']
    assert delegate({"metadata": {**made(source)["metadata"], "uid": "c"}, "spec": {}})["metadata"]["annotations"] == (
        annotations
    )


def test_a_file_whose_text_does_not_fit_beside_the_annotations_is_left_to_the_target() -> None:
    items = [{"path": "f", **reference("metadata.annotations")}]
    volumes = [{"name": "v", "downwardAPI": {"items": items}}]
    source = pod({"long": "x" * 60_000}, spec={"containers": [{"name": "main"}], "volumes": volumes})
    assert "multicluster/annotations-file" in made(source)["metadata"]["annotations"]
    proxy = proxied(source)
    proxy["metadata"]["annotations"]["longer"] = "x" * 100_000
    left = chaperon(proxy, cluster_name="c1", cluster_uid="CU")
    assert left["spec"]["volumes"] == volumes
    assert "multicluster/annotations-file" not in left["metadata"]["annotations"]


def test_a_topology_label_that_the_user_set_is_the_users() -> None:
    path = "metadata.labels['topology.kubernetes.io/zone']"
    env = [{"name": "V", "valueFrom": reference(path)}]
    volume = {"name": "v", "downwardAPI": {"items": [{"path": "f", **reference(path)}]}}
    containers = [{"name": "main", "env": env}]
    source = pod(labels={"topology.kubernetes.io/zone": "z"}, spec={"containers": containers, "volumes": [volume]})
    assert env_of(source) == [{"name": "V", "value": "z"}]
    (there,) = made(source)["spec"]["volumes"]
    assert there["downwardAPI"]["items"][0]["fieldRef"]["fieldPath"] == (
        "metadata.labels['multicluster/topology.kubernetes.io_zone']"
    )


def test_fields_that_nobody_here_knows_survive() -> None:
    spec = {"fieldOfTomorrow": {"a": [1, {"b": None}]}}
    assert made(pod(spec=spec))["spec"]["fieldOfTomorrow"] == spec["fieldOfTomorrow"]


def test_the_delegate_is_the_chaperons_pod() -> None:
    parent = made(pod())
    parent["metadata"]["uid"] = "CHAP"
    parent["metadata"]["annotations"].update(
        {
            P + "is-reserved": "true",
            P + "is-allowed": "true",
            P + "pod-missing-since": "now",
            "multicluster/attempts": "1",
        }
    )
    assert delegate(parent) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": parent["metadata"]["name"],
            "namespace": "default",
            "labels": parent["metadata"]["labels"],
            "annotations": {"team": "x", P + "parent-namespace": "default", P + "parent-name": "web-abc12"},
            "ownerReferences": [
                {
                    "apiVersion": "multicluster.admiralty.io/v1alpha1",
                    "kind": "PodChaperon",
                    "name": parent["metadata"]["name"],
                    "uid": "CHAP",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": parent["spec"],
    }


def test_a_delegate_is_neither_elected_nor_a_proxy() -> None:
    parent = made(pod({"multicluster/elect": ""}, spec={"schedulerName": "admiralty-proxy"}))
    parent["metadata"]["uid"] = "CHAP"
    child = delegate(parent)
    assert is_delegate(child)
    assert not is_elected(child)
    assert not is_proxy(child)


def test_scheduling_gates_stay_in_the_source() -> None:
    source = pod()
    source["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    assert "schedulingGates" not in made(source)["spec"]
