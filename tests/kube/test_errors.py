import json

import pytest

from agent.kube import errors
from agent.kube.errors import from_status, from_watch_error


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("fine", "fine"),
        ("two\r\nlines\tand a tab", "two lines and a tab"),
        ("\x07 bell \x1b[31m \u202e", "\ufffd bell \ufffd[31m \ufffd"),
        ("a" * 30, "a" * 19 + "…"),
        ("a" + " " * 1000 + "b", "a…"),
    ],
)
def test_what_others_say_is_told_in_one_line_of_limited_length(text: str, line: str) -> None:
    assert errors.one_line(text, 20) == line


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff", b'{"kind":"Status","message":5}', b"<html>", b""])
def test_a_body_that_is_no_status_gives_an_error_all_the_same(body: bytes) -> None:
    assert str(from_status(body, 503)) == "HTTP status 503"
    assert isinstance(from_watch_error(body), errors.ServerError)


def test_a_message_of_megabytes_or_of_many_lines_becomes_one_short_line() -> None:
    error = from_status(status("Reason\n" * 1000, "line\n" * 1_000_000), 422)
    assert len(str(error)) <= 2048
    assert len(error.reason) <= 2048
    assert "\n" not in f"{error}{error.message}{error.reason}"
    assert "\n" not in str(errors.Unreachable("a\nb"))


def status(reason: str = "", message: str = "no", code: int = 0) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "code": code}).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", errors.Conflict),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Gone", errors.Gone),
        (410, "Expired", errors.Gone),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerError),
        (418, "", errors.StatusError),
    ],
)
def test_each_status_has_its_error(code: int, reason: str, kind: type[errors.StatusError]) -> None:
    error = from_status(status(reason), code)
    assert type(error) is kind
    assert isinstance(error, errors.KubeError)
    assert (error.status, error.reason, str(error)) == (code, reason, "no")


def test_an_object_that_exists_is_a_conflict_too() -> None:
    assert issubclass(errors.AlreadyExists, errors.Conflict)


def test_a_request_that_was_never_sent_is_one_without_an_answer_too() -> None:
    assert issubclass(errors.Unsent, errors.Unreachable)


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>token=abc</html>", b'{"message":"token=abc"}', b"[1]", b"\xff\xfe", b'{"kind":"\xff"}', b"null"],
    ids=["nothing", "a page", "another object", "a list", "no text", "broken text", "null"],
)
def test_nothing_of_a_body_that_is_no_status_is_repeated(body: bytes) -> None:
    assert str(from_status(body, 502)) == "HTTP status 502"


def test_a_status_without_words_is_told_by_its_number() -> None:
    assert str(from_status(status(message=""), 404)) == "HTTP status 404"


def test_how_long_to_wait_is_kept() -> None:
    assert from_status(status("TooManyRequests"), 429, 2.0).retry_after == 2.0


def test_an_error_event_of_a_watch_has_its_code_inside() -> None:
    assert isinstance(from_watch_error(status("Expired", "too old resource version", 410)), errors.Gone)
    assert isinstance(from_watch_error(status("InternalError", code=500)), errors.ServerError)


@pytest.mark.parametrize("body", [b"{}", b"nonsense", b'"\xff"'], ids=["without code", "no JSON", "broken text"])
def test_an_error_event_that_cannot_be_read_is_a_server_error(body: bytes) -> None:
    assert isinstance(from_watch_error(body), errors.ServerError)
