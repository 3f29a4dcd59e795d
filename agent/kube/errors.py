"""What can go wrong between us and an API server.

    KubeError
    + InvalidConfig            a kubeconfig that cannot be used
    + Deposed                  not sent, since whoever wanted it leads no more
    + Outdated                 what is known cannot be brought up to date by a watch, but by a list
    + Unreachable              no answer: refused, timed out, TLS, unknown host
      . Unsent                 no connection, so the server has seen nothing of the request
      . Unreadable             an answer, or an object, that makes no sense; what was asked for may have been done
        - TooLarge             or is longer or nested deeper than is read
    + StatusError              an answer that says no
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

Messages come from the server's Status object only, never from other bodies: who knows what those hold. Each is one
line of limited length.
"""

import msgspec

UNDECODABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoders raise; RecursionError for what is nested too deep."""
_MESSAGE_LIMIT = 2048


def one_line(text: str, limit: int = _MESSAGE_LIMIT) -> str:
    """A text of others as one printable line of at most `limit` characters."""
    # More than fits, so that what is cut off shows; but not all of a text of megabytes.
    words = " ".join(text[: 2 * limit].split())
    line = "".join(char if char.isprintable() else "\ufffd" for char in words)
    return line if len(line) <= limit and len(text) <= 2 * limit else line[: limit - 1] + "…"


class KubeError(Exception):
    """Anything that went wrong between us and an API server."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InvalidConfig(KubeError):
    """A kubeconfig that cannot be used; the message names the entry and the remedy."""


class Deposed(KubeError):
    """A leader's request was not sent: its lease may be another's by now."""


class Outdated(KubeError):
    """What is known of a collection is too old to follow its changes from there, or of a history that was lost."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Unreachable(KubeError):
    """The server gave no answer."""


class Unsent(Unreachable):
    """There was no connection to send the request on: it has had no effect and will have none."""


class Unreadable(Unreachable):
    """What came makes no sense, or not all of it; whether the server did what was asked of it is not known."""


class TooLarge(Unreadable):
    """What came is longer, or nested deeper, than is read."""


class StatusError(KubeError):
    """The server's answer was an error, about the object of this name where it is about one."""

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
        """Address of the server that answered, as its `Connection` has it; empty where none did."""


class BadRequest(StatusError):
    """Status 400: the request makes no sense to the API server."""


class Unauthorized(StatusError):
    """401: credentials missing, wrong or expired."""


class Forbidden(StatusError):
    """403: credentials fine, right missing."""


class NotFound(StatusError):
    """Status 404: there is no such object, or no such kind."""


class Conflict(StatusError):
    """409: somebody else wrote first, or a precondition failed."""


class AlreadyExists(Conflict):
    """Status 409 at creation: an object of that name is there."""


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
    """The error for a response's HTTP status and body (or for the Status object of a watch's ERROR event)."""
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
    """The error for the object of a watch's ERROR event."""
    try:
        code = msgspec.json.decode(body, type=_Status).code
    except UNDECODABLE:
        code = 0
    return from_status(body, code or 500)
