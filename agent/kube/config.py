"""Address and credentials of an API server: from kubeconfig files and data, or the pod's service account.

This module reads tokens and certificates. kubernetes-asyncio handles exec plugins and OIDC; it is imported only when a
kubeconfig asks for them, because any part of it costs 63 MiB.
"""

import asyncio
import base64
import binascii
import contextlib
import ipaddress
import os
import ssl
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from agent.kube import kubeconfig as documents
from agent.kube.errors import InvalidConfig
from agent.kube.kubeconfig import Entry

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
TOKEN_REREAD_SECONDS = 60.0
PLUGIN_REREAD_SECONDS = 60.0
PLUGIN_SECONDS = 30.0
"""Seconds that a credential plugin may take."""
_NO_PROXY = "is no http(s) address, and SOCKS is not spoken: name an HTTP proxy, http://HOST:PORT"
PLUGIN_RETRY_SECONDS = 5.0
"""Seconds for which its failure is cached: all waiters for these credentials receive it, not one after the other."""


class Auth(Protocol):
    """Gives the Authorization header of each request."""

    async def header(self) -> str | None:
        """Return the header's value, None for none (client certificates)."""
        ...

    def expire(self) -> None:
        """Fetch a new header at the next call, because the server refused it (401)."""
        ...


@dataclass
class StaticAuth:
    """A header that never changes."""

    value: str | None = field(default=None, repr=False)

    async def header(self) -> str | None:
        """Return the header as configured."""
        return self.value

    def expire(self) -> None:
        """Do nothing: no newer header is available."""


@dataclass
class FileAuth:
    """A token in a file that another program rotates, as the kubelet does with projected tokens."""

    path: Path
    _value: str = field(default="", repr=False)
    _read_at: float = field(default=-1e9, repr=False)

    async def header(self) -> str | None:
        """Return the file's token, read again once a minute. Raises InvalidConfig when the file cannot be read."""
        if time.monotonic() - self._read_at > TOKEN_REREAD_SECONDS:
            self._value = f"Bearer {_token(documents.read(self.path).decode(errors='replace'), str(self.path))}"
            self._read_at = time.monotonic()
        return self._value

    def expire(self) -> None:
        """Read the file at the next call."""
        self._read_at = -1e9


