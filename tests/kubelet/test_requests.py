"""Requests to the kubelet API."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.kube.http_headers import END
from agent.kubelet.requests import Request, Unacceptable, parse
from agent.kubelet.routes import attributes, route


def read(start: str, *headers: str) -> Request:
    return parse("\r\n".join([start, *headers]).encode() + END)


def test_path_and_query_are_decoded_in_their_order() -> None:
    request = read("POST /exec/ns/web/main?command=sh&command=-c&command=a+b%26c&input=1&tty= HTTP/1.1", "Host: x")
    assert request.path == ("exec", "ns", "web", "main")
    assert request.all("command") == ["sh", "-c", "a b&c"]
    assert request.first("input") == "1"
    assert request.first("tty") == request.first("output") == ""
    assert request.keep_alive


def test_a_slash_at_the_end_counts_for_nothing() -> None:
    assert read("GET /pods/ HTTP/1.1").path == read("GET /pods HTTP/1.1").path == ("pods",)
    assert read("GET / HTTP/1.1").path == ()


@pytest.mark.parametrize(
    ("start", "headers", "status"),
    [
        ("GET pods HTTP/1.1", (), 400),
        ("GET http://x/pods HTTP/1.1", (), 400),
        ("get /pods HTTP/1.1", (), 400),
        ("GET /pods", (), 400),
        ("GET /pods HTTP/2", (), 400),
        ("GET /a b HTTP/1.1", (), 400),
        ("GET /pods/../exec HTTP/1.1", (), 400),
        ("GET /pods/%2e%2e/exec HTTP/1.1", (), 400),
        ("GET /containerLogs/a%2Fb/c/d HTTP/1.1", (), 400),
        ("GET //pods HTTP/1.1", (), 400),
        ("GET /%ff HTTP/1.1", (), 400),
        ("GET /a%00b HTTP/1.1", (), 400),
        ("GET /pods?a=%ff HTTP/1.1", (), 400),
        ("POST /exec/a/b/c HTTP/1.1", ("Transfer-Encoding: chunked",), 400),
        ("POST /exec/a/b/c HTTP/1.1", ("Content-Length: -1",), 400),
        ("POST /exec/a/b/c HTTP/1.1", ("Content-Length: " + "9" * 5000,), 400),
        ("POST /exec/a/b/c HTTP/1.1", ("Content-Length: 0", "Content-Length: 5"), 400),
        ("POST /exec/a/b/c HTTP/1.1", ("Content-Length: 5",), 413),
    ],
)
def test_what_is_no_request_of_ours_is_refused(start: str, headers: tuple[str, ...], status: int) -> None:
    with pytest.raises(Unacceptable) as refused:
        read(start, *headers)
    assert refused.value.status == status


def test_an_upgrade_counts_only_when_the_connection_says_so() -> None:
    assert read("POST /exec/a/b/c HTTP/1.1", "Upgrade: SPDY/3.1").upgrade == ""
    assert read("POST /exec/a/b/c HTTP/1.1", "Upgrade: SPDY/3.1", "Connection: Upgrade").upgrade == "SPDY/3.1"


@pytest.mark.parametrize("start", ["GET /pods HTTP/1.0", "GET /pods HTTP/1.1"])
def test_a_client_that_closes_is_not_kept_waiting(start: str) -> None:
    assert not read(start, "Connection: close").keep_alive
    assert read("GET /pods HTTP/1.1").keep_alive


@given(st.binary(max_size=300))
@example(b"GET /exec/a/b/c?command=%zz HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: SPDY/3.1")
@example(b"GET /portForward/a/b?port=99999999999999999999 HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket")
def test_any_bytes_are_a_request_with_a_route_or_are_refused_with_a_status(data: bytes) -> None:
    def answer() -> int:
        try:
            request = parse(data + END)
            attributes(request)
            route(request)
        except Unacceptable as refused:
            return refused.status
        return 200

    assert answer() in range(200, 500)
