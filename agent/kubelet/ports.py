"""A port of its own for each virtual node, also with several agents on one host: what others have is passed over."""

import contextlib
import errno
import ipaddress
import socket
from collections.abc import Collection, Iterator

TRIES = 2_000
_BACKLOG = 512


def bind(address: str, first: int, preferred: int | None, avoid: Collection[int]) -> socket.socket | None:
    """A listening socket on all addresses of this host, of the family of `address`; None when no port is free.

    :param preferred: the port that the node has announced; where it cannot be had, the next free one from `first` up
    :param avoid: ports of other virtual nodes
    """
    version = ipaddress.ip_address(address).version
    for port in candidates(first, preferred, avoid):
        with contextlib.suppress(_Taken):
            return _listen(version, port)
    return None


class _Taken(Exception):
    pass


def candidates(first: int, preferred: int | None, avoid: Collection[int]) -> Iterator[int]:
    """Ports in the order in which they are tried."""
    end = min(first + TRIES, 65536)
    # A port below the first is one of another setting.
    if preferred is not None and first <= preferred < end and preferred not in avoid:
        yield preferred
    for port in range(first, end):
        if port != preferred and port not in avoid:
            yield port


def _listen(version: int, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if version == 6 else socket.AF_INET, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setblocking(False)
        made.bind(("::" if version == 6 else "0.0.0.0", port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            raise _Taken from error
        raise
    return made
