"""Volumes of a cluster that a claim could bind to."""

from typing import Any

import pytest

from agent.dependencies.follow.homevolumes import could_have

Raw = dict[str, Any]
CLASS = "volume.beta.kubernetes.io/storage-class"


def claim(annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    metadata = {"name": "data", "namespace": "team", "uid": "U", "annotations": annotations or {}}
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": metadata, "spec": {"storageClassName": "", **usual, **spec}}


def volume(phase: str = "Available", labels: dict[str, str] | None = None, **spec: Any) -> Raw:
    usual = {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "capacity": {"storage": "10G"}}
    return {"metadata": {"name": "v", "labels": labels or {}}, "spec": {**usual, **spec}, "status": {"phase": phase}}


def test_a_claim_could_have_a_free_volume_of_its_class_that_is_large_enough() -> None:
    assert could_have(claim(), volume())
    assert could_have(claim(storageClassName="fast"), volume(storageClassName="fast"))
    assert could_have(claim({CLASS: "fast"}), volume(storageClassName="fast"))
    assert could_have({**claim(), "spec": {**claim()["spec"], "storageClassName": None}}, volume())


@pytest.mark.parametrize(
    "spec",
    [
        {"storageClassName": "fast"},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadWriteOnce", "ReadWriteMany"]},
        {"resources": {"requests": {"storage": "10Gi"}}},
        {"resources": {"requests": {"storage": "much"}}},
        {"resources": {}},
        {"selector": {"matchLabels": {"disk": "ssd"}}},
        {"volumeAttributesClassName": "gold"},
    ],
    ids=lambda spec: ", ".join(spec),
)
def test_what_a_claim_asks_for_and_a_volume_has_not_keeps_them_apart(spec: Raw) -> None:
    assert not could_have(claim(**spec), volume())


def test_a_selector_means_labels_of_volumes() -> None:
    selector = {"matchLabels": {"disk": "ssd"}, "matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]}
    assert could_have(claim(selector=selector), volume(labels={"disk": "ssd"}))
    assert not could_have(claim(selector=selector), volume(labels={"disk": "ssd", "old": "x"}))


def test_a_volume_that_is_taken_or_going_is_not_free() -> None:
    for phase in ("Bound", "Released", "Failed"):
        assert not could_have(claim(), volume(phase))
    going = volume()
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert not could_have(claim(), going)


def test_a_volume_that_is_kept_for_a_claim_is_that_claims_whatever_its_class() -> None:
    own = {"namespace": "team", "name": "data"}
    assert could_have(claim(), volume(storageClassName="other", claimRef=own))
    assert could_have(claim(), volume(claimRef={**own, "uid": "U"}))
    assert not could_have(claim(), volume(claimRef={**own, "uid": "V"}))
    assert not could_have(claim(), volume(claimRef={**own, "name": "more"}))
    assert not could_have(claim(volumeMode="Block"), volume(claimRef=own))


def test_a_volume_of_a_pool_that_a_program_keeps_is_for_nobodys_data_unless_it_is_kept_for_the_claim() -> None:
    pooled = volume()
    pooled["metadata"]["annotations"] = {"pv.kubernetes.io/provisioned-by": "local-volume-provisioner-node-1"}
    assert not could_have(claim(), pooled)
    pooled["spec"]["claimRef"] = {"namespace": "team", "name": "data"}
    assert could_have(claim(), pooled)
