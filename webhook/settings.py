"""Every setting of the webhook: flag, environment variable, default, and the check of its value."""

import argparse
import os
import ssl
import urllib.parse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from agent.api.names import SERVICE_ACCOUNT_MOUNT
from webhook.bundle import Lifetimes
from webhook.configurations import Reach, Service, by_service, by_url

OWN_PREFIX = "FLOTILLA_WEBHOOK_"
SHARED_PREFIX = "FLOTILLA_"

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_DRAIN = 5.0
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_NAMESPACE_FILE = Path(SERVICE_ACCOUNT_MOUNT, "namespace")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Settings:
    """What `python -m webhook` was asked to do."""

    kubeconfig: str | None
    context: str | None
    bind: Address
    url: str | None
    service: Service | None
    register: bool
    configuration_name: str
    reinvocation_policy: str
    namespace: str
    certificates: str
    certificate_secret: str
    lifetimes: Lifetimes
    client_ca: str | None
    check_interval: float
    drain: float
    body_limit: int
    agent_user: str | None
    health_address: Address
    metrics_address: Address | None
    log_level: str
    log_json: bool

    @property
    def reach(self) -> Reach:
        """How the API server reaches us."""
        return by_service(self.service) if self.service else by_url(self.url or "")

    @property
    def certificate_name(self) -> str:
        """The DNS name or IP address that the API server expects in our certificate."""
        return self.service.host if self.service else urllib.parse.urlsplit(self.url or "").hostname or ""


@dataclass(frozen=True, slots=True)
class _Option:
    flag: str
    metavar: str
    read: Callable[[str], Any]
    default: Any
    help: str

    @property
    def field(self) -> str:
        return self.flag.replace("-", "_")

    @property
    def variables(self) -> tuple[str, str]:
        return OWN_PREFIX + self.field.upper(), SHARED_PREFIX + self.field.upper()

    @property
    def described(self) -> str:
        default = "" if self.default is None else f" (default: {self.default})"
        return f"{self.help}{default} [{self.variables[0]} or {self.variables[1]}]"


