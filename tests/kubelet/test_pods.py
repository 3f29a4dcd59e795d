"""A delegate's status from a target is parsed, or reported as unreadable."""

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kube.errors import UNDECODABLE
from agent.kubelet.pods import read_pod
from tests.examples import examples

FIELDS = ("metadata", "name", "ownerReferences", "controller", "uid", "spec", "containers", "initContainers")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=12,
)


@given(st.binary() | JSON.map(msgspec.json.encode))
@settings(max_examples=examples(300))
def test_whatever_a_target_says_is_a_pod_or_unreadable(raw: bytes) -> None:
    with contextlib.suppress(*UNDECODABLE):
        pod = read_pod(raw)
        assert isinstance(pod.metadata.name, str)


def test_what_is_nested_without_end_is_unreadable() -> None:
    with pytest.raises(UNDECODABLE):
        read_pod(b'{"spec":' * 100_000)
