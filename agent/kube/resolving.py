"""Resolves host names in separate threads, so that a silent name server blocks only its own callers.

asyncio's own threads are few and shared by all; a lookup in them can be neither cancelled nor shortened.
"""

import asyncio
import ipaddress
import socket
from concurrent.futures import ThreadPoolExecutor

from aiohttp.abc import AbstractResolver, ResolveResult

_THREADS = 2
"""Maximum threads for one API server and its proxy."""


class Resolver(AbstractResolver):
    """Resolves host names for one session by the system's resolver."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return all addresses of a host. Raises OSError when it has none."""
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "lookup")
        found = await asyncio.get_running_loop().run_in_executor(self._threads, _look_up, host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=port,
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def addresses(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host as text; an IP address is returned unchanged."""
        try:
            return [str(ipaddress.ip_address(host))]
        except ValueError:
            return [found["host"] for found in await self.resolve(host, port)]

    async def close(self) -> None:
        """Start no more lookups; running ones are not awaited."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _look_up(host: str, port: int, family: socket.AddressFamily) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    return list(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG))
