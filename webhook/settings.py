"""Every setting of the webhook: a flag, an environment variable, a default."""

import os
import ssl
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from agent.api.names import SERVICE_ACCOUNT_MOUNT
from agent.base import flags
from agent.base.certificate_bundle import Lifetimes
from agent.base.eventloop import EVENT_LOOPS, EventLoop
from agent.base.flag_values import (
    ADDRESS,
    DURATION,
    DURATION_OR_NONE,
    FILE,
    LOG_LEVEL,
    NAME,
    SWITCH,
    Form,
    duration,
    one_of,
    whole,
)
from agent.base.flags import InvalidSetting, flag, optional, tuned
from webhook.configurations import Reach, Service, by_service, by_url

__all__ = ["PREFIXES", "InvalidSetting", "Settings", "own_namespace", "parse"]

PREFIXES = ("FLOTILLA_WEBHOOK_", "FLOTILLA_")
"""Prefixes of environment variables; the first has precedence."""
_LONGEST_DRAIN = "5s"
_NAMESPACE_FILE = Path(SERVICE_ACCOUNT_MOUNT, "namespace")


def _url(text: str) -> str:
    parts = urllib.parse.urlsplit(text)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query or parts.username:
        raise ValueError("must be https://HOST:PORT without a path")
    return text.rstrip("/")


def _service(text: str) -> Service:
    namespace, slash, rest = text.partition("/")
    name, colon, port = rest.partition(":")
    if not (namespace and slash and name) or (colon and not port.isdecimal()):
        raise ValueError("must be NAMESPACE/NAME or NAMESPACE/NAME:PORT")
    return Service(namespace, name, int(port) if port else 443)


def _authorities(text: str) -> str:
    try:
        ssl.create_default_context(cafile=text)
    except OSError as error:
        raise ValueError(f"cannot be read as a file of PEM certificates: {error}") from error
    return text


@dataclass(frozen=True, kw_only=True)
class Process:
    """This process."""

    kubeconfig: str | None = optional(FILE, "kubeconfig; default: the pod's service account, else ~/.kube/config")
    context: str | None = optional(NAME, "context of the kubeconfig; default: its current one")
    health_address: str = flag(ADDRESS, ":8080", "/healthz, /readyz and /metrics (HTTP)")
    metrics_address: str | None = optional(
        ADDRESS,
        "HOST:PORT of /metrics over HTTPS, for clients with a token that may get that path; default: /metrics"
        " is served next to /healthz, to all clients",
    )
    log_level: str = flag(LOG_LEVEL, "INFO", "DEBUG, INFO, WARNING or ERROR")
    log_json: bool = flag(SWITCH, "false", "write logs as JSON lines")
    event_loop: EventLoop = tuned(
        one_of(*EVENT_LOOPS),
        "asyncio",
        "asyncio: Python's own event loop; uvloop: that of the package uvloop, which may need less CPU",
    )


@dataclass(frozen=True, kw_only=True)
class Serving:
    """Server for requests of API servers."""

    bind: str = flag(ADDRESS, ":9443", "HOST:PORT at which the webhook listens for the API server (HTTPS)")
    client_ca: str | None = optional(
        Form("FILE", _authorities),
        "file with CAs: the webhook serves only clients with a certificate of one of them. API servers"
        " present one if their AdmissionConfiguration names it",
        expert=True,
    )
    body_limit: int = tuned(whole(1, metavar="BYTES"), str(4 * 1024 * 1024), "longest request in bytes")
    drain: float | None = optional(
        duration(most=_LONGEST_DRAIN, why="a process is ended 10 s after SIGTERM"),
        f"how long to go on serving, not ready, after SIGTERM, {_LONGEST_DRAIN} at most; default: {_LONGEST_DRAIN} with"
        " --service, 0s with --url",
        expert=True,
    )
    agent_user: str | None = optional(
        NAME,
        "user name of the agent at the API server; only this user may set the annotation that names a pod's creator",
    )


