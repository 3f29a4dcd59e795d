"""Claims that receive a volume from hack/corpus's simulated provisioner."""

from typing import Any

from hack.lab.corpus.provisioner import CLASS, standard_class, volume_of

Raw = dict[str, Any]

CLASSES = {CLASS: standard_class(), "at-once": {"provisioner": "x", "volumeBindingMode": "Immediate"}}
NOBODY = {"none": {"provisioner": "kubernetes.io/no-provisioner"}}
SELECTED = {"volume.kubernetes.io/selected-node": "node-1"}


def claim(storage_class: str, annotations: Raw | None = None, **spec: str) -> Raw:
    asked = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"name": "data", "namespace": "shop", "uid": "1", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {**asked, "storageClassName": storage_class, **spec}}


def test_a_claim_waits_for_the_node_of_its_pod_unless_its_class_does_not() -> None:
    assert volume_of(claim(CLASS), CLASSES) is None
    made = volume_of(claim(CLASS, SELECTED), CLASSES)
    assert made is not None
    assert made["spec"]["accessModes"] == ["ReadWriteMany"]
    assert made["spec"]["claimRef"]["uid"] == "1"
    assert volume_of(claim("at-once"), CLASSES) is not None


def test_a_claim_that_has_a_volume_or_no_provisioner_gets_none() -> None:
    assert volume_of(claim("at-once", volumeName="attic"), CLASSES) is None
    assert volume_of(claim("none", SELECTED), NOBODY) is None
    assert volume_of(claim("", SELECTED), CLASSES) is None
    assert volume_of(claim("unknown", SELECTED), CLASSES) is None
