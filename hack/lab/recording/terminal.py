"""Pseudo terminal: run a command on one, and work out which lines a user would see afterwards."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROWS = 50
_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()=>][0-9A-Za-z]?|([\r\n\b])|([^\x1b\r\n\b]+)")
_READ = 65536


class Recorded(NamedTuple):
    """Output of a command, as bytes for a terminal, and its exit status."""

    output: str
    status: int


def run(command: Sequence[str], columns: int, environment: Mapping[str, str], folder: Path) -> Recorded:
    """Run a command with a pseudo terminal as its standard input, output and error, and return its output."""
    own, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    variables = {**environment, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(ROWS)}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=variables, cwd=folder)
    os.close(its)
    with os.fdopen(own, "rb", buffering=0) as terminal:
        output = b"".join(_chunks(terminal.fileno()))
    return Recorded(output.decode(errors="replace"), process.wait())


def _chunks(terminal: int) -> Iterator[bytes]:
    """Read until no process has the terminal open, which Linux reports as EIO."""
    while True:
        try:
            chunk = os.read(terminal, _READ)
        except OSError:
            return
        if not chunk:
            return
        yield chunk


def lines(output: str, columns: int) -> list[str]:
    """Return the lines on the screen once all output has been written, each with its colours as SGR sequences.

    Understands what rich writes: cursor up, erase line, erase below, carriage return. Raises ValueError for a cursor
    movement that it does not know, rather than return a wrong picture.
    """
    screen = _Screen()
    for parameters, command, control, text in _TOKEN.findall(output):
        if text:
            screen.write(text)
        elif control:
            screen.control(control)
        elif command:
            screen.command(parameters, command)
    return list(screen.lines(columns))


class _Screen:
    """Rows of cells, each a character with its SGR parameters; a row ends with its last written character."""

    def __init__(self) -> None:
        self._rows: list[list[tuple[str, str]]] = [[]]
        self._row = self._column = 0
        self._style = ""

    def write(self, text: str) -> None:
        row = self._rows[self._row]
        row += [(" ", "")] * (self._column - len(row))
        row[self._column : self._column + len(text)] = [(character, self._style) for character in text]
        self._column += len(text)

    def control(self, character: str) -> None:
        match character:
            case "\r":
                self._column = 0
            case "\b":
                self._column = max(self._column - 1, 0)
            case _:
                self._row += 1
                self._column = 0
                if self._row == len(self._rows):
                    self._rows.append([])

    def command(self, parameters: str, command: str) -> None:
        match command:
            case "m":
                self._style = "" if parameters in ("", "0") else f"{self._style};{parameters}".strip(";")
            case "A":
                self._row = max(self._row - int(parameters or 1), 0)
            case "K" if parameters == "2":
                self._rows[self._row] = []
            case "K" if parameters in ("", "0"):
                del self._rows[self._row][self._column :]
            case "J" if parameters in ("", "0"):
                del self._rows[self._row][self._column :]
                del self._rows[self._row + 1 :]
            case "h" | "l":
                pass  # Modes of the terminal, such as a hidden cursor.
            case _:
                raise ValueError(f"unknown control sequence CSI {parameters}{command}")

    def lines(self, columns: int) -> Iterator[str]:
        """Yield the rows, wrapped like on a terminal, without trailing blanks and without blank rows at the end."""
        last = max((number for number, row in enumerate(self._rows) if _trimmed(row)), default=-1)
        for row in self._rows[: last + 1]:
            cells = _trimmed(row)
            for start in range(0, max(len(cells), 1), columns):
                yield _with_colours(cells[start : start + columns])


def _trimmed(row: list[tuple[str, str]]) -> list[tuple[str, str]]:
    length = len(row)
    while length and row[length - 1][0] == " ":
        length -= 1
    return row[:length]


def _with_colours(cells: Sequence[tuple[str, str]]) -> str:
    text, before = [], ""
    for character, style in cells:
        if style != before:
            text.append(f"\x1b[0;{style}m" if style else "\x1b[0m")
            before = style
        text.append(character)
    return "".join(text) + ("\x1b[0m" if before else "")
