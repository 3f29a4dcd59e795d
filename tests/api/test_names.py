import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.names import ocm

POD_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


@pytest.mark.parametrize(
    ("parts", "constant", "optional", "want"),
    [
        (("default", "foo"), (), (), "default-foo"),
        (("default", "foo-bar"), (), (), "default-foo-bar-b1f5f88a38"),
        (("default-foo", "bar"), (), (), "default-foo-bar-ce0b03a405"),
        (
            ("verylongnamespaceverylongnamespace", "verylongnameverylongnameverylongname"),
            (),
            (),
            "verylongnamespaceverylongnamespace-verylongnameveryl-79f7165434",
        ),
        (
            ("verylongnamespaceverylongnamespace", "verylongnamevery-longnameverylongname"),
            (),
            (),
            "verylongnamespaceverylongnamespace-verylongnamevery-f098147021",
        ),
        (("prefix", "foo-bar"), (0,), (), "prefix-foo-bar"),
        (("", "foo"), (), (0,), "foo"),
        (("", "foo"), (), (0, 1), "foo-6f64c6e626"),
        (("foo", ""), (), (0, 1), "foo-14fe48f0fb"),
    ],
)
def test_vectors_of_2_2_names_are_joined_as_admiralty_joins_them(
    parts: tuple[str, ...], constant: tuple[int, ...], optional: tuple[int, ...], want: str
) -> None:
    assert names.join(63, parts, constant=constant, optional=optional) == want


@pytest.mark.parametrize(
    ("namespace", "name", "want_node", "want_finalizer"),
    [
        ("default", "c2", "admiralty-default-c2", "default-c2"),
        ("", "c2", "admiralty-c2", "c2"),
        ("", "us-west", "admiralty-us-west-11cc7aa062", "us-west-dab4e7b425"),
        ("team-a", "c2", None, "team-a-c2-0ba4508354"),
        ("team-a", "us-west", "admiralty-team-a-us-west-847b1b19bc", None),
        ("default", "eu-west-3-1", "admiralty-default-eu-west-3-1-8984c76b96", None),
    ],
)
def test_table_2_3_virtual_nodes_and_finalizers_have_admiraltys_names(
    namespace: str, name: str, want_node: str | None, want_finalizer: str | None
) -> None:
    if want_node:
        assert names.virtual_node(namespace, name) == want_node
    if want_finalizer:
        assert names.finalizer(namespace, name) == "multicluster.admiralty.io/" + want_finalizer


def test_table_2_3_bindings_have_admiraltys_names() -> None:
    assert names.source_binding("c1") == "admiralty-source-c1"
    assert names.source_viewer_binding("default", "c1") == "admiralty-source-default-c1-cluster-summary-viewer"
    assert names.source_viewer_binding("team-a", "c1") == "admiralty-source-team-a-c1-cluster-summary-viewer-344a76a73c"
    assert names.cluster_source_binding("c1") == "admiralty-cluster-source-c1"
    assert names.cluster_source_viewer_binding("c1") == "admiralty-cluster-source-c1-cluster-summary-viewer"


def test_an_annotation_is_read_under_both_prefixes_and_the_long_one_wins() -> None:
    short, long = {"multicluster/elect": "a"}, {"multicluster.admiralty.io/elect": "b"}
    assert names.annotation(short, "elect") == "a"
    assert names.annotation(long, "elect") == "b"
    assert names.annotation({**short, **long}, "elect") == "b"
    assert names.annotation({"other/elect": "c"}, "elect") is None
    assert names.annotation(None, "elect") is None


@given(st.from_regex(POD_NAME, fullmatch=True).filter(lambda name: len(name) <= 253), st.uuids().map(str))
def test_a_chaperons_name_is_a_valid_name_of_at_most_63_characters(pod: str, uid: str) -> None:
    name = names.chaperon(pod, uid)
    assert len(name) <= 63
    assert POD_NAME.fullmatch(name)
    assert name == names.chaperon(pod, uid)


def test_a_pod_name_cut_at_a_dot_gives_a_valid_name() -> None:
    assert names.chaperon("a" * 51 + ".b", "u").startswith("a" * 51 + "-")


def test_pods_of_the_same_name_but_another_uid_have_another_chaperon() -> None:
    assert names.chaperon("web-0", "1") != names.chaperon("web-0", "2")


@pytest.mark.parametrize("placement", ["web", "w" * 63, "w" * 64, "a." * 120 + "x", "w" * 51 + "." * 1 + "x" * 200])
def test_placement_decisions_have_names_and_labels_however_long_their_placement_is_called(placement: str) -> None:
    label = ocm.decision_label(placement)
    assert len(label) <= 63
    assert (label == placement) == (len(placement) <= 63)
    for number in (1, 100):
        name = ocm.decision_name(placement, number)
        assert len(name) <= 253
        assert name.endswith(f"-decision-{number}")
        assert all(part and part[0] != "-" != part[-1] for part in name.split("."))


def test_long_placements_that_begin_alike_have_decisions_of_their_own() -> None:
    one, other = "w" * 252 + "a", "w" * 252 + "b"
    assert ocm.decision_name(one, 1) != ocm.decision_name(other, 1)
    assert ocm.decision_label(one) != ocm.decision_label(other)
