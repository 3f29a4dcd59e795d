"""Update of an existing object to its manifest, owner references, and ignored fields."""

from typing import Any

import pytest

from agent.klusterlet import merge
from agent.klusterlet.merge import InvalidIgnoredField, merged, without_ignored

Raw = dict[str, Any]


def obj(kind: str = "ConfigMap", api_version: str = "v1", metadata: Raw | None = None, **fields: Any) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "web", **(metadata or {})}, **fields}


def owned(field: str, *keys: str, manager: str = "work-agent", operation: str = "Update") -> Raw:
    fields = {"f:metadata": {f"f:{field}": {f"f:{key}": {} for key in keys}}}
    return {"manager": manager, "operation": operation, "fieldsV1": fields}


def test_fields_are_replaced_and_finalizers_status_and_version_kept() -> None:
    live = obj(
        metadata={"resourceVersion": "7", "uid": "u", "finalizers": ["x/y"]}, data={"a": "1", "b": "2"}, status={"c": 1}
    )
    assert merged(live, obj(data={"a": "3"}, metadata={"finalizers": ["other/one"]})) == obj(
        metadata={"resourceVersion": "7", "uid": "u", "finalizers": ["x/y"]}, data={"a": "3"}, status={"c": 1}
    )


@pytest.mark.parametrize("field", ["labels", "annotations"])
@pytest.mark.parametrize(
    ("live", "managed", "given", "result"),
    [
        ({"a": "1"}, [], {"b": "2"}, {"a": "1", "b": "2"}),
        ({"a": "1", "b": "1"}, [], {"b": "2"}, {"a": "1", "b": "2"}),
        ({"a": "1"}, ["a"], {"b": "2"}, {"b": "2"}),
        ({"a": "1"}, ["a"], {}, None),
        ({"a": "1", "b": "2"}, [], {"a-": "", "c": "3"}, {"b": "2", "c": "3"}),
        ({"multicluster/global": "true"}, ["multicluster/global"], {}, {"multicluster/global": "true"}),
        (None, [], None, None),
    ],
)
def test_labels_are_merged_and_own_ones_that_the_manifest_lacks_removed(
    field: str, live: Raw | None, managed: list[str], given: Raw | None, result: Raw | None
) -> None:
    metadata = {"managedFields": [owned(field, *managed)], **({field: live} if live else {})}
    found = merged(obj(metadata=metadata), obj(metadata={field: given} if given is not None else {}))
    assert found["metadata"].get(field) == result


