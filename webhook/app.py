"""The composition root: settings in, a process that serves until it is cancelled."""

import asyncio

from agent.base.clock import Clock, SystemClock
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.session import Session
from agent.model import hostport
from agent.runtime.guardedmetrics import GuardedMetrics
from agent.runtime.health import Health, heartbeat
from agent.runtime.rotation import Rotation
from agent.runtime.supervisor import Supervisor
from webhook.certificate_loop import CertificateLoop, Certificates
from webhook.external_certificate import ExternalCertificate
from webhook.handlers import application
from webhook.placements import SetGuard
from webhook.registration import Registration
from webhook.server import Server, Tls
from webhook.settings import Settings
from webhook.targets import Targets
from webhook.validator import Validator
from webhook.works import WorkGuard


class Webhook:
    """A replica with all its parts connected."""

    def __init__(self, settings: Settings, client: Client, clock: Clock) -> None:
        """Takes the address to listen on. Raises OSError."""
        self.settings = settings
        self._client = client
        self.targets = Targets(client)
        tls = Tls(settings.client_ca)
        agent = settings.agent_user or ""
        validator, guard, works = Validator(client, agent), SetGuard(client), WorkGuard(client)
        app = application(self.targets, validator, guard, works, settings.body_limit, agent)
        self.server = Server(app, tls, *hostport.split(settings.bind))
        registration = Registration(
            client,
            settings.configuration_name,
            settings.reach,
            create=settings.register,
            reinvocation=settings.reinvocation_policy,
            placements=settings.placements,
        )
        self.certificate_loop = CertificateLoop(
            _certificates(settings, client, clock), registration, tls, self.server, clock, settings.check_interval
        )
        self._wakers = self.certificate_loop.watch(
            client,
            namespace=settings.home,
            secret=settings.certificate_secret,
            configuration=settings.configuration_name,
        )
        self._stopping = False

    async def run(self) -> None:
        """Serve until cancelled; then go on for the drain time, not ready, and let requests under way end."""
        pulse, alive = heartbeat(3 * self.settings.check_interval + 120)
        health = self._health()
        health.live("keeper", alive)
        async with Supervisor("webhook") as supervisor:
            supervisor.spawn("health", health.serve)
            if self.settings.metrics_address:
                guarded = GuardedMetrics(self.settings.metrics_address, self._client)
                supervisor.spawn("metrics", guarded.serve)
            for informer in (*self.targets.informers, *self._wakers):
                supervisor.spawn(f"watch {informer.kind}", informer.run)
            try:
                await self.certificate_loop.run(pulse)
            finally:
                self._stopping = True
                if self.server.serving:
                    await asyncio.sleep(self.settings.drain_seconds)
                await self.server.stop()

    def _health(self) -> Health:
        health = Health(self.settings.health_address, metrics=self.settings.metrics_address is None)
        health.ready("certificate", self.certificate_loop.certificate_problem)
        health.ready("registration", self.certificate_loop.registration_problem)
        health.ready("targets", self.targets.problem)
        health.ready("process", lambda: "stopping" if self._stopping else None)
        return health


def _certificates(settings: Settings, client: Client, clock: Clock) -> Certificates:
    namespace, secret, name = settings.home, settings.certificate_secret, settings.certificate_name
    if settings.certificates == "given":
        return ExternalCertificate(client, namespace, secret, name)
    remedy = (
        "delete it and run helm upgrade, which creates an empty one; without the chart, create that yourself, or name"
        " another with --tuning=certificate-secret"
    )
    return Rotation(
        client, namespace, secret, (name,), settings.lifetimes, clock, keeper="flotilla-webhook", remedy=remedy
    )


async def run(settings: Settings) -> None:
    """Serve until cancelled. Raises InvalidConfig, or OSError when the address cannot be had."""
    connection = load(settings.kubeconfig, settings.context)
    async with Session(connection) as session:
        await Webhook(settings, Client(session), SystemClock()).run()
