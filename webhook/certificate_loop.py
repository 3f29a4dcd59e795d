"""The loop that maintains trust: keeps the certificate in the Secret, serves it, and makes API servers trust it."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from prometheus_client import Gauge

from agent.api.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Kind
from agent.base import certificates
from agent.base.backoff import Backoff
from agent.base.certificates import Pair
from agent.base.clock import Clock
from agent.base.events import set_within
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import KubeError
from agent.kube.informer import Informer
from agent.runtime.rotation import UnusableSecret
from webhook.external_certificate import NoCertificate
from webhook.registration import NotRegistered, Registration
from webhook.server import Server, Tls

_EXPIRY = Gauge(
    "flotilla_webhook_certificate_expiry_timestamp_seconds",
    "When the certificate being served expires, in seconds since the epoch.",
    registry=REGISTRY,
)

_log = logging.getLogger(__name__)


class Material(Protocol):
    """The certificate to serve, and the CAs to register with API servers (PEM; empty: another program does)."""

    @property
    def serving(self) -> Pair: ...

    @property
    def trusted(self) -> bytes: ...


class Certificates(Protocol):
    """Source of the certificate."""

    async def refresh(self) -> Material:
        """Return the certificate to serve now."""
        ...


class CertificateLoop:
    """Checks everything every `interval` seconds, and at once after a change of the Secret or the registration."""

    def __init__(
        self,
        rotation: Certificates,
        registration: Registration,
        tls: Tls,
        server: Server,
        clock: Clock,
        interval: float,
    ) -> None:
        self._rotation = rotation
        self._registration = registration
        self._tls = tls
        self._server = server
        self._clock = clock
        self._interval = interval
        self._changed = asyncio.Event()
        self._backoff = Backoff(0.2, 30.0)
        self._problem: str | None = None

    def watch(self, client: Client, *, namespace: str, secret: str, configuration: str) -> tuple[Informer, ...]:
        """Return informers whose changes wake the loop. The caller runs them."""
        return (
            self._waker(client, SECRETS, secret, namespace),
            self._waker(client, MUTATING_WEBHOOKS, configuration, None),
            self._waker(client, VALIDATING_WEBHOOKS, configuration, None),
        )

    async def run(self, pulse: Callable[[], None]) -> None:
        """Check until cancelled; calls `pulse` each time."""
        while True:
            pulse()
            self._changed.clear()
            try:
                await self.check()
            except (KubeError, UnusableSecret, NoCertificate, NotRegistered) as error:
                self._failed(error)
                await asyncio.sleep(self._backoff.next())
            else:
                self._problem = None
                self._backoff.reset()
                await set_within(self._changed, self._interval)

    async def check(self) -> None:
        """Bring Secret, served certificate and registration up to date. Raises the errors after which `run` retries."""
        bundle = await self._rotation.refresh()
        if self._tls.load(bundle.serving):
            until = certificates.expiry(bundle.serving.certificate)
            _EXPIRY.set(until.timestamp())
            _log.info("serving a certificate that is valid until %s", until.isoformat())
        await self._server.start()
        await self._registration.ensure(bundle.trusted)

    def certificate_problem(self) -> str | None:
        """Return why no valid certificate is served; None if one is."""
        if not self._server.serving or self._tls.loaded is None:
            return self._problem or "no certificate yet"
        until = certificates.expiry(self._tls.loaded.certificate)
        if self._clock.now() > until:
            return f"the certificate expired at {until.isoformat()}: {self._problem}"
        return None

    def registration_problem(self) -> str | None:
        """Return why API servers do not call the webhook; None if they do."""
        return None if self._registration.done else self._problem or "not registered yet"

    def _waker(self, client: Client, kind: Kind, name: str, namespace: str | None) -> Informer:
        informer = Informer(client, kind, namespace, fields=f"metadata.name={name}")
        informer.subscribe(lambda old, new: self._changed.set())
        return informer

    def _failed(self, error: Exception) -> None:
        if self._problem != str(error):
            _log.warning("certificate and registration: %s", error)
        self._problem = str(error)
