import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.extender.wire import BindingArgs, Malformed, parse, result

GOOD = {"PodName": "web-1", "PodNamespace": "default", "PodUID": "0f6e-1", "Node": "node-1.example.com"}


def test_what_a_scheduler_asks_for_is_read_and_answered() -> None:
    assert parse(msgspec.json.encode(GOOD)) == BindingArgs("web-1", "default", "0f6e-1", "node-1.example.com")
    assert msgspec.json.decode(result("not allowed")) == {"Error": "not allowed"}
    assert msgspec.json.decode(result("")) == {"Error": ""}


def test_fields_that_later_releases_add_do_no_harm() -> None:
    assert parse(msgspec.json.encode(GOOD | {"Pod": {}})).node == "node-1.example.com"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no ExtenderBindingArgs"),
        (b"[]", "no ExtenderBindingArgs"),
        (b"\xff\xfe", "no ExtenderBindingArgs"),
        (b"[" * 50_000, "no ExtenderBindingArgs"),
        (msgspec.json.encode({**GOOD, "PodUID": 7}), r"\$.PodUID"),
        (msgspec.json.encode({"PodName": "a"}), "missing required field"),
        (msgspec.json.encode({**GOOD, "PodName": "../secrets/x"}), "PodName '../secrets/x' cannot be one"),
        (msgspec.json.encode({**GOOD, "PodName": "a" * 254}), "PodName"),
        (msgspec.json.encode({**GOOD, "PodNamespace": "kube-system/pods"}), "PodNamespace"),
        (msgspec.json.encode({**GOOD, "PodNamespace": ""}), "PodNamespace"),
        (msgspec.json.encode({**GOOD, "PodUID": ""}), "PodUID"),
        (msgspec.json.encode({**GOOD, "PodUID": "a\nb"}), "PodUID"),
        (msgspec.json.encode({**GOOD, "Node": ""}), "Node"),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_with_the_field(body: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        parse(body)


@given(st.binary(max_size=200) | st.dictionaries(st.sampled_from(sorted(GOOD)), st.text()).map(msgspec.json.encode))
def test_any_body_is_read_or_refused(body: bytes) -> None:
    try:
        asked = parse(body)
    except Malformed:
        return
    assert not set("/?#%\n ") & set(asked.name + asked.namespace + asked.node)
