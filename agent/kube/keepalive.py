"""TCP keepalive: a peer that is gone without a word is noticed soon, also where nothing is being sent."""

import asyncio
import socket
from typing import Any, NamedTuple


class Patience(NamedTuple):
    """Seconds of silence before the first probe, seconds between probes, and how many stay without an answer.

    `unacknowledged` seconds after something was sent that the peer has not taken the connection ends, too; 0: as the
    system has it (15 minutes). A peer that lives and reads nothing for so long is cut off by that.
    """

    idle: int
    interval: int
    probes: int
    unacknowledged: int = 0


REQUESTS = Patience(6, 3, 3, 15)
"""Of requests and watches: noticed within 15 s. API servers always read."""
STREAMS = Patience(30, 10, 3)
"""Of logs, exec and port-forward: noticed within a minute. Who pauses a stream may read nothing for hours."""

_IDLE = getattr(socket, "TCP_KEEPIDLE", None)
_UNACKNOWLEDGED = getattr(socket, "TCP_USER_TIMEOUT", None)
"""Neither is to be had on macOS, where the command line may run."""


def connected_socket(address: tuple[Any, ...]) -> socket.socket:
    """A socket for requests to an address, as `getaddrinfo` gives it."""
    family, kind, protocol, *_ = address
    made = socket.socket(family, kind, protocol)
    keep_alive(made, REQUESTS)
    return made


def keep_alive_stream(transport: asyncio.BaseTransport) -> None:
    """Switch it on for a connection that streams."""
    made = transport.get_extra_info("socket")
    if made is not None:
        keep_alive(made, STREAMS)


def keep_alive(made: socket.socket, patience: Patience) -> None:
    """Switch it on for a socket of TCP; others stay as they are."""
    if made.family not in (socket.AF_INET, socket.AF_INET6):
        return
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = [(_IDLE, patience.idle), (socket.TCP_KEEPINTVL, patience.interval), (socket.TCP_KEEPCNT, patience.probes)]
    if patience.unacknowledged:
        options.append((_UNACKNOWLEDGED, 1000 * patience.unacknowledged))
    for option, value in options:
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
