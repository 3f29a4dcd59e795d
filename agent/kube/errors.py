"""What can go wrong between us and an API server.

    KubeError
    + InvalidConfig            a kubeconfig that cannot be used
    + Unreachable              no answer: refused, timed out, TLS, unknown host
      . Unsent                 no connection, so the server has seen nothing of the request
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

Messages come from the server's Status object only, never from other bodies: who knows what those hold.
"""

import msgspec


class KubeError(Exception):
    """Anything that went wrong between us and an API server."""


class InvalidConfig(KubeError):
    """A kubeconfig that cannot be used; the message names the entry and the remedy."""


class Unreachable(KubeError):
    """The server gave no answer."""


class Unsent(Unreachable):
    """There was no connection to send the request on: it has had no effect and will have none."""


class StatusError(KubeError):
    """The server's answer was an error."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message or reason or str(status))
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class BadRequest(StatusError):
    """400."""


class Unauthorized(StatusError):
    """401: credentials missing, wrong or expired."""


class Forbidden(StatusError):
    """403: credentials fine, right missing."""


class NotFound(StatusError):
    """404."""


class Conflict(StatusError):
    """409: somebody else wrote first, or a precondition failed."""


class AlreadyExists(Conflict):
    """409 at creation."""


class Gone(StatusError):
    """410: list again."""


class Invalid(StatusError):
    """422: the object does not pass validation; trying again will not help."""


class TooManyRequests(StatusError):
    """429."""


class ServerError(StatusError):
    """5xx."""


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


class _Status(msgspec.Struct):
    kind: str = ""
    reason: str = ""
    message: str = ""
    code: int = 0


def from_status(body: bytes, status: int, retry_after: float | None = None) -> StatusError:
    """The error for a response's HTTP status and body (or for the Status object of a watch's ERROR event)."""
    try:
        detail = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        detail = _Status()
    if detail.kind != "Status":
        detail = _Status()
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else StatusError)
    if kind is Conflict and detail.reason == "AlreadyExists":
        kind = AlreadyExists
    if detail.reason == "Expired":
        kind = Gone
    return kind(status, detail.reason, detail.message or f"HTTP status {status}", retry_after)


def from_watch_error(body: bytes) -> StatusError:
    """The error for the object of a watch's ERROR event."""
    try:
        code = msgspec.json.decode(body, type=_Status).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = 0
    return from_status(body, code or 500)
