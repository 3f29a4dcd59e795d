"""Volumes that represent those in targets."""

from typing import Any

import pytest

from agent.api import names
from agent.model.placeholder_volume import claim_key, claim_uid, is_for, is_needed, is_stand_in, name_of, volume_for
from agent.model.virtualnode import virtual_node
from agent.ranking.matching import any_term_matches

Raw = dict[str, Any]
EU = ("team", "eu")


def claim(phase: str = "Pending", annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
    metadata = {"name": "data", "namespace": "team", "uid": "U", "annotations": annotations or {}}
    usual = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return {"metadata": metadata, "spec": {**usual, **spec}, "status": {"phase": phase}}


def there(capacity: str = "5Gi") -> Raw:
    status = {"phase": "Bound", "capacity": {"storage": capacity}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]}
    return {"metadata": {}, "spec": {}, "status": status}


def test_it_says_what_the_volume_there_is_and_is_for_this_very_claim() -> None:
    found = volume_for(claim(storageClassName="fast", volumeMode="Block"), there(), EU)
    spec = found["spec"]
    assert found["metadata"]["labels"] == {names.LABEL_STAND_IN: "true"}
    assert spec["capacity"] == {"storage": "5Gi"}
    assert spec["accessModes"] == ["ReadWriteOnce", "ReadOnlyMany"]
    assert (spec["storageClassName"], spec["volumeMode"]) == ("fast", "Block")
    assert (claim_key(found), claim_uid(found)) == (("team", "data"), "U")
    assert spec["persistentVolumeReclaimPolicy"] == "Retain"
    assert spec["csi"]["driver"] == names.STAND_IN_DRIVER
    plain = volume_for(claim(), there(), EU)["spec"]
    assert (plain["storageClassName"], plain["volumeMode"]) == ("", "Filesystem")


@pytest.mark.parametrize("target", [EU, ("", "eu")], ids=["Target", "ClusterTarget"])
def test_it_belongs_to_the_one_virtual_node(target: tuple[str, str]) -> None:
    terms = volume_for(claim(), there(), target)["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    for node, fits in ((target, True), (("team", "us"), False), (("", "us"), False), (("other", "eu"), False)):
        assert any_term_matches(terms, virtual_node(*node)["metadata"]["labels"], "") is fits
    assert not any_term_matches(terms, {"kubernetes.io/hostname": "worker"}, "")


def test_what_is_for_another_target_is_told_apart() -> None:
    old = volume_for(claim(), there(), EU)
    assert is_for(old, volume_for(claim(), there("9Gi"), EU))
    assert not is_for(old, volume_for(claim(), there(), ("team", "us")))


def test_a_volume_with_data_is_none_whatever_its_labels_are() -> None:
    found = volume_for(claim(), there(), EU)
    assert is_stand_in(found)
    for source in ({"nfs": {"server": "files", "path": "/"}}, {"csi": {"driver": "disks.example.test"}}):
        spec = {field: value for field, value in found["spec"].items() if field != "csi"} | source
        assert not is_stand_in({**found, "spec": spec})


def test_a_claim_that_waits_needs_one() -> None:
    assert is_needed(claim())
    assert is_needed(claim(annotations={"multicluster/stand-in": "true"}))


def test_a_claim_that_has_lost_its_own_needs_it_again() -> None:
    lost = claim("Lost")
    lost["spec"]["volumeName"] = name_of(lost)
    assert is_needed(lost)
    assert not is_needed(claim("Lost", volumeName="theirs"))


@pytest.mark.parametrize(
    "annotation",
    [
        "volume.kubernetes.io/selected-node",
        "volume.kubernetes.io/storage-provisioner",
        "volume.beta.kubernetes.io/storage-provisioner",
    ],
)
def test_it_is_never_in_the_way_of_a_volume_that_somebody_makes_here(annotation: str) -> None:
    assert not is_needed(claim(annotations={annotation: "x"}))


def test_it_is_not_for_a_claim_that_has_a_volume_or_is_going_or_does_without() -> None:
    assert not is_needed(claim("Bound"))
    assert not is_needed(claim(volumeName="theirs"))
    assert not is_needed(claim(annotations={"multicluster/stand-in": "false"}))
    assert not is_needed(claim(annotations={"multicluster.admiralty.io/stand-in": "false"}))
    going = claim()
    going["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    assert not is_needed(going)
