"""Listening sockets."""

import socket

from agent.model import hostport

BACKLOG = 512
"""Connections that the kernel completes before they are accepted."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Listen on all addresses of a host; an empty host means all IPv4 addresses. Raises OSError."""
    found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    made: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in found:
            listening = socket.socket(family, kind, protocol)
            made.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6 and len(found) > 1:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
    except OSError as error:
        for each in made:
            each.close()
        reason = (error.strerror or str(error)).lower()
        raise OSError(error.errno, f"cannot listen on {hostport.join(host, port)}: {reason}") from error
    return made
