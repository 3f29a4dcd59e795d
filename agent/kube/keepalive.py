"""TCP keepalive: a peer that is gone without a word is noticed within a minute, also where nothing is being sent."""

import asyncio
import socket

_OPTIONS = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Switch it on for a connection."""
    made = transport.get_extra_info("socket")
    if made is not None and made.family in (socket.AF_INET, socket.AF_INET6):
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _OPTIONS:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
