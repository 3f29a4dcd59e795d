"""Heads of HTTP messages: valid heads are written back byte for byte, invalid ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kube import http_headers
from agent.kube.http_headers import BadHead, Headers

NAMES = st.text(st.sampled_from("abcXYZ019-_.!"), min_size=1, max_size=20)
VALUES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=20))
def test_a_head_that_was_rendered_is_read_as_it_was(pairs: list[tuple[str, str]]) -> None:
    start, headers = http_headers.split(http_headers.render("GET /x HTTP/1.1", pairs))
    assert start == "GET /x HTTP/1.1"
    assert list(headers) == pairs


@given(st.binary(max_size=400))
def test_any_bytes_give_a_head_or_the_one_error(data: bytes) -> None:
    try:
        start, _ = http_headers.split(data)
        http_headers.status(start)
    except BadHead:
        return


@pytest.mark.parametrize(
    "lines",
    [b"A b", b": b", b"A : b", b" A: b", b"A: b\x00c", b"A: b\rc", b"A: b\nB: c"],
    ids=["no colon", "no name", "space before the colon", "folded", "null", "carriage return", "line feed"],
)
def test_headers_that_servers_read_differently_are_refused(lines: bytes) -> None:
    with pytest.raises(BadHead):
        http_headers.split(b"GET / HTTP/1.1\r\n" + lines + http_headers.END)


def test_nothing_can_be_smuggled_into_a_header() -> None:
    with pytest.raises(BadHead):
        http_headers.render("GET / HTTP/1.1", [("A", "b\r\nAuthorization: Bearer stolen")])


def test_headers_are_found_in_any_case_and_split_at_commas() -> None:
    headers = Headers([("Connection", "keep-alive, Upgrade"), ("X-Stream", "a"), ("x-stream", "b")])
    assert headers.tokens("CONNECTION") == ["keep-alive", "upgrade"]
    assert headers.all("X-STREAM") == ["a", "b"]
    assert list(headers.only(["connection"])) == [("Connection", "keep-alive, Upgrade")]


@pytest.mark.parametrize("start", ["HTTP/1.1 20 OK", "HTTP/2 200", "200 OK", "HTTP/1.1 999 x", ""])
def test_a_first_line_without_a_status_is_refused(start: str) -> None:
    with pytest.raises(BadHead):
        http_headers.status(start)
    assert http_headers.status("HTTP/1.1 200 OK") == http_headers.status("HTTP/1.0 200") == 200
