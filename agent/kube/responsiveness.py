"""Response times and time limits of an API server."""

import itertools
import time
from typing import NamedTuple

import aiohttp

from agent.base.cancelling import Interrupted

CONNECT_SECONDS = 3.0
"""Seconds that a new connection may take; then the request counts as never sent."""
LONGEST_SECONDS = 600.0
"""Seconds for an answer that keeps arriving: a page of a list over half a megabit per second."""
OPENING_SECONDS = 30.0
"""Seconds that an API server may take to begin a watch."""
CLOSED = "the connection to this cluster has been given up"
_SHARE = 0.3
"""Weight of the latest answer in the average."""


class Pace:
    """Seconds that requests take: those answered, as a moving average, and those still waiting.

    A moment is one of the monotonic clock.
    """

    def __init__(self) -> None:
        self.average = 0.0
        self.latest = 0.0
        """Of the answer that came last."""
        self._tickets = itertools.count()
        self._waiting: dict[int, float] = {}

    def begin(self) -> int:
        """Record the start of a request; returns the ticket for `end`."""
        ticket = next(self._tickets)
        self._waiting[ticket] = time.monotonic()
        return ticket

    def end(self, ticket: int) -> None:
        """Record that a request was answered or aborted."""
        self.latest = time.monotonic() - self._waiting.pop(ticket)
        self.average += _SHARE * (self.latest - self.average)

    @property
    def quiet(self) -> bool:
        """Return whether no request is in progress."""
        return not self._waiting

    @property
    def seconds(self) -> float:
        """The average, or for how long the oldest request has been waiting, if that is more."""
        if not self._waiting:
            return self.average
        # Dicts keep insertion order: the first request is the oldest.
        return max(self.average, time.monotonic() - next(iter(self._waiting.values())))


class Hearing:
    """Times of a watch that begins now: of the last data from the API server, and of the first failure.

    In seconds of the monotonic clock.
    """

    def __init__(self) -> None:
        self.heard = time.monotonic()
        """When an event or a bookmark came, part of a list, or leave to begin or to go on."""
        self.stirred = self.heard
        """When anything happened, failures too."""
        self.failing_since: float | None = None
        """The first failure after which it has not worked again."""

    def word(self) -> None:
        """Record data from the API server."""
        self.heard = self.stirred = time.monotonic()

    def well(self) -> None:
        """Record that the watch works."""
        self.word()
        self.failing_since = None

    def failed(self) -> None:
        """Record a failure."""
        self.stirred = time.monotonic()
        if self.failing_since is None:
            self.failing_since = self.stirred

    def turned(self) -> None:
        """Record that another try begins, or that the watch continues."""
        self.stirred = time.monotonic()


class Limits(NamedTuple):
    """Limits of an exchange in seconds: in total, or for each silence."""

    timeout: float
    piecemeal: bool
    connecting: float = CONNECT_SECONDS

    @property
    def total(self) -> float:
        """Seconds for the whole exchange."""
        return max(LONGEST_SECONDS, self.timeout) if self.piecemeal else self.timeout

    @property
    def of_aiohttp(self) -> aiohttp.ClientTimeout:
        """Limits for aiohttp, without the total."""
        quiet = self.timeout if self.piecemeal else None
        return aiohttp.ClientTimeout(total=None, sock_connect=self.connecting, sock_read=quiet)

    def explain(self, error: BaseException) -> str:
        """Return the reason for a missing answer."""
        if self.piecemeal and isinstance(error, TimeoutError) and not isinstance(error, aiohttp.SocketTimeoutError):
            return f"the answer has not ended within {self.total:g} s"
        return explain(error, self.timeout)


def explain(error: BaseException, seconds: float) -> str:
    """Return the error of an exchange as text."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, Interrupted):
        return CLOSED
    return str(error) or type(error).__name__


def waited(error: BaseException, connecting: float, idle: float) -> float:
    """Return the seconds that had passed when a watch timed out."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return connecting
    return idle if isinstance(error, aiohttp.SocketTimeoutError) else OPENING_SECONDS
