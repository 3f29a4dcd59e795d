"""Documents of users and peers: JSON, or YAML with a JSON equivalent."""

import re
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model import _yaml, json_or_yaml
from agent.model.json_or_yaml import LIMIT, YAML_LIMIT, InvalidDocument, read
from tests.examples import examples

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
YAMLISH = st.text(alphabet="ab01:-_.+[]{},&*!'\"\n #~xe?|>%@", max_size=60)
SIXTY = re.compile(r"[0-9_]:[0-9]")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", None),
        ("# nothing", None),
        ("a: ~", {"a": None}),
        ("a: [yes, Off, TRUE, 'yes']", {"a": [True, False, True, "yes"]}),
        ("[0, -1, 1_000, 0x1F, 017, 0b101, +7]", [0, -1, 1000, 31, 15, 5, 7]),
        ("[1.5, -1.5e+3, .5, 1e3, 1.]", [1.5, -1500.0, 0.5, "1e3", 1.0]),
        ("[1:1:1, 190:20:30.15, 2026-01-01]", ["1:1:1", "190:20:30.15", "2026-01-01"]),
        ("[!!str 5, !!int '5', ! 5, '5', \"5\"]", ["5", 5, 5, "5", "5"]),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
        ("a: &x [1, {b: c}]\nd: *x", {"a": [1, {"b": "c"}], "d": [1, {"b": "c"}]}),
        ("=: a", {"=": "a"}),
        ("'<<': a", {"<<": "a"}),
        ("a: <<", {"a": "<<"}),
    ],
)  # fmt: skip
def test_yaml_means_what_json_could_say(text: str, want: Any) -> None:
    assert read(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("a: b\na: c", "a key is there twice (line 2): 'a'"),
        ("<<: {a: b}", "a key is not a string"),
        ("{1: a}", "a key is not a string"),
        ("? [a]\n: b", "a key is not a string"),
        ("{a: b, *x : c}", "a key is not a string"),
        ("a: *b", "it cannot be written out"),
        ("a: &a [*a]", "it cannot be written out"),
        ("--- a\n--- b", "there is more than one document"),
        ("a: !!python/name:os.system", "a tag is not allowed"),
        ("a: !!binary aGk=", "a tag is not allowed"),
        ("a: !!int b", "a tag is not allowed"),
        ("a: .inf", "a number is none that JSON has"),
        ("a: .NaN", "a number is none that JSON has"),
        ("[" * 200, "nested too deeply"),
        ("- " * 200, "nested too deeply"),
        ("[" * 5000 + "1" + "]" * 5000, "nested too deeply"),
        ("a: b: c", "it is not YAML (line 1)"),
        ("a: '\x00'", "it is not YAML"),
        ("a: \ud800", "it is not YAML"),
        ("x" * (YAML_LIMIT + 1), f"as YAML it may have {YAML_LIMIT} characters, not {YAML_LIMIT + 1}: write"),
        ('"' + "x" * LIMIT + '"', f"it has {LIMIT + 2} characters, and {LIMIT} are allowed"),
    ],
)  # fmt: skip
def test_what_json_could_not_say_is_refused_with_the_line(text: str, want: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        read(text)
    assert want in str(caught.value)
    assert len(caught.value.reason) < 120


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["a0: &a0 [x]", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))]),
        f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 300)}]",
    ],
    ids=["many values", "a long text"],
)
def test_aliases_cannot_make_a_document_longer_than_json_could_be(text: str) -> None:
    with pytest.raises(InvalidDocument, match=f"more than {LIMIT} characters and values with its aliases written out"):
        read(text)


@pytest.mark.parametrize(
    "text", ["9" * 60_000, "1" + "_" * 60_000, ":".join(["1"] * 30_000), "0x" + "f" * 60_000, "." + "0" * 60_000]
)
def test_what_looks_like_an_endless_number_is_text(text: str) -> None:
    assert read(f"a: {text}") == {"a": text}


def test_without_libyaml_less_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_yaml, "HAS_LIBYAML", False)
    monkeypatch.setattr(_yaml, "_PARSER", yaml.SafeLoader)
    assert read("a: [b, 1, *c]".replace("*c", "~")) == {"a": ["b", 1, None]}
    with pytest.raises(InvalidDocument, match=f"it may have {json_or_yaml.PURE_YAML_LIMIT} characters"):
        read("a: " + "b" * json_or_yaml.PURE_YAML_LIMIT)


def test_libyaml_comes_with_the_wheels() -> None:
    assert _yaml.HAS_LIBYAML


@settings(max_examples=examples(300), deadline=None)
@given(JSON)
def test_what_is_written_as_yaml_is_read_as_it_was(value: Any) -> None:
    try:
        text = yaml.safe_dump(value)
    except yaml.YAMLError:
        return
    found = read(text)
    assert found == value or _without_precision(found) == _without_precision(value)


def _without_precision(value: Any) -> Any:
    """Normalize floats: PyYAML writes 1e+16 as 1.0e+16, and whole floats may be read as integers."""
    if isinstance(value, dict):
        return {key: _without_precision(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_precision(item) for item in value]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


@settings(max_examples=examples(1000), deadline=None)
@given(st.text(max_size=200) | YAMLISH)
def test_any_text_gives_a_value_or_the_error(text: str) -> None:
    try:
        value = read(text)
    except InvalidDocument:
        return
    if SIXTY.search(text) or text.lstrip()[:1] in "{[" or not isinstance(value, dict | list):
        return
    assert value == yaml.load(text, yaml.CSafeLoader)
