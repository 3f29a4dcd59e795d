"""Manifests: the applied parts, their order, and whether an object still has the applied values."""

import json
from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, ROLES, SERVICES
from agent.api.names.p2code import ANNOTATION_APPLIED, FIELD_MANAGER
from agent.model import applied
from agent.model.applied import Place

Raw = dict[str, Any]

LABELS = {"owner": "web", "uid": "U"}


def deployment(**spec: Any) -> Raw:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "labels": {"app": "web"}},
        "spec": {"replicas": 2, "args": ["a"], **spec},
    }


def leaves(value: object) -> Raw:
    """Return managed fields as an API server records them for an applied value with atomic lists."""
    return {f"f:{key}": leaves(each) for key, each in value.items()} if isinstance(value, dict) else {}


def live(body: Raw, fields: Raw | None = None, **more: Any) -> Raw:
    """Return the metadata of an object after it was applied like this."""
    own = {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
    own = {**own, "metadata": {key: body["metadata"][key] for key in ("labels", "annotations")}}
    entry = {
        "manager": FIELD_MANAGER,
        "operation": "Apply",
        "fieldsV1": leaves(own) if fields is None else fields,
    }
    return {"annotations": body["metadata"]["annotations"], "managedFields": [entry, *more.get("others", ())]}


def test_kinds_go_in_the_order_of_the_work_agent() -> None:
    kinds = ["Ingress", "Deployment", "Service", "Secret", "ServiceAccount", "RoleBinding", "Namespace"]
    assert sorted(kinds, key=applied.rank) == kinds[::-1]
    assert applied.rank("HorizontalPodAutoscaler") > applied.rank("StatefulSet")


def test_what_makes_pods_is_deleted_before_what_pods_need_and_namespaces_last() -> None:
    places = [Place(kind, "shop") for kind in (DEPLOYMENTS, CONFIGMAPS, SERVICES, ROLES, NAMESPACES)]
    assert [place.stage for place in places] == [0, 1, 1, 1, 2]


@pytest.mark.parametrize("place", [Place(DEPLOYMENTS, "shop"), Place(CONFIGMAPS, "shop"), Place(NAMESPACES, "")])
def test_where_something_was_applied_can_be_read_again(place: Place) -> None:
    assert applied.parsed(str(place)) == (place.kind.group, place.kind.name, place.namespace)


def test_what_api_servers_write_is_not_applied() -> None:
    manifest = deployment()
    manifest["metadata"] |= {"uid": "X", "resourceVersion": "7", "managedFields": [{}], "creationTimestamp": None}
    body = applied.sent(manifest | {"status": {"replicas": 2}}, LABELS)
    assert set(body) == {"apiVersion", "kind", "metadata", "spec"}
    assert set(body["metadata"]) == {"name", "namespace", "labels", "annotations"}
    assert body["metadata"]["labels"] == {"app": "web", **LABELS}


def test_a_manifest_cannot_say_whose_it_is() -> None:
    manifest = deployment()
    manifest["metadata"]["labels"] = {"uid": "another"}
    assert applied.sent(manifest, LABELS)["metadata"]["labels"]["uid"] == "U"


def test_strings_of_a_secret_are_applied_as_its_data() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    body = applied.sent({**secret, "data": {"a": "eA==", "b": "eA=="}, "stringData": {"b": "y"}}, LABELS)
    assert body["data"] == {"a": "eA==", "b": "eQ=="}
    assert "stringData" not in body


def test_an_object_is_unchanged_while_all_its_fields_are_ours() -> None:
    body = applied.sent(deployment(), LABELS)
    assert applied.is_unchanged(live(body), body)


@pytest.mark.parametrize(
    "path",
    [("f:spec", "f:replicas"), ("f:spec", "f:args"), ("f:metadata", "f:labels", "f:app"), ("f:metadata", "f:labels")],
)
def test_an_object_has_changed_when_another_owns_a_field(path: tuple[str, ...]) -> None:
    body = applied.sent(deployment(), LABELS)
    found = live(body)
    fields = found["managedFields"][0]["fieldsV1"]
    for each in path[:-1]:
        fields = fields[each]
    del fields[path[-1]]
    assert not applied.is_unchanged(found, body)


@pytest.mark.parametrize("change", [{"replicas": 3}, {"args": []}, {"paused": True}])
def test_an_object_has_changed_when_its_manifest_has(change: Raw) -> None:
    found = live(applied.sent(deployment(), LABELS))
    assert not applied.is_unchanged(found, applied.sent(deployment(**change), LABELS))


@pytest.mark.parametrize("other", [{"operation": "Update"}, {"manager": "kubectl"}, {"subresource": "status"}])
def test_what_others_own_or_we_by_other_means_does_not_count(other: Raw) -> None:
    body = applied.sent(deployment(), LABELS)
    found = live(body)
    found["managedFields"][0] |= other
    assert not applied.is_unchanged(found, body)


def test_items_of_lists_are_found_by_their_keys_and_what_they_do_not_name_has_its_default() -> None:
    ports = [{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}]
    body = applied.sent(deployment(ports=ports, finalizers=["a"]), LABELS)
    found = live(body)
    spec = found["managedFields"][0]["fieldsV1"]["f:spec"]
    tcp, udp = (f'k:{{"containerPort":80,"protocol":"{each}"}}' for each in ("TCP", "UDP"))
    spec["f:ports"] = {
        tcp: {".": {}, "f:containerPort": {}, "f:name": {}},
        udp: {".": {}, "f:containerPort": {}, "f:protocol": {}},
    }
    spec["f:finalizers"] = {'v:"a"': {}}
    assert applied.is_unchanged(found, body)
    del spec["f:ports"][tcp]["f:name"]
    assert not applied.is_unchanged(found, body)
    spec["f:ports"][tcp]["f:name"] = {}
    spec["f:finalizers"] = {'v:"b"': {}}
    assert not applied.is_unchanged(found, body)


def test_what_is_empty_is_nobodys() -> None:
    body = applied.sent(deployment(selector=None, volumes=[], template={}), LABELS)
    found = live(body)
    for each in ("selector", "volumes", "template"):
        del found["managedFields"][0]["fieldsV1"]["f:spec"][f"f:{each}"]
    assert applied.is_unchanged(found, body)


def scaler(name: str) -> Raw:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    metadata = {"name": "hpa", "namespace": "shop"}
    return {"kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": {"scaleTargetRef": target}}


def test_what_an_autoscaler_of_the_manifests_scales_is_known() -> None:
    assert applied.autoscaled([deployment(), scaler("web")]) == {("Deployment", "shop", "web")}
    assert applied.autoscaled([deployment(), {"kind": "HorizontalPodAutoscaler", "spec": None}]) == frozenset()


def test_replicas_are_left_to_the_scaler_once_it_has_set_them() -> None:
    body = applied.sent(deployment(), LABELS)
    assert applied.left_to_scaler(live(body), body) == body
    entry = {"manager": "x", "operation": "Update", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    found = live(body, others=[entry])
    del found["managedFields"][0]["fieldsV1"]["f:spec"]["f:replicas"]
    assert not applied.is_unchanged(found, body)
    left = applied.left_to_scaler(found, body)
    assert "replicas" not in left["spec"]
    assert applied.is_unchanged(found, left)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"apiVersion": None}, "apiVersion"),
        ({"kind": 1}, "kind"),
        ({"metadata": "web"}, "metadata.name"),
        ({"metadata": {}}, "metadata.name"),
        ({"metadata": {"name": "web", "namespace": 1}}, "metadata.namespace"),
        ({"metadata": {"name": "web", "labels": "app"}}, "metadata.labels"),
        ({"metadata": {"name": "web", "annotations": [1]}}, "metadata.annotations"),
        ({"spec": [1]}, "spec"),
        ({"kind": "Secret", "stringData": "x"}, "stringData"),
    ],
)
def test_what_is_no_manifest_is_told_by_its_field(change: Raw, field: str) -> None:
    assert applied.flaw(deployment()) == ""
    assert applied.flaw(deployment() | change).startswith(field)


def test_the_digest_is_the_same_in_whatever_order_fields_come() -> None:
    shuffled = json.loads(json.dumps(dict(reversed(deployment().items()))))
    notes = {
        applied.sent(each, LABELS)["metadata"]["annotations"][ANNOTATION_APPLIED] for each in (deployment(), shuffled)
    }
    assert len(notes) == 1
