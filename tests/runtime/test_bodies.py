"""Bodies of requests: the estimate of their memory, and the order in which they are answered."""

import tracemalloc

import msgspec
import pytest

from agent.runtime import bodies
from agent.runtime.bodies import decoded_size

LENGTH = 300_000


def repeated(value: bytes) -> bytes:
    """A list of `LENGTH` bytes that repeats a value."""
    return b"[" + b",".join([value] * (LENGTH // (len(value) + 1))) + b"]"


def text(last: str) -> bytes:
    """A list of one long string with this end."""
    return f'["{"x" * LENGTH}{last}"]'.encode()


DOCUMENTS = {
    "a long string": text(""),
    "a long string with an emoji": text("😀"),
    "a long string with an escaped emoji": text(r"\ud83d\ude00"),
    "a long string with an escaped Chinese character": text(r"\u4e2d"),
    "short strings with an emoji": repeated('"😀"'.encode()),
    "empty lists": repeated(b"[]"),
    "lists in lists": repeated(b"[[[[]]]]"),
    "empty objects": repeated(b"{}"),
    "objects with one field": repeated(b'{"a":1}'),
    "objects in objects": repeated(b'{"a":{"a":{"a":{"a":{}}}}}'),
    "variables": repeated(b'{"name":"ABCDEFGHIJ","value":"abcdefghij"}'),
    "strings": repeated(b'"abcdefghij"'),
    "numbers": repeated(b"1.5"),
    "an object with many fields": msgspec.json.encode({f"k{i}": f"v{i}" for i in range(LENGTH // 16)}),
}


@pytest.mark.parametrize("content", DOCUMENTS)
def test_a_body_is_estimated_at_no_less_memory_than_it_takes(content: str) -> None:
    document = DOCUMENTS[content]
    tracemalloc.start()
    try:
        decoded = msgspec.json.decode(document)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoded
    assert len(document) + taken - 1000 <= decoded_size(document)


def test_escapes_of_html_do_not_count_as_wide_characters() -> None:
    # Go escapes these in all JSON that an API server sends.
    assert decoded_size(text(r"\u0026\u003c\u003e")) == pytest.approx(decoded_size(text("")), rel=0.01)


def test_two_pods_of_the_largest_size_fit_into_a_request() -> None:
    variables = [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(30_000)]
    pod = {"spec": {"containers": [{"name": "c", "env": variables}]}}
    body = msgspec.json.encode({"request": {"object": pod, "oldObject": pod}})
    assert len(body) > 2_500_000
    assert decoded_size(body) < bodies.MOST_DECODED_OF_PEER
