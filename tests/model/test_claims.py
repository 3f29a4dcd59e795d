"""Claims for a target: the requested fields, without the source's volume."""

from typing import Any

import pytest

from agent.api import names
from agent.model.claims import InvalidMapping, claim_of, growth, storage_class, storage_classes

Raw = dict[str, Any]


def claim(size: str = "1Gi", **spec: Any) -> Raw:
    annotations = {"team": "x", "pv.kubernetes.io/bind-completed": "yes", names.ANNOTATION_VOLUME_IN: "admiralty-a-us"}
    annotations["volume.kubernetes.io/storage-provisioner"] = "csi.here"
    metadata = {"name": "data", "namespace": "team", "uid": "U", "annotations": annotations, "finalizers": ["x/y"]}
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {"metadata": metadata, "spec": {**usual, **spec}, "status": {"phase": "Bound"}}


def there(original: Raw, **classes: str) -> Raw:
    return claim_of(original, classes, cluster_name="cd", cluster_uid="C")


def test_a_claim_asks_for_the_same_without_the_volume_of_the_source() -> None:
    found = there(claim(volumeName="pvc-1", volumeMode="Block"))
    assert found["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "volumeMode": "Block",
    }
    assert set(found["metadata"]["annotations"]) == {
        "team",
        names.ANNOTATION_PARENT_NAME,
        names.ANNOTATION_PARENT_NAMESPACE,
    }
    assert "status" not in found
    assert "finalizers" not in found["metadata"]


def test_storage_classes_are_mapped_where_the_target_says_so() -> None:
    assert there(claim(storageClassName="fast"), fast="gp3")["spec"]["storageClassName"] == "gp3"
    assert there(claim(storageClassName="slow"), fast="gp3")["spec"]["storageClassName"] == "slow"
    assert "storageClassName" not in there(claim(storageClassName="fast"), fast="")["spec"]
    assert there(claim(storageClassName=""), fast="gp3")["spec"]["storageClassName"] == ""


def test_a_class_that_an_annotation_names_counts_as_one_of_the_spec() -> None:
    annotated = claim()
    annotated["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"] = "fast"
    assert storage_class(annotated) == "fast"
    assert there(annotated, fast="gp3")["spec"]["storageClassName"] == "gp3"
    assert there(annotated)["spec"]["storageClassName"] == "fast"
    assert "storageClassName" not in there(annotated, fast="")["spec"]
    assert storage_class(claim(storageClassName="slow")) == "slow"
    assert storage_class(claim()) == ""


def test_a_mapping_is_read_or_refused_with_the_part_that_is_wrong() -> None:
    assert storage_classes("fast=gp3, standard=,") == {"fast": "gp3", "standard": ""}
    assert storage_classes(None) == {}
    with pytest.raises(InvalidMapping, match="'gp3'"):
        storage_classes("fast=ssd,gp3")
    with pytest.raises(InvalidMapping, match="'=ssd'"):
        storage_classes("=ssd")


def test_a_claim_grows_with_its_original() -> None:
    assert growth(claim("1Gi"), claim("1Gi")) == {}
    assert growth(claim("2Gi"), claim("1Gi")) == {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
