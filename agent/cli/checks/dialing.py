"""Calls gateways like this cluster's gateways do, to see which side refuses. No data reaches any pod."""

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from datetime import datetime

from agent.base import certificates
from agent.base.certificates import Pair
from agent.cli.checks.view import Dialed, Verdict
from agent.model import hostport
from agent.model.envoy import HEALTH
from agent.model.gatewaypeer import identity

PATIENCE_SECONDS = 3.0
_AT_ONCE = 16


class Dialer:
    """Calls an address once for each server name; calls an unreachable address only once."""

    def __init__(self, own: Pair | None, now: datetime) -> None:
        """:param own: certificate and key of this cluster's gateways; None if the user may not read them."""
        self._own = own
        self._now = now
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._turns: dict[str, asyncio.Lock] = {}
        self._reached: dict[str, str] = {}

    async def call(self, address: str, name: str, uid: str, ca: str) -> Dialed:
        """Ask by the server name `name` whether the gateways of the cluster `uid`, which have this CA, admit us."""
        problem = await self._reach(address)
        if problem:
            return Dialed(Verdict.UNREACHABLE, problem)
        async with self._places:
            try:
                async with asyncio.timeout(3 * PATIENCE_SECONDS), _opened(address) as (reader, writer):
                    await writer.start_tls(
                        _context(self._own), server_hostname=name, ssl_handshake_timeout=PATIENCE_SECONDS
                    )
                    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
                    judged = _judge(ssl.DER_cert_to_PEM_cert(shown).encode(), uid, ca, self._now)
                    return judged or await self._admitted(reader)
            except ssl.SSLError as error:
                if isinstance(error, ssl.SSLEOFError):
                    return Dialed(Verdict.NOT_LINKED)
                return Dialed(Verdict.NO_TLS, _words(error))
            except (ConnectionError, EOFError):
                return Dialed(Verdict.NOT_LINKED)
            except (OSError, TimeoutError):
                return Dialed(Verdict.UNREACHABLE, "it takes connections, and does not answer them")

    async def _reach(self, address: str) -> str:
        """Return why an address accepts no connection, empty if it accepts one."""
        async with self._turns.setdefault(address, asyncio.Lock()):
            if address not in self._reached:
                self._reached[address] = await self._try(address)
            return self._reached[address]

    async def _try(self, address: str) -> str:
        async with self._places:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS), _opened(address):
                    return ""
            except TimeoutError:
                return "no answer"
            except OSError as error:
                known = error.errno is not None and error.errno > 0
                return os.strerror(error.errno or 0) if known else error.strerror or str(error)

    async def _admitted(self, reader: asyncio.StreamReader) -> Dialed:
        """Wait for an answer: with TLS 1.3 only data shows that the other side has accepted the client certificate."""
        try:
            heard = await asyncio.wait_for(reader.read(len(HEALTH)), PATIENCE_SECONDS)
        except ssl.SSLError as error:
            return Dialed(Verdict.NOT_ADMITTED if self._own is not None else Verdict.UNASKED, _words(error))
        except (OSError, TimeoutError):
            heard = b""
        if heard:
            return Dialed(Verdict.ADMITTED)
        return Dialed(Verdict.NOT_ADMITTED if self._own is not None else Verdict.UNASKED, "it closed the connection")


@contextlib.asynccontextmanager
async def _opened(address: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*hostport.split(address))
    try:
        yield reader, writer
    finally:
        writer.close()


def _context(own: Pair | None) -> ssl.SSLContext:
    """Return a TLS context without verification: `_judge` checks the certificate afterwards and gives the reason."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if own is not None:
        own.load(context)
    return context


def _judge(shown: bytes, uid: str, ca: str, now: datetime) -> Dialed | None:
    """Return why this side refuses a certificate, None if it accepts it."""
    ends = certificates.validity(shown)[1]
    if ends < now:
        return Dialed(Verdict.EXPIRED, f"it ended at {ends:%Y-%m-%d %H:%M} UTC")
    try:
        trusted = certificates.split(ca.encode())
    except ValueError:
        return Dialed(Verdict.OTHER_CA, "spec.ca holds what is no certificate")
    if not any(certificates.signed_by(shown, each) for each in trusted):
        return Dialed(Verdict.OTHER_CA)
    if identity(uid) not in (names := certificates.names_of(shown)):
        return Dialed(Verdict.OTHER_CLUSTER, f"it is for {', '.join(sorted(names)) or 'nobody'}")
    return None


def _words(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
