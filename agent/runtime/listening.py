"""Listening sockets."""

import errno
import socket

from agent.model import hostport

BACKLOG = 512
"""Connections that the kernel completes before they are accepted."""

WILDCARDS = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))
"""Every address of a machine, by IP family."""

_TRIES = 10
"""Ports that the kernel may choose for one family before one of them is free in the other."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on all addresses of a host; an empty host means all addresses of both IP families. Raises OSError."""
    made = bind(host, port)
    for each in made:
        each.listen(BACKLOG)
    return made


def bind(host: str, port: int) -> list[socket.socket]:
    """Take a port at all addresses of a host, the same port at each. Raises OSError.

    :param host: empty for all addresses of the IP families that the machine has
    :param port: 0 for one that the kernel chooses
    """
    try:
        for tries in reversed(range(_TRIES)):
            try:
                return _bind_all(_addresses(host), port)
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE or not tries:
                    raise
        raise AssertionError
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"cannot listen on {hostport.join(host, port)}: {reason}") from error


def has_family(family: socket.AddressFamily) -> bool:
    """Return whether this machine, or this pod, can listen on addresses of an IP family."""
    wildcards = dict(WILDCARDS)
    try:
        _bind_one(family, wildcards[family], 0, alone=False).close()
    except OSError:
        return False
    return True


def _addresses(host: str) -> list[tuple[socket.AddressFamily, str]]:
    if host:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return [(family, str(address[0])) for family, _, _, _, address in found]
    return [each for each in WILDCARDS if has_family(each[0])] or [WILDCARDS[0]]


def _bind_all(addresses: list[tuple[socket.AddressFamily, str]], port: int) -> list[socket.socket]:
    made: list[socket.socket] = []
    try:
        for family, address in addresses:
            made.append(_bind_one(family, address, port, alone=len(addresses) == 1))
            port = made[0].getsockname()[1]
    except OSError:
        for each in made:
            each.close()
        raise
    return made


def _bind_one(family: socket.AddressFamily, address: str, port: int, *, alone: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6 and not alone:
            # The other socket takes connections of IPv4. Alone, `::` takes them, too.
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made
