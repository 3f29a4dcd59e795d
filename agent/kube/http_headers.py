"""Heads of HTTP/1.1 messages: the start line and the headers, read strictly. Pure."""

import re
from collections.abc import Iterable, Iterator

END = b"\r\n\r\n"
"""Of a head."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?\r\n")
_STATUS = re.compile(r"HTTP/1\.[01] ([1-5][0-9]{2})(?: .*)?")


class BadHead(ValueError):
    """Not the head of an HTTP message; the message says why."""


class Headers:
    """Headers in their order; names are found in any case."""

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = list(pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, name: str, default: str = "") -> str:
        """Return the value of the first header of this name."""
        return next(iter(self.all(name)), default)

    def all(self, name: str) -> list[str]:
        """Return the values of all headers of this name."""
        return [value for key, value in self._pairs if key.lower() == name.lower()]

    def tokens(self, name: str) -> list[str]:
        """Return the comma-separated parts of all headers of this name, in lower case."""
        return [part.strip().lower() for value in self.all(name) for part in value.split(",") if part.strip()]

    def only(self, names: Iterable[str]) -> "Headers":
        """Return the headers with these names."""
        wanted = {name.lower() for name in names}
        return Headers((key, value) for key, value in self._pairs if key.lower() in wanted)


def split(head: bytes) -> tuple[str, Headers]:
    """Start line and headers. Raises BadHead."""
    try:
        text = head.removesuffix(END).decode("latin-1")
    except UnicodeDecodeError as error:  # pragma: no cover - latin-1 has every byte
        raise BadHead("not text") from error
    start, *lines = text.split("\r\n")
    return start, Headers(_header(line) for line in lines)


def status(start: str) -> int:
    """Return the status of a response's first line. Raises BadHead."""
    found = _STATUS.fullmatch(start)
    if found is None:
        raise BadHead("the first line is not that of an HTTP/1.1 response")
    return int(found[1])


def number(text: str) -> int:
    """Return the value of a header that is a number, as Content-Length. Raises BadHead."""
    if not _NUMBER.fullmatch(text):
        raise BadHead("no number where one belongs")
    return int(text)


def chunk_size(line: bytes) -> int:
    """Return the size that the line before a chunk gives. Raises BadHead."""
    found = _CHUNK_SIZE.fullmatch(line)
    if found is None:
        raise BadHead("no size before a chunk")
    return int(found[1], 16)


def render(start: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """Return a head as bytes. Raises BadHead for what would break a line."""
    lines = [start, *(f"{name}: {value}" for name, value in headers)]
    if any("\r" in line or "\n" in line or "\0" in line for line in lines):
        raise BadHead("a line break in a header")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not _NAME.fullmatch(name):
        raise BadHead("a header without a name")
    value = value.strip(" \t")
    if any((ord(char) < 0x20 and char != "\t") or char == "\x7f" for char in value):
        raise BadHead(f"control characters in the header {name}")
    return name, value
