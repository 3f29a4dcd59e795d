"""Cluster claims, as a cluster's agent publishes them and a ManagedCluster lists them."""

import json

import pytest

from agent.model import clusterclaims

ID, VERSION = "id.k8s.io", "kubeversion.open-cluster-management.io"
PRODUCT = "product.open-cluster-management.io"


def test_the_last_source_of_a_name_wins() -> None:
    told = clusterclaims.write([{"a": "claim", "b": "1"}, {"a": "property"}])
    assert json.loads(told.text) == {"a": "property", "b": "1"}
    assert clusterclaims.write([{}, {}]) == ("", 0)


def test_twenty_by_name_are_told_and_the_reserved_ones_beside_them() -> None:
    many = {f"claim{number:02}": "x" for number in range(30)} | {PRODUCT: "OpenShift"}
    text, found = clusterclaims.write([many])
    assert found == 30, "reserved ones are not too many"
    told = clusterclaims.read(text)
    assert set(told) == {f"claim{number:02}" for number in range(20)} | {PRODUCT}
    assert len(clusterclaims.read(json.dumps(many))) == 21, "whoever tells more is not believed"


def test_values_may_be_longer_than_those_of_labels_up_to_1024() -> None:
    claims = {"long": "x" * 1024, "longer": "x" * 1025, "none": "", "n" * 254: "x"}
    text, found = clusterclaims.write([claims])
    assert (clusterclaims.read(text), found) == ({"long": "x" * 1024}, 1)


@pytest.mark.parametrize("text", [None, "", "[]", "{", '{"a": 1}', "null"])
def test_what_cannot_be_read_is_nothing(text: str | None) -> None:
    assert clusterclaims.read(text) == {}


def test_reserved_ones_come_first_and_a_cluster_cannot_call_itself_as_another() -> None:
    told = {"gpu": "true", ID: "somebody", PRODUCT: "OpenShift", "a": "1"}
    assert clusterclaims.listed("1234", "v1.36.3", told) == [
        {"name": ID, "value": "1234"},
        {"name": VERSION, "value": "v1.36.3"},
        {"name": PRODUCT, "value": "OpenShift"},
        {"name": "a", "value": "1"},
        {"name": "gpu", "value": "true"},
    ]
    assert clusterclaims.listed("", "", {}) == []