class PluginAuth:
    """Credentials that kubernetes-asyncio gets: exec plugins and auth providers."""

    def __init__(self, document: Entry, context: str, tls: ssl.SSLContext | None) -> None:
        self._document = document
        self._context = context
        self._tls = tls
        self._value: str | None = None
        self._loaded_at = -1e9
        self._failure = ""
        self._failed_at = -1e9
        self._one_at_a_time = asyncio.Lock()

    async def header(self) -> str | None:
        """Return the header from the plugin, which has its own cache. Raises InvalidConfig when it fails."""
        async with self._one_at_a_time:
            if time.monotonic() - self._loaded_at > PLUGIN_REREAD_SECONDS:
                if time.monotonic() - self._failed_at < PLUGIN_RETRY_SECONDS:
                    raise InvalidConfig(self._failure)
                try:
                    await self._load()
                except InvalidConfig as error:
                    self._failure, self._failed_at = str(error), time.monotonic()
                    raise
        return self._value

    def expire(self) -> None:
        """Ask the plugin at the next call."""
        self._loaded_at = -1e9

    async def _load(self) -> None:
        from kubernetes_asyncio import client, config

        configuration = client.Configuration()
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                await config.load_kube_config_from_dict(
                    self._document, context=self._context, client_configuration=configuration
                )
        except TimeoutError as error:
            message = f"context {self._context!r}: credential plugin gave no answer within {PLUGIN_SECONDS:g} s"
            raise InvalidConfig(message) from error
        except (config.ConfigException, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidConfig(f"context {self._context!r}: credential plugin failed: {error}") from error
        self._value = configuration.api_key.get("BearerToken")
        if self._tls is not None and configuration.cert_file:
            self._tls.load_cert_chain(configuration.cert_file, configuration.key_file)
        self._loaded_at = time.monotonic()


@dataclass(frozen=True)
class Connection:
    """Everything needed to talk to one API server."""

    server: str
    tls: ssl.SSLContext | None = None
    auth: Auth = field(default_factory=StaticAuth)
    proxy: str | None = None
    server_name: str | None = None
    namespace: str = "default"
    insecure: str = ""
    """Kubeconfig field that lets attackers read or forge answers, and the remedy; empty if there is none."""


def load(kubeconfig: str | None = None, context: str | None = None) -> Connection:
    """Return the connection of a kubeconfig file; without a path the pod's own, then $KUBECONFIG, then ~/.kube/config.

    $KUBECONFIG may name several files, which count as one.

    Raises InvalidConfig with the remedy.
    """
    if not kubeconfig and (SERVICE_ACCOUNT / "token").exists() and os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster()
    return of_document(documents.merged(documents.files(kubeconfig or "")), context, base=Path(), plugins=True)


def in_cluster() -> Connection:
    """Return the connection of the pod's service account."""
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    tls = ssl.create_default_context(cafile=str(SERVICE_ACCOUNT / "ca.crt"))
    namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    return Connection(f"https://{host}:{port}", tls, FileAuth(SERVICE_ACCOUNT / "token"), namespace=namespace)


def parse(
    data: bytes | str, context: str | None = None, *, base: Path | None = None, plugins: bool = False
) -> Connection:
    """Return the connection that a kubeconfig's bytes (YAML or JSON) describe.

    Kubeconfigs from Secrets are untrusted: without `base` they may not name files, and without `plugins` they may not
    run programs, since both would use the agent's own rights.

    Raises InvalidConfig naming the entry and the remedy.
    """
    return of_document(documents.document_of(data), context, base=base, plugins=plugins)


def of_document(
    document: Entry, context: str | None = None, *, base: Path | None = None, plugins: bool = False
) -> Connection:
    """Return the connection that a parsed kubeconfig describes."""
    name, entry = documents.context_of(document, context or "")
    cluster = documents.cluster_of(document, name)
    user = documents.named(document, "users", "user", entry["user"]) if entry.get("user") else {}
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise InvalidConfig(f"cluster {documents.shown(entry['cluster'])}: server is not an http(s) address")
    proxy = str(cluster.get("proxy-url") or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise InvalidConfig(f"cluster {documents.shown(entry['cluster'])}: proxy-url {_NO_PROXY}")
    tls = _tls(cluster, user, base) if server.startswith("https://") else None
    return Connection(
        server=server,
        tls=tls,
        auth=_auth(document, name, user, tls, base, plugins),
        proxy=proxy or None,
        server_name=cluster.get("tls-server-name") or None,
        namespace=entry.get("namespace") or "default",
        insecure=_insecure(cluster, documents.shown(entry["cluster"]), server),
    )


def _insecure(cluster: Entry, name: str, server: str) -> str:
    remedy = "and set certificate-authority-data to the CA of the server"
    if server.startswith("http://") and not _is_loopback(server):
        return (
            f"cluster {name}: server is an http address: whoever is on the way reads and changes all requests, and has"
            f" the credentials in them; give an https address, {remedy}"
        )
    if cluster.get("insecure-skip-tls-verify") and server.startswith("https://"):
        return (
            f"cluster {name}: insecure-skip-tls-verify is true: whoever is on the way may pass for the server, and gets"
            f" the credentials; remove the field, {remedy}"
        )
    return ""


def _is_loopback(server: str) -> bool:
    try:
        host = urlsplit(server).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _auth(
    document: Entry, context: str, user: Entry, tls: ssl.SSLContext | None, base: Path | None, plugins: bool
) -> Auth:
    if "exec" in user or "auth-provider" in user:
        if not plugins:
            raise InvalidConfig("credential plugins (exec, auth-provider) are not allowed here: use a token")
        return PluginAuth(document, context, tls)
    if user.get("tokenFile"):
        return FileAuth(_path(user["tokenFile"], base, "tokenFile"))
    if user.get("token"):
        return StaticAuth(f"Bearer {_token(str(user['token']), 'token')}")
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return StaticAuth("Basic " + base64.b64encode(pair).decode())
    return StaticAuth()


def _tls(cluster: Entry, user: Entry, base: Path | None) -> ssl.SSLContext:
    authority = _material(cluster, "certificate-authority", base)
    try:
        context = ssl.create_default_context(cadata=authority.decode() if authority is not None else None)
    except (ssl.SSLError, ValueError) as error:
        raise InvalidConfig("certificate-authority is not a PEM certificate") from error
    if cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    certificate = _material(user, "client-certificate", base)
    key = _material(user, "client-key", base)
    if (certificate is None) != (key is None):
        missing = "client-key" if key is None else "client-certificate"
        raise InvalidConfig(f"{missing} is missing: a client certificate needs its key, and a key its certificate")
    if certificate is not None and key is not None:
        with _file(certificate + b"\n" + key) as path:
            try:
                # Set a password, even an empty one: OpenSSL would ask the terminal for that of an encrypted key.
                context.load_cert_chain(path, password="")
            except (ssl.SSLError, ValueError) as error:
                raise InvalidConfig("client-certificate and client-key are not a PEM pair") from error
    return context


def _material(entry: Entry, name: str, base: Path | None) -> bytes | None:
    data = entry.get(f"{name}-data")
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise InvalidConfig(f"{name}-data is not base64") from error
    return documents.read(_path(entry[name], base, name)) if entry.get(name) else None


def _token(text: str, name: str) -> str:
    """A token as a header can carry it: a line break at its end is common, one inside would end the header."""
    token = text.strip()
    if not token.isascii() or not token.isprintable():
        raise InvalidConfig(f"{name}: the token holds characters that an HTTP header cannot carry")
    return token


def _path(value: object, base: Path | None, name: str) -> Path:
    if base is None:
        raise InvalidConfig(f"{name} names a file: only inline data is allowed here")
    return base / Path(str(value)).expanduser()


@contextlib.contextmanager
def _file(data: bytes) -> Iterator[str]:
    """ssl loads client certificates from files only."""
    with tempfile.NamedTemporaryFile(prefix="flotilla-", suffix=".pem") as file:
        file.write(data)
        file.flush()
        yield file.name
