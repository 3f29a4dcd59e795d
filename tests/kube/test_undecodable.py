"""Identity of an object, read from the beginning of its JSON."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.kinds import CHAPERONS
from agent.kube.errors import KubeError
from agent.kube.reading import Reader
from agent.kube.store import metadata_only
from agent.kube.undecodable import is_version, sketch
from tests.examples import examples

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
TEXTS = st.dictionaries(st.text(), st.text())
NAME = st.text(st.sampled_from("abc-.019"), min_size=1, max_size=20)
METADATA = st.fixed_dictionaries(
    {"name": NAME, "resourceVersion": st.integers(1, 10**19).map(str)},
    optional={"namespace": NAME, "uid": NAME, "annotations": TEXTS, "labels": TEXTS, "managedFields": st.lists(JSON)},
)
ANYTHING = st.dictionaries(
    st.sampled_from(["nodeName", "schedulerName", "priority", "schedulingGates", "phase", "conditions"]) | st.text(),
    JSON,
)


@given(METADATA, st.dictionaries(st.text().filter(lambda key: key != "metadata"), JSON), st.booleans())
@settings(max_examples=examples(100))
def test_what_comes_after_the_metadata_need_not_be_there(
    metadata: dict[str, Any], rest: dict[str, Any], escaped: bool
) -> None:
    before = {"kind": "PodChaperon", "apiVersion": "v1", "metadata": metadata}
    whole = json.dumps(before | {key: rest[key] for key in rest if key not in before}, ensure_ascii=escaped)
    cut = json.dumps(before, ensure_ascii=escaped)[:-1]
    wanted = ("", metadata.get("namespace", ""), metadata["name"], metadata["resourceVersion"])
    assert sketch(whole.encode(errors="replace")) == wanted
    assert sketch(cut.encode(errors="replace")) == wanted
    line = b'{"type":"DELETED","object":' + cut.encode(errors="replace")
    assert sketch(line, event=True) == ("DELETED", *wanted[1:])


@given(st.binary(max_size=300) | JSON.map(json.dumps).map(lambda text: text.encode(errors="replace")))
@settings(max_examples=examples(200))
def test_any_bytes_give_an_identity_or_none(data: bytes) -> None:
    for event in (False, True):
        found = sketch(data, event=event)
        assert found is None or (found.name and is_version(found.version))


@pytest.mark.parametrize(
    "data",
    [
        b'{"metadata":' + b"[" * 500_000,
        b'{"metadata":{"annotations":{"a":"' + b'\\"' * 500_000,
        b'{"metadata":{"annotations":{"a":"' + b"\\u003c" * 500_000 + b'"},"name":"a","resourceVersion":"1"}}',
        b'{"metadata":{"name":"' + b"a" * 5000 + b'","resourceVersion":"1"}}',
        b'{"metadata":{"name":"a","resourceVersion":"' + b"9" * 5000 + b'"}}',
        b'{"metadata":{"name":"a","resourceVersion":"\xc2\xb2"}}',
        b'{"spec":{"metadata":{"name":"a","resourceVersion":"1"}},"metadata":{}}',
    ],
    ids=["deep", "endless text", "late", "long name", "long version", "no digits", "elsewhere"],
)
def test_what_has_no_identity_that_can_be_used_has_none_and_costs_little(data: bytes) -> None:
    assert sketch(data) is None


@given(METADATA, st.dictionaries(st.sampled_from(["spec", "status"]), JSON | ANYTHING))
@settings(max_examples=examples(200))
def test_whatever_a_spec_and_a_status_hold_the_metadata_can_be_read(
    metadata: dict[str, Any], rest: dict[str, Any]
) -> None:
    raw = json.dumps({"metadata": metadata | {"managedFields": []}} | rest).encode()
    told = Reader(CHAPERONS, None).item(raw)
    assert told.obj is not None
    assert (told.obj.name, told.obj.version) == (metadata["name"], metadata["resourceVersion"])
    assert isinstance(told.obj.node_name, str)
    assert isinstance(told.obj.priority, int)
    assert isinstance(told.obj.phase, str)
    spec = rest.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("nodeName"), str):
        assert told.obj.node_name == spec["nodeName"]


@given(
    st.binary(max_size=300)
    | JSON.map(json.dumps).map(str.encode)
    | st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "x"]), JSON).map(
        lambda pair: json.dumps({"type": pair[0], "object": pair[1]}).encode()
    ),
    st.sampled_from([None, metadata_only]),
)
@settings(max_examples=examples(300))
def test_any_line_of_a_watch_is_told_or_raises_one_of_our_errors(line: bytes, reduce: Any) -> None:
    reader = Reader(CHAPERONS, reduce)
    told = reader.item(line)
    assert told.key is not None or told.obj is None
    try:
        told = reader.event(line)
    except KubeError:
        return
    assert told.obj is None or told.obj.key == told.key
