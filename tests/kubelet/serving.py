"""Server of the kubelet API on loopback, with fixed users and permissions instead of reviews."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from cryptography.hazmat.primitives.asymmetric import ec

from agent.kube import http_headers
from agent.kube.channel import Channel
from agent.kube.http_headers import Headers
from agent.kube.tokens import User
from agent.kubelet.certificate import context, self_signed
from agent.kubelet.identity import of_certificate
from agent.kubelet.requests import Request
from agent.kubelet.routes import Attributes, Route
from agent.kubelet.server import Page, Server
from tests.kube.channels import AUTHORITY, client_tls, dialled, everything

if TYPE_CHECKING:
    from agent.kubelet.access import Authorizer
    from agent.kubelet.identity import Authenticator


class Users:
    """Authenticator that accepts the token `good` and any certificate."""

    async def user(self, certificate: Mapping[str, Any], headers: Headers) -> User | None:
        named = of_certificate(certificate)
        return named or (User("somebody") if headers.get("Authorization") == "Bearer good" else None)


class Rights:
    """Authorizer that permits every user all verbs but POST."""

    async def allows(self, user: User, node: str, wanted: Attributes) -> bool:
        return wanted.verb == "get"


@dataclass
class Serving:
    """Running server, and the requests that it has received."""

    server: Server
    running: asyncio.Future[None]
    port: int
    asked: list[Route]

    async def connect(self, certificate: bool = False) -> Channel:
        tls = anybody()
        if certificate:
            tls = client_tls(AUTHORITY.client("kubelet-client", "system:masters"))
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        return await dialled(self.port, tls)

    async def get(self, path: str, *, certificate: bool = False, token: str = "") -> tuple[int, bytes]:
        channel = await self.connect(certificate)
        try:
            extra = [("Authorization", f"Bearer {token}")] if token else []
            return await say(channel, http_headers.render(f"GET {path} HTTP/1.1", [("Host", "node"), *extra]))
        finally:
            channel.close()


def anybody() -> ssl.SSLContext:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return tls


async def say(channel: Channel, data: bytes) -> tuple[int, bytes]:
    """Send a request. Return status and body of the answer, in chunks if it has no length."""
    await channel.write(data)
    start, headers = http_headers.split(await channel.read_until(http_headers.END, 100_000))
    if not headers.get("Content-Length"):
        return http_headers.status(start), await everything(channel)
    body = b""
    while len(body) < int(headers.get("Content-Length")):
        body += await channel.read(100_000)
    return http_headers.status(start), body


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Serving]:
    asked: list[Route] = []

    async def answer(node: str, channel: Channel, request: Request, wanted: Route) -> Page | None:
        asked.append(wanted)
        if wanted == "metrics":
            raise RuntimeError("this is on purpose")
        return "text/plain", f"{node} {'/'.join(request.path)}".encode()

    server = Server(cast("Authenticator", Users()), cast("Authorizer", Rights()), answer)
    server.tls = new_tls()
    running = asyncio.ensure_future(server.run())
    await asyncio.sleep(0)
    listener = await asyncio.get_running_loop().create_server(server.accept("node"), "127.0.0.1", 0, backlog=1024)
    try:
        yield Serving(server, running, listener.sockets[0].getsockname()[1], asked)
    finally:
        listener.close()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await asyncio.sleep(0.01)


def new_tls() -> ssl.SSLContext:
    pair = self_signed(ec.generate_private_key(ec.SECP256R1()), "127.0.0.1")
    return context(pair, AUTHORITY.pair.certificate.decode())
