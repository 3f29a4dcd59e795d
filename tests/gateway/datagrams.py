"""UDP through gateways on loopback: pods, clients, and hand-written HTTP/2 requests of a peer."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from agent.base.certificates import Pair
from agent.model.gatewaypeer import UDP, Called, Offered, Peer, Service
from hack.lab.sandbox.gateways import PORT, GatewayPod
from tests.gateway.lab import SPACE, stranger

DNS = "dns"
NUMBER = 53
LOCAL = 20053
"""Port at which `a` listens for the UDP port of the Service `dns` of `b`."""
QUICK_SECONDS = 0.5

Address = tuple[str, int]


def peer(of: GatewayPod, *, calls: bool = False, offered: bool = False, ca: str = "") -> Peer:
    """Return a gateway as its peers observe it."""
    called = (Called(DNS, NUMBER, (LOCAL,), protocol=UDP),) if calls else ()
    return Peer(
        of.uid, SPACE, of.uid, ca or of.ca, (of.at,), called, (Offered(DNS, NUMBER, protocol=UDP),) if offered else ()
    )


def dns(*endpoints: str) -> Service:
    """Return the UDP port of the Service `dns` with ready endpoints."""
    return Service(SPACE, DNS, NUMBER, endpoints, protocol=UDP)


@dataclass
class Pod(asyncio.DatagramProtocol):
    """Pod that answers with its name and records the datagrams it receives."""

    name: bytes = b""
    heard: list[tuple[bytes, Address]] = field(default_factory=list)
    at: str = ""

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport
        host, port = transport.get_extra_info("sockname")
        self.at = f"{host}:{port}"

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.heard.append((data, addr))
        self._transport.sendto(self.name + data, addr)


@contextlib.asynccontextmanager
async def pod(host: str, name: bytes = b"") -> AsyncIterator[Pod]:
    """Run a pod of a Service."""
    loop = asyncio.get_running_loop()
    transport, found = await loop.create_datagram_endpoint(lambda: Pod(name), local_addr=(host, 0))
    try:
        yield found
    finally:
        transport.close()


class Caller(asyncio.DatagramProtocol):
    """UDP client with one port."""

    def __init__(self) -> None:
        self._heard = asyncio.Queue[bytes]()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self._heard.put_nowait(data)

    async def ask(self, data: bytes, seconds: float = QUICK_SECONDS) -> bytes:
        """Send a datagram and return the answer; empty on timeout."""
        self._transport.sendto(data)
        try:
            async with asyncio.timeout(seconds):
                return await self._heard.get()
        except TimeoutError:
            return b""


@contextlib.asynccontextmanager
async def caller(host: str, port: int = LOCAL) -> AsyncIterator[Caller]:
    """Open a client of a local port of a gateway."""
    loop = asyncio.get_running_loop()
    transport, found = await loop.create_datagram_endpoint(Caller, remote_addr=(host, port))
    try:
        yield found
    finally:
        transport.close()


_CONNECT_UDP = {
    ":method": "CONNECT",
    ":protocol": "connect-udp",
    ":scheme": "https",
    ":authority": "gateway",
    ":path": "/.well-known/masque/udp/127.0.0.1/53/",
    "capsule-protocol": "?1",
}
REQUESTS = {
    "CONNECT-UDP": _CONNECT_UDP,
    "CONNECT": {":method": "CONNECT", ":authority": "127.0.0.1:53"},
    "websocket": {**_CONNECT_UDP, ":protocol": "websocket"},
    "GET": {":method": "GET", ":scheme": "https", ":authority": "gateway", ":path": "/"},
}
"""HTTP/2 requests, of which gateways send only the first."""
BY_HAND = b"by hand"
"""Datagram that is sent with each request."""
_DATA, _SETTINGS, _HEADERS, _RESET, _GO_AWAY, _END_HEADERS = 0, 4, 1, 3, 7, 4
_OK = 0x88
"""Status 200 in HPACK encoding."""


async def is_taken(gateway: GatewayPod, name: str, pair: Pair | None, headers: dict[str, str]) -> bool:
    """Return whether a gateway accepts a request from a client that dials it by a server name."""
    tls = stranger(pair)
    tls.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(gateway.address, PORT, ssl=tls, server_hostname=name)
            try:
                block = b"".join(_literal(key) + _literal(value, b"") for key, value in headers.items())
                writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0, b""))
                capsule = bytes([0, len(BY_HAND) + 1, 0]) + BY_HAND
                writer.write(_frame(_HEADERS, _END_HEADERS, 1, block) + _frame(_DATA, 0, 1, capsule))
                return await _answer(reader)
            finally:
                writer.close()
    except (OSError, asyncio.IncompleteReadError):
        return False


def _literal(text: str, before: bytes = b"\0") -> bytes:
    """Encode a name or a value without Huffman coding, up to 126 bytes. `before` marks an unindexed field."""
    return before + bytes([len(text)]) + text.encode()


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + body


async def _answer(reader: asyncio.StreamReader) -> bool:
    while True:
        head = await reader.readexactly(9)
        body = await reader.readexactly(int.from_bytes(head[:3]))
        if head[3] in (_RESET, _GO_AWAY):
            return False
        if head[3] == _HEADERS:
            return _OK in body[:4]
