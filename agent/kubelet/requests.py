"""Requests to the kubelet API, as read from a connection. Pure."""

import re
from urllib.parse import parse_qsl, unquote

import msgspec

from agent.kube import http_headers
from agent.kube.http_headers import BadHead, Headers

_START = re.compile(r"([A-Z]{1,16}) (/[!-~]*) HTTP/1\.([01])")
_MOST_FIELDS = 20_000

Pairs = tuple[tuple[str, str], ...]


class Unacceptable(Exception):
    """A request that is rejected before it is routed, with status and reason."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Request(msgspec.Struct, frozen=True):
    """A request without body."""

    method: str
    path: tuple[str, ...]
    """Its parts, decoded: `/pods` is `("pods",)`; a slash at the end counts for nothing."""
    query: Pairs
    headers: Headers
    keep_alive: bool

    def first(self, name: str) -> str:
        """Return the first value of a query parameter, empty when it is absent."""
        return next((value for key, value in self.query if key == name), "")

    def all(self, name: str) -> list[str]:
        """Return every value of a query parameter."""
        return [value for key, value in self.query if key == name]

    @property
    def upgrade(self) -> str:
        """The protocol to go on with, empty for none."""
        return self.headers.get("Upgrade") if "upgrade" in self.headers.tokens("Connection") else ""


def parse(head: bytes) -> Request:
    """Return the request of a head. Raises Unacceptable."""
    try:
        start, headers = http_headers.split(head)
    except BadHead as error:
        raise Unacceptable(400, str(error)) from error
    found = _START.fullmatch(start)
    if found is None:
        raise Unacceptable(400, "the first line is not that of an HTTP/1.1 request")
    method, target, minor = found.groups()
    _check_body(headers)
    path, _, query = target.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError as error:
        raise Unacceptable(400, "the query cannot be read") from error
    keep = minor == "1" and "close" not in headers.tokens("Connection")
    return Request(method, _parts(path), tuple(pairs), headers, keep)


def _check_body(headers: Headers) -> None:
    """Refuse a request with a body: no request of the kubelet API needs one. Raises Unacceptable."""
    if headers.all("Transfer-Encoding"):
        raise Unacceptable(400, "requests with a body are not served")
    try:
        lengths = {http_headers.number(length) for length in headers.all("Content-Length")}
    except BadHead as error:
        raise Unacceptable(400, "Content-Length is no number") from error
    if len(lengths) > 1:
        raise Unacceptable(400, "Content-Length is no number")
    if any(lengths):
        raise Unacceptable(413, "requests with a body are not served")


def _parts(path: str) -> tuple[str, ...]:
    try:
        parts = [unquote(part, errors="strict") for part in path.removesuffix("/").split("/")[1:]]
    except UnicodeDecodeError as error:
        raise Unacceptable(400, "the path is not UTF-8") from error
    if any(part in ("", ".", "..") or "/" in part or not part.isprintable() for part in parts):
        raise Unacceptable(400, "the path has parts that nothing is called by")
    return tuple(parts)