@dataclass(frozen=True, kw_only=True)
class Registering:
    """Registration with API servers."""

    url: str | None = optional(
        Form("https://HOST:PORT", _url),
        "address at which the API server reaches the webhook outside its cluster",
        instead_of="service",
    )
    service: Service | None = optional(
        Form("NAMESPACE/NAME[:PORT]", _service),
        "Service through which the API server reaches the webhook",
        instead_of="url",
    )
    register: bool = flag(
        SWITCH,
        "false",
        "create the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration if they are missing,"
        " and update them at the start; off: the webhook writes only caBundle into existing ones",
    )
    configuration_name: str = tuned(NAME, "multicluster-scheduler", "name of both webhook configurations")
    reinvocation_policy: str = tuned(
        one_of("Never", "IfNeeded"),
        "Never",
        "whether the API server calls the webhook again after other webhooks have changed a pod; used with --register",
    )
    placements: bool = flag(
        SWITCH,
        "false",
        "have API servers ask the webhook who may bind cluster sets and add clusters to them, and check"
        " annotations of Placements. For clusters without the webhooks of Open Cluster Management; used with"
        " --register",
    )

    @property
    def reach(self) -> Reach:
        """Return the function that builds the client configuration of a path."""
        return by_service(self.service) if self.service else by_url(self.url or "")

    @property
    def certificate_name(self) -> str:
        """The DNS name or IP address that the API server expects in our certificate."""
        return self.service.host if self.service else urllib.parse.urlsplit(self.url or "").hostname or ""

    def check(self) -> None:
        """Raises InvalidSetting."""
        if bool(self.url) == bool(self.service):
            raise InvalidSetting(
                "give either --url (outside a cluster) or --service (inside): how does the API server reach us?"
            )


@dataclass(frozen=True, kw_only=True)
class Certificates:
    """Its certificate."""

    namespace: str | None = optional(
        NAME, "namespace of the certificate Secret; default: the pod's own, else kube-system"
    )
    certificate_secret: str = tuned(
        NAME,
        "multicluster-scheduler-webhook-cert",
        "name of the Secret in which replicas share the CA and the certificate",
    )
    certificates: str = flag(
        one_of("own", "given"),
        "own",
        "own: the webhook keeps certificate and caBundle, with a CA of its own; given: another controller"
        " does, such as cert-manager",
    )
    ca_lifetime: float = tuned(DURATION, "1825d", "lifetime of the CA, which is renewed when a third of it remains")
    certificate_lifetime: float = tuned(
        DURATION, "90d", "lifetime of the certificate, which is renewed when a third of it remains"
    )
    overlap: float = tuned(
        DURATION_OR_NONE,
        "10m",
        "how long API servers and replicas have to load a new CA before the webhook uses it, and a new"
        " certificate before the webhook drops the earlier CA",
    )
    check_interval: float = tuned(DURATION, "60s", "pause between checks of certificate and registration")

    @property
    def lifetimes(self) -> Lifetimes:
        """Return the lifetimes and the overlap of CA and certificate."""
        return Lifetimes(
            *(timedelta(seconds=each) for each in (self.ca_lifetime, self.certificate_lifetime, self.overlap))
        )


@dataclass(frozen=True, kw_only=True)
class Settings(Certificates, Registering, Serving, Process):
    """All topics, the last first; times are seconds."""

    @property
    def home(self) -> str:
        """The namespace of the certificate's Secret."""
        return self.namespace or own_namespace()

    @property
    def drain_seconds(self) -> float:
        """Return seconds to serve after SIGTERM: endpoints of a Service still include the replica for a while."""
        longest = 5.0 if self.service else 0.0
        return longest if self.drain is None else self.drain

    def check(self) -> None:
        """Raises InvalidSetting."""
        if self.register and self.certificates == "given":
            raise InvalidSetting(
                "--register makes configurations that trust our own CA: leave it out with --certificates=given"
            )


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from flags, then environment variables, then defaults.

    Exits with usage when a flag is unknown. Raises InvalidSetting.
    """
    return flags.parse(
        Settings,
        argv,
        environ,
        program="webhook",
        purpose="Turns elected pods into proxy pods as they are created (a mutating admission webhook).",
        epilog=f"{flags.DURATIONS} Exactly one of --url and --service is needed.",
        prefixes=PREFIXES,
    )


def own_namespace(file: Path = _NAMESPACE_FILE) -> str:
    """The namespace of the pod we run in, kube-system outside of one."""
    try:
        return file.read_text().strip()
    except OSError:
        return "kube-system"