def parse(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """Read flags, then environment variables, then defaults. Exits with a message that names what is wrong."""
    parser = argparse.ArgumentParser(
        prog="webhook",
        description="Turns elected pods into proxy pods as they are created (a mutating admission webhook).",
        epilog="Durations are numbers with s, m, h or d. A flag wins over its environment variable; "
        "exactly one of --url and --service is needed.",
    )
    for option in _OPTIONS:
        extra: dict[str, Any] = {"nargs": "?", "const": "true"} if option.read is _switch else {}
        parser.add_argument(f"--{option.flag}", metavar=option.metavar, help=option.described, **extra)
    given = vars(parser.parse_args(argv))
    if given["url"] or given["service"]:
        environ = {name: value for name, value in environ.items() if not name.endswith(("_URL", "_SERVICE"))}
    values = {option.field: _value(parser, option, given[option.field], environ) for option in _OPTIONS}
    if bool(values["url"]) == bool(values["service"]):
        parser.error("give either --url (outside a cluster) or --service (inside): how does the API server reach us?")
    if values["register"] and values["certificates"] == "given":
        parser.error("--register makes configurations that trust our own CA: leave it out with --certificates=given")
    return _settings(values)


def _settings(values: dict[str, Any]) -> Settings:
    ca, certificate, overlap = (values.pop(name) for name in ("ca_lifetime", "certificate_lifetime", "overlap"))
    lifetimes = Lifetimes(timedelta(seconds=ca), timedelta(seconds=certificate), timedelta(seconds=overlap))
    values["namespace"] = values["namespace"] or own_namespace()
    if values["drain"] is None:
        values["drain"] = _LONGEST_DRAIN if values["service"] else 0.0
    return Settings(lifetimes=lifetimes, **values)


def own_namespace(file: Path = _NAMESPACE_FILE) -> str:
    """The namespace of the pod we run in, kube-system outside of one."""
    try:
        return file.read_text().strip()
    except OSError:
        return "kube-system"


def _value(parser: argparse.ArgumentParser, option: _Option, given: str | None, environ: Mapping[str, str]) -> Any:
    sources = ((f"--{option.flag}", given), *((name, environ.get(name) or None) for name in option.variables))
    source, text = next(((name, text) for name, text in sources if text is not None), ("", option.default))
    if text is None:
        return None
    try:
        return option.read(text)
    except ValueError as error:
        _refuse(parser, source, text, error)


def _refuse(parser: argparse.ArgumentParser, source: str, text: str, error: ValueError) -> NoReturn:
    parser.error(f"{source}={text}: {error}")


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError("must be HOST:PORT, for example 0.0.0.0:9443 or [::]:9443")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


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


def _seconds(text: str) -> float:
    unit = _UNITS.get(text[-1:])
    try:
        seconds = float(text[:-1]) * unit if unit else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ValueError("must be a duration such as 30s, 10m, 12h or 90d")
    return seconds


def _positive(text: str) -> float:
    seconds = _seconds(text)
    if not seconds:
        raise ValueError("must be longer than nothing")
    return seconds


def _drain(text: str) -> float:
    seconds = _seconds(text)
    if seconds > _LONGEST_DRAIN:
        raise ValueError(f"must be {_LONGEST_DRAIN:g}s at most: a process is ended 10 s after SIGTERM")
    return seconds


def _size(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise ValueError("must be a number of bytes")
    return int(text)


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise ValueError("must be true or false")
    return text.lower() in ("true", "1")


def _one_of(*choices: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        for choice in choices:
            if text.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return read


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _authorities(text: str) -> str:
    try:
        ssl.create_default_context(cafile=text)
    except OSError as error:
        raise ValueError(f"cannot be read as a file of PEM certificates: {error}") from error
    return text


_OPTIONS = (
    _Option("kubeconfig", "FILE", _text, None, "kubeconfig; default: the pod's service account, else ~/.kube/config"),
    _Option("context", "NAME", _text, None, "context of the kubeconfig; default: its current one"),
    _Option("bind", "HOST:PORT", _address, "0.0.0.0:9443", "where to listen for the API server (HTTPS)"),
    _Option("url", "https://HOST:PORT", _url, None, "where the API server reaches us from outside its cluster"),
    _Option("service", "NAMESPACE/NAME[:PORT]", _service, None, "the Service through which the API server reaches us"),
    _Option(
        "register", "true|false", _switch, "false",
        "make the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration when they are missing, and bring "
        "them up to date at the start; without it only caBundle is written into existing ones",
    ),
    _Option("configuration-name", "NAME", _text, "multicluster-scheduler", "name of both webhook configurations"),
    _Option(
        "reinvocation-policy", "Never|IfNeeded", _one_of("Never", "IfNeeded"), "Never",
        "whether we are asked again after other webhooks changed a pod; used with --register",
    ),
    _Option("namespace", "NAME", _text, None, "where the certificate Secret is; default: ours, else kube-system"),
    _Option(
        "certificate-secret", "NAME", _text, "multicluster-scheduler-webhook-cert",
        "Secret in which replicas share CA and certificate",
    ),
    _Option(
        "certificates", "own|given", _one_of("own", "given"), "own",
        "who keeps certificate and caBundle: we, with a CA of our own, or somebody else, such as cert-manager",
    ),
    _Option("ca-lifetime", "DURATION", _positive, "1825d", "life of the CA; renewed when a third of it remains"),
    _Option("certificate-lifetime", "DURATION", _positive, "90d", "life of the certificate, renewed likewise"),
    _Option(
        "overlap", "DURATION", _seconds, "10m",
        "how long API servers and replicas get to learn of a new CA before it is used, and of a new certificate "
        "before the earlier CA is forgotten",
    ),
    _Option(
        "client-ca", "FILE", _authorities, None,
        "serve only clients with a certificate of these CAs (API servers show one when their AdmissionConfiguration "
        "says so)",
    ),
    _Option("check-interval", "DURATION", _positive, "60s", "how often certificate and registration are checked"),
    _Option(
        "drain", "DURATION", _drain, None,
        "how long to go on serving, not ready, after SIGTERM, 5s at most; default: 5s with --service, 0s with --url",
    ),
    _Option("body-limit", "BYTES", _size, str(4 * 1024 * 1024), "longest request served"),
    _Option(
        "agent-user", "NAME", _text, None,
        "the agent's user, as the API server knows it: it alone may say who has created a pod",
    ),
    _Option("health-address", "HOST:PORT", _address, "0.0.0.0:8080", "/healthz, /readyz and /metrics (HTTP)"),
    _Option(
        "metrics-address", "HOST:PORT", _address, None,
        "/metrics over HTTPS, for tokens that may get that path; default: for all, beside /healthz",
    ),
    _Option("log-level", "LEVEL", _one_of(*_LEVELS), "INFO", "one of " + ", ".join(_LEVELS)),
    _Option("log-json", "true|false", _switch, "false", "log JSON lines"),
)  # fmt: skip
