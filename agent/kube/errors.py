"""Errors between the agent and an API server.

    KubeError
    + InvalidConfig            a kubeconfig that cannot be used
    + Deposed                  not sent, since the sender's leadership has ended
    + Outdated                 a watch cannot bring the cache up to date; a list can
    + Unreachable              no answer: refused, timed out, TLS, unknown host
      . Unsent                 no connection, so the server has seen nothing of the request
      . Unreadable             an invalid answer or object; the request may have succeeded
        - TooLarge             longer or nested deeper than the limit
    + StatusError              an answer with an error status
      . BadRequest 400
      . Unauthorized 401
      . Forbidden 403
      . NotFound 404
      . Conflict 409
        - AlreadyExists
      . Gone 410               a resource version too old to resume from
      . Invalid 422
      . TooManyRequests 429
      . ServerError 5xx

Messages come only from the server's Status object, since other bodies may hold anything. Each is one line of limited
length.
"""

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoders raise; RecursionError for input that is nested too deep."""
_MESSAGE_LIMIT = 2048


def one_line(text: str, limit: int = _MESSAGE_LIMIT) -> str:
    """Return an external text as one printable line of at most `limit` characters."""
    # Keep more than fits, so that the cut shows, but not a text of megabytes.
    words = " ".join(text[: 2 * limit].split())
    line = "".join(char if char.isprintable() else "\ufffd" for char in words)
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"


def without_frames(error: Exception) -> None:
    """Drop the tracebacks of an error and its causes: they keep the objects of their frames, mostly in cycles."""
    each: BaseException | None = error
    while each is not None:
        each.__traceback__ = None
        each = each.__cause__ or each.__context__


class KubeError(Exception):
    """Anything that went wrong between us and an API server."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InvalidConfig(KubeError):
    """A kubeconfig that cannot be used; the message names the entry and the remedy."""


class Deposed(KubeError):
    """A leader's request was not sent: its lease may be another's by now."""


class Outdated(KubeError):
    """The cached version of a collection is too old to watch from, or belongs to a lost history."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unreachable(KubeError):
    """The server gave no answer."""


class Unsent(Unreachable):
    """No connection for the request could be established: it has no effect."""


class Unreadable(Unreachable):
    """The answer is invalid or incomplete; the request may or may not have been executed."""


class TooLarge(Unreadable):
    """The answer is longer or nested deeper than the limit."""


class StatusError(KubeError):
    """The server answered with an error status, about the named object if there is a name."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, about: str = ""
    ) -> None:
        super().__init__(message or reason or str(status))
        self.status = status
        self.reason = one_line(reason)
        self.message = one_line(message)
        self.retry_after = retry_after
        self.about = about
        self.server = ""
        """Address of the server that answered, as in its `Connection`; empty without an answer."""


class BadRequest(StatusError):
    """Status 400: the request makes no sense to the API server."""


class Unauthorized(StatusError):
    """401: credentials missing, wrong or expired."""


class Forbidden(StatusError):
    """403: credentials fine, right missing."""


class NotFound(StatusError):
    """Status 404: the object or the kind does not exist."""


class Conflict(StatusError):
    """Status 409: another client wrote first, or a precondition failed."""


class AlreadyExists(Conflict):
    """Status 409 at creation: an object of that name exists."""


class Gone(StatusError):
    """Status 410: the resource version is too old, so list again."""


class Invalid(StatusError):
    """422: the object does not pass validation; trying again will not help."""


class TooManyRequests(StatusError):
    """Status 429: the API server has too much to do."""


class ServerError(StatusError):
    """Status 5xx: something failed in the API server, or behind it."""


_BY_STATUS: dict[int, type[StatusError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Details(msgspec.Struct):
    name: str = ""


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


def from_status(body: bytes, status: int, retry_after: float | None = None) -> StatusError:
    """Return the error for a response's HTTP status and body (or for the Status object of a watch's ERROR event)."""
    try:
        detail = msgspec.json.decode(body, type=_Status)
    except UNDECODABLE:
        detail = _Status()
    if detail.kind != "Status":
        detail = _Status()
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else StatusError)
    if kind is Conflict and detail.reason == "AlreadyExists":
        kind = AlreadyExists
    if detail.reason == "Expired":
        kind = Gone
    about = detail.details.name if detail.details is not None else ""
    return kind(status, detail.reason, detail.message or f"HTTP status {status}", retry_after, about)


def from_watch_error(body: bytes) -> StatusError:
    """Return the error for the object of a watch's ERROR event."""
    try:
        code = msgspec.json.decode(body, type=_Status).code
    except UNDECODABLE:
        code = 0
    return from_status(body, code or 500)
