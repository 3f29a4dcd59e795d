"""Flaws of a ClusterSummary; every summary without a flaw can be used."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES
from agent.clusters.health.agent_health import flaw_of
from agent.clusters.target_info import common_labels, shapes
from agent.kube.store import Object
from agent.model import virtualnode
from agent.model.nodeshapes import read_counted
from agent.model.summary import summarise
from agent.model.summaryflaw import summary_flaw
from agent.ranking.snapshot import amounts
from tests.examples import examples

SHAPES = f"metadata.annotations[{names.ANNOTATION_NODE_SHAPES}]"


def told(**fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": "singleton"}, **fields}


def annotated(key: str, text: Any) -> dict[str, Any]:
    return {"metadata": {"name": "singleton", "annotations": {key: text}}}


def shaped(*shapes: Any) -> dict[str, Any]:
    return annotated(names.ANNOTATION_NODE_SHAPES, msgspec.json.encode(shapes).decode())


def test_what_agents_tell_has_no_flaw() -> None:
    status = {"capacity": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}, "allocatable": {"cpu": "3920m"}}
    nodes = [{"metadata": {"name": "n", "labels": {"os": "linux"}}, "status": status}]
    assert summary_flaw(summarise(nodes, version="0.1.0", properties={"a": "b"}, taken={}, delegates={"u": 3})) is None
    # Admiralty's summary: without annotations, and without amounts before its agent has observed a node.
    assert summary_flaw(told()) is None
    assert summary_flaw(told(capacity=None, allocatable={})) is None
    assert summary_flaw(told(capacity={"cpu": 4}, allocatable={"memory": "1e9"})) is None


FLAWED = {
    "no quantity": (told(allocatable={"cpu": "lots"}), "allocatable[cpu]", "'lots' is not a quantity"),
    "thousands of digits": (told(capacity={"cpu": "9" * 5000}), "capacity[cpu]", "5000 characters"),
    "an enormous exponent": (told(capacity={"cpu": "1e999999999"}), "capacity[cpu]", "is not a quantity"),
    "less than nothing": (told(allocatable={"cpu": "-1"}), "allocatable[cpu]", "must be 0 or more"),
    "half a pod": (told(allocatable={"pods": "500m"}), "allocatable[pods]", "must be a whole number"),
    "half a device": (told(capacity={"a.com/b": "0.5"}), "capacity[a.com/b]", "must be a whole number"),
    "amounts that are none": (told(allocatable=[1]), "allocatable", "is not an object"),
    "a flag": (told(allocatable={"cpu": True}), "allocatable[cpu]", "is not a quantity"),
    "too many resources": (told(capacity={f"r{n}": 1 for n in range(1001)}), "capacity", "1000 are allowed"),
    "shapes of text": (annotated(names.ANNOTATION_NODE_SHAPES, "lots"), SHAPES, "cannot be read"),
    "shapes without end": (annotated(names.ANNOTATION_NODE_SHAPES, "[" * 5000), SHAPES, "cannot be read"),
    "shapes beyond the limit": (annotated(names.ANNOTATION_NODE_SHAPES, " " * 70_000 + "[]"), SHAPES, "65536 are"),
    "a shape of text": (shaped("x"), SHAPES, "Expected `object`"),
    "a shape with nonsense": (shaped({"allocatable": {"cpu": "lots"}}), f"{SHAPES}[0].allocatable[cpu]", "'lots'"),
    "room of nonsense": (
        shaped({}, {"free": [{}, {"amounts": {"cpu": "9" * 5000}}]}),
        f"{SHAPES}[1].free[1].amounts[cpu]",
        "is not a quantity",
    ),
    "fewer nodes than none": (shaped({"count": -1}), SHAPES, ">= 0"),
    "nodes without number": (shaped({"free": [{"count": 10**12}]}), SHAPES, "<= 1000000"),
    "delegates of text": (annotated(names.ANNOTATION_COUNTED, '{"u":"3"}'), "multicluster/", "Expected `int`"),
    "properties of text": (annotated(names.ANNOTATION_CLUSTER_PROPERTIES, "x"), "multicluster/", "cannot be read"),
    "an annotation that is none": (annotated("a", 5), "metadata", "Expected `str"),
}


@pytest.mark.parametrize(("summary", "field", "reason"), FLAWED.values(), ids=FLAWED)
def test_the_first_flaw_is_named_with_its_field(summary: dict[str, Any], field: str, reason: str) -> None:
    flaw = summary_flaw(summary)
    assert flaw is not None
    assert field in flaw.field
    assert reason in flaw.reason
    assert len(flaw.field) + len(flaw.reason) < 400


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)
QUANTITIES = st.sampled_from(["1", 2, 0.5, "500m", "1Gi", "-1", "lots", "9" * 5000, "1e99", None])
AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "hugepages-2Mi", "hugepages-1Gi", "a.com/b"]), QUANTITIES
)
FREE = st.fixed_dictionaries({}, optional={"amounts": AMOUNTS, "count": st.integers() | VALUES, "ports": VALUES})
SHAPE = st.fixed_dictionaries(
    {},
    optional={
        "labels": st.dictionaries(st.text(max_size=3), st.text(max_size=3)) | VALUES,
        "taints": VALUES,
        "allocatable": AMOUNTS | VALUES,
        "count": st.integers(0, 9) | VALUES,
        "free": st.lists(FREE, max_size=3) | VALUES,
    },
)
KEYS = st.sampled_from([names.ANNOTATION_NODE_SHAPES, names.ANNOTATION_COUNTED, names.ANNOTATION_CLUSTER_PROPERTIES])
TEXTS = st.one_of(
    st.lists(SHAPE, max_size=3).map(lambda value: msgspec.json.encode(value).decode()),
    VALUES.map(lambda value: msgspec.json.encode(value).decode()),
    st.text(max_size=9),
)


@settings(max_examples=examples(500), deadline=None)
@given(AMOUNTS | VALUES, AMOUNTS | VALUES, st.dictionaries(KEYS, TEXTS))
def test_whatever_a_target_tells_has_a_flaw_or_can_be_used(
    capacity: Any, allocatable: Any, annotations: dict[str, str]
) -> None:
    metadata = {"name": "singleton", "labels": {"a": "b"}, "annotations": annotations}
    raw = msgspec.json.encode({"metadata": metadata, "capacity": capacity, "allocatable": allocatable})
    summary = Object(CLUSTER_SUMMARIES, raw)
    if flaw_of(summary) is not None:
        return
    manifest = summary.decode()
    amounts(manifest.get("allocatable"))
    for shape in shapes(summary, common_labels(summary)):
        assert shape.kind
    read_counted(annotations, "u")
    virtualnode.free(manifest)
    virtualnode.amounts(manifest, several_huge_pages=False)
