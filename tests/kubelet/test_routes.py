"""Requested resource of a request, and the permission that it requires."""

import pytest

from agent.kube.http_headers import END
from agent.kubelet.requests import Unacceptable, parse
from agent.kubelet.routes import Attributes, Logs, Upgrade, attributes, route

SPDY = "Connection: Upgrade\r\nUpgrade: SPDY/3.1"


def ask(start: str, headers: str = SPDY) -> object:
    return route(parse(f"{start} HTTP/1.1\r\n{headers}".encode() + END))


@pytest.mark.parametrize(
    ("start", "verb", "subresources"),
    [
        ("GET /pods", "get", ("pods", "proxy")),
        ("GET /runningpods/", "get", ("pods", "proxy")),
        ("GET /healthz", "get", ("healthz", "proxy")),
        ("GET /healthz/ping", "get", ("healthz", "proxy")),
        ("GET /configz", "get", ("configz", "proxy")),
        ("GET /stats/summary", "get", ("stats",)),
        ("GET /metrics", "get", ("metrics",)),
        ("GET /metrics/resource", "get", ("metrics",)),
        ("GET /logs/messages", "get", ("log",)),
        ("GET /flagz", "get", ("configz",)),
        ("POST /checkpoint/a/b/c", "create", ("checkpoint",)),
        ("GET /containerLogs/a/b/c", "get", ("proxy",)),
        ("POST /exec/a/b/c", "create", ("proxy",)),
        ("GET /exec/a/b/c", "create", ("proxy",)),
        ("GET /attach/a/b/c", "create", ("proxy",)),
        ("GET /portForward/a/b", "create", ("proxy",)),
        ("GET /run/a/b/c", "create", ("proxy",)),
        ("GET /podsx", "get", ("proxy",)),
        ("GET /", "get", ("proxy",)),
    ],
)
def test_rights_are_those_of_kubelet_and_streams_take_create(
    start: str, verb: str, subresources: tuple[str, ...]
) -> None:
    request = parse(f"{start} HTTP/1.1".encode() + END)
    assert attributes(request) == Attributes(verb, subresources)


def test_logs_pass_every_option_on_and_a_tail_of_none() -> None:
    options = (
        "follow=true&previous=true&timestamps=true&sinceSeconds=5&sinceTime=2026-01-01T00%3A00%3A00Z"
        "&tailLines=0&limitBytes=10&stream=Stderr"
    )
    assert ask(f"GET /containerLogs/ns/web/main?{options}") == Logs(
        "ns",
        "web",
        "main",
        (
            ("follow", "true"),
            ("previous", "true"),
            ("timestamps", "true"),
            ("sinceSeconds", "5"),
            ("sinceTime", "2026-01-01T00:00:00Z"),
            ("tailLines", "0"),
            ("limitBytes", "10"),
            ("stream", "Stderr"),
        ),
    )


def test_both_streams_of_a_log_are_not_named_because_older_api_servers_do_not_know_the_option() -> None:
    assert ask("GET /containerLogs/ns/web/main?stream=All") == Logs("ns", "web", "main", ())


@pytest.mark.parametrize(("given", "query"), [("tail=5&tailLines=9", (("tailLines", "5"),)), ("tail=all", ())])
def test_the_old_name_of_tail_lines_is_understood(given: str, query: tuple[tuple[str, str], ...]) -> None:
    assert ask(f"GET /containerLogs/ns/web/main?{given}") == Logs("ns", "web", "main", query)


def test_exec_names_its_streams_as_an_api_server_does() -> None:
    assert ask("POST /exec/ns/web/main?command=sh&command=-c&input=1&output=1&error=1") == Upgrade(
        "exec",
        "ns",
        "web",
        "",
        "main",
        (
            ("command", "sh"),
            ("command", "-c"),
            ("stdin", "true"),
            ("stdout", "true"),
            ("stderr", "true"),
            ("tty", "false"),
        ),
    )


def test_a_terminal_has_no_stream_for_errors() -> None:
    found = ask("POST /attach/ns/web/main?input=1&output=1&error=1&tty=1")
    assert isinstance(found, Upgrade)
    assert dict(found.query) == {"stdin": "true", "stdout": "true", "stderr": "false", "tty": "true"}


def test_a_uid_may_be_named() -> None:
    for start, container in (("exec/ns/web/u-1/main?output=1", "main"), ("portForward/ns/web/u-1", "")):
        found = ask(f"POST /{start}")
        assert isinstance(found, Upgrade)
        assert (found.namespace, found.pod, found.uid, found.container) == ("ns", "web", "u-1", container)


def test_ports_of_a_websocket_are_named_one_by_one() -> None:
    found = ask("GET /portForward/ns/web?port=80,443&port=8080", "Connection: upgrade\r\nUpgrade: websocket")
    assert isinstance(found, Upgrade)
    assert found.query == (("ports", "80"), ("ports", "443"), ("ports", "8080"))


@pytest.mark.parametrize(
    ("start", "headers", "status"),
    [
        ("POST /exec/ns/web/main?output=1", "", 400),
        ("POST /exec/ns/web/main?output=1", "Connection: upgrade\r\nUpgrade: h2c", 400),
        ("POST /exec/ns/web/main", SPDY, 400),
        ("POST /exec/ns/web/main?error=1&tty=1", SPDY, 400),
        ("POST /exec/ns/web", SPDY, 404),
        ("POST /exec/ns/web/u/main/more", SPDY, 404),
        ("POST /exec/ns/We_b/main?output=1", SPDY, 400),
        ("GET /portForward/ns/web?port=0", SPDY, 400),
        ("GET /portForward/ns/web?port=x", SPDY, 400),
        ("GET /portForward/ns/web?port=70000", SPDY, 400),
        ("POST /containerLogs/ns/web/main", "", 405),
        ("GET /containerLogs/ns/web", "", 404),
        ("POST /pods", "", 405),
        ("POST /run/ns/web/main", "", 404),
        ("GET /logs/messages", "", 404),
        ("GET /debug/pprof/heap", "", 404),
        ("GET /", "", 404),
    ],
)
def test_the_rest_is_refused(start: str, headers: str, status: int) -> None:
    with pytest.raises(Unacceptable) as refused:
        ask(start, headers or "Host: x")
    assert refused.value.status == status
    assert str(refused.value)


def test_methods_that_nothing_has_are_refused_before_anybody_is_asked() -> None:
    with pytest.raises(Unacceptable) as refused:
        attributes(parse(b"DELETE /pods HTTP/1.1" + END))
    assert refused.value.status == 405
