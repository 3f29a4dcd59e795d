"""Finding of a check: its level, subject, message and remedy. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding."""

    OK = "OK"
    WARN = "WARN"
    """Something is missing, or will fail soon."""
    FAIL = "FAIL"
    """Pods do not reach the targets that they should run in."""


@dataclass(frozen=True)
class Finding:
    """Result of a check about one subject, with the remedy."""

    level: Level
    about: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.level.value:<4}  {self.about}: {self.what}"
        return f"{line}. Remedy: {self.remedy}" if self.remedy else line


def ok(about: str, what: str) -> Finding:
    """Return a finding about a healthy subject."""
    return Finding(Level.OK, about, what)


def warn(about: str, what: str, remedy: str) -> Finding:
    """Return a finding about a degraded subject."""
    return Finding(Level.WARN, about, what, remedy)


def fail(about: str, what: str, remedy: str) -> Finding:
    """Return a finding about a subject that does not work."""
    return Finding(Level.FAIL, about, what, remedy)