def test_labels_of_other_managers_stay() -> None:
    managed = [owned("labels", "a", manager="kubectl"), owned("labels", "b", operation="Apply")]
    found = merged(obj(metadata={"labels": {"a": "1", "b": "2"}, "managedFields": managed}), obj())
    assert found["metadata"]["labels"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("live", "manifest", "result"),
    [
        (
            obj("Service", spec={"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"a": "b"}}),
            obj("Service", spec={"ports": [{"port": 80}]}),
            {"ports": [{"port": 80}], "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"]},
        ),
        (
            obj("Service", spec={"clusterIP": "10.0.0.1"}),
            obj("Service", spec={"clusterIP": "None"}),
            {"clusterIP": "None"},
        ),
        (
            obj(
                "Job",
                "batch/v1",
                spec={
                    "selector": {"matchLabels": {"controller-uid": "u"}},
                    "template": {"metadata": {"labels": {"controller-uid": "u"}}, "spec": {"x": 1}},
                },
            ),
            obj("Job", "batch/v1", spec={"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}}),
            {
                "selector": {"matchLabels": {"controller-uid": "u"}},
                "template": {"metadata": {"labels": {"controller-uid": "u", "a": "b"}}, "spec": {"x": 1}},
            },
        ),
        (
            obj("PersistentVolumeClaim", spec={"volumeName": "pv", "resources": {"requests": {"storage": "1Gi"}}}),
            obj("PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "2Gi"}}}),
            {"volumeName": "pv", "resources": {"requests": {"storage": "2Gi"}}},
        ),
        (
            obj("Pod", spec={"nodeName": "n", "containers": [{"name": "a", "image": "x", "y": 1}, {"name": "side"}]}),
            obj("Pod", spec={"containers": [{"name": "a", "image": "z"}]}),
            {"nodeName": "n", "containers": [{"name": "a", "image": "z", "y": 1}, {"name": "side"}]},
        ),
        (
            obj("Deployment", "apps/v1", spec={"replicas": 3, "paused": True}),
            obj("Deployment", "apps/v1", spec={"replicas": 1}),
            {"replicas": 1},
        ),
    ],
)
def test_fields_of_the_server_stay(live: Raw, manifest: Raw, result: Raw) -> None:
    assert merged(live, manifest)["spec"] == result


def test_a_changed_role_or_type_of_secret_makes_the_object_again() -> None:
    def binding(role: str) -> Raw:
        return obj("RoleBinding", "rbac.authorization.k8s.io/v1", roleRef={"kind": "Role", "name": role})

    assert merge.must_be_replaced(binding("a"), binding("b"))
    assert not merge.must_be_replaced(binding("a"), binding("a"))
    assert merge.must_be_replaced(obj("Secret", type="Opaque"), obj("Secret", type="x/y"))
    assert not merge.must_be_replaced(obj("Secret", type="Opaque"), obj("Secret"))


def test_owner_references_are_added_once_and_removed_by_uid() -> None:
    one, two = merge.owner_reference("h-a", "1"), merge.owner_reference("h-b", "2")
    assert merge.with_owner([one], two) == [one, two]
    assert merge.with_owner([one], one) == [one]
    assert merge.without_owner([one, two], "1") == [two]
    both = obj(metadata={"ownerReferences": [one, two]})
    assert merge.is_owned(both, "1")
    assert merge.has_other_works(both, "1")
    assert not merge.has_other_works(obj(metadata={"ownerReferences": [one]}), "1")


@pytest.mark.parametrize(
    ("managers", "named"),
    [
        ([("work-agent", "03", ""), ("hpa", "04", ""), ("kubectl", "01", ""), ("kubelet", "05", "status")], "hpa"),
        ([("work-agent", "04", ""), ("hpa", "04", "")], "hpa"),
        ([("work-agent-x", "05", ""), ("hpa", "04", "")], "another ManifestWork"),
        ([], "another writer"),
    ],
)
def test_the_last_writer_is_named(managers: list[tuple[str, str, str]], named: str) -> None:
    managed = [{"manager": who, "time": f"2026-01-{day}", "subresource": sub} for who, day, sub in managers]
    assert merge.last_writer(obj(metadata={"managedFields": managed})) == named


def test_certificates_of_webhooks_stay() -> None:
    kind = ("ValidatingWebhookConfiguration", "admissionregistration.k8s.io/v1")
    live = obj(*kind, webhooks=[{"name": "a", "clientConfig": {"caBundle": "x"}}, {"name": "b", "clientConfig": {}}])
    found = merged(live, obj(*kind, webhooks=[{"name": "a", "clientConfig": {"url": "u"}}]))
    assert found["webhooks"] == [{"name": "a", "clientConfig": {"url": "u", "caBundle": "x"}}]


BODY: Raw = obj(spec={"replicas": 1, "items": [{"name": "a", "image": "x"}, {"name": "b", "image": "y"}], "a/b": 1})


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        ({"jsonPaths": [".spec.replicas"]}, {**BODY["spec"], "replicas": None}),
        ({"jsonPaths": [".spec.missing.field"]}, BODY["spec"]),
        (
            {"jsonPaths": ['.spec.items[?(@.name=="a")].image']},
            {**BODY["spec"], "items": [{"name": "a"}, {"name": "b", "image": "y"}]},
        ),
        (
            {"jsonPointers": ["/spec/items/1/image"]},
            {**BODY["spec"], "items": [{"name": "a", "image": "x"}, {"name": "b"}]},
        ),
        ({"jsonPointers": ["/spec/a~1b", "/spec/none/x"]}, {**BODY["spec"], "a/b": None}),
        ({"jsonPaths": [".spec.replicas"], "condition": "OnSpokeChange"}, BODY["spec"]),
    ],
)
def test_ignored_fields_are_left_out(rule: Raw, left: Raw) -> None:
    found = without_ignored(BODY, [{"condition": "OnSpokePresent", **rule}])
    assert found["spec"] == {key: value for key, value in left.items() if value is not None}


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"jsonPaths": [".spec[.x"]}, "JSON path error"),
        ({"jsonPointers": ["spec"]}, "JSON Pointer error"),
        ({"jqPathExpressions": [".spec"]}, "use jsonPaths"),
    ],
)
def test_an_invalid_ignored_field_is_named(rule: Raw, reason: str) -> None:
    with pytest.raises(InvalidIgnoredField, match=reason):
        without_ignored(BODY, [rule])
