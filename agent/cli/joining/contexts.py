"""Clusters to join, each from a context, and the addresses under which other clusters reach them."""

import base64
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec

from agent.cli.joining.arguments import refusal
from agent.cli.options import Failed, opened, told
from agent.kube import config, kubeconfig
from agent.kube.client import Client
from agent.kube.errors import InvalidConfig, KubeError
from agent.kube.kubeconfig import Entry


class Side(msgspec.Struct, frozen=True):
    """A cluster to join, and its client."""

    context: str
    client: Client
    entry: Entry
    """Entry of the cluster in the user's kubeconfig."""
    namespace: str
    """Namespace of the context."""

    @property
    def title(self) -> str:
        """Title in messages."""
        return f"cluster {self.context}"


@contextlib.asynccontextmanager
async def side(document: Entry, context: str) -> AsyncIterator[Side]:
    """Connect to the cluster of a context, or of the current one if empty. Raises InvalidConfig."""
    context, _ = kubeconfig.context_of(document, context)
    connection = config.of_document(document, context, base=Path(), plugins=True)
    async with opened(connection, context) as client:
        yield Side(context, client, kubeconfig.cluster_of(document, context), connection.namespace)


@contextlib.contextmanager
def telling(title: str) -> Iterator[None]:
    """Raise Failed, with the cluster's name, for a KubeError."""
    try:
        yield
    except KubeError as error:
        raise Failed(told(error, title)) from error


class Way(msgspec.Struct, frozen=True):
    """Options about a target's address; each empty one leaves that of the kubeconfig."""

    server: str = ""
    authority: str = ""
    """File with the CA certificates of the server."""
    proxy: str = ""
    loopback: bool = False
    """Accept addresses that only this machine can reach."""

    @property
    def other(self) -> bool:
        """Whether it differs from the address that this command uses."""
        return bool(self.server or self.authority or self.proxy)


def address(entry: Entry, context: str, way: Way) -> Entry:
    """Return a cluster entry for the source's kubeconfig, with files embedded. Raises Failed, InvalidConfig."""
    server = (way.server or str(entry.get("server") or "")).rstrip("/")
    if not server.startswith("https://"):
        raise Failed(f"context {context}: {server!r} is no https address, and a token is not sent without TLS")
    if not way.loopback and (why := refusal(context, server)):
        raise Failed(why)
    found: Entry = {"server": server}
    authority = _authority(entry, context, way)
    if authority:
        found["certificate-authority-data"] = authority
    if entry.get("tls-server-name") and not way.server:
        found["tls-server-name"] = entry["tls-server-name"]
    proxy = way.proxy or str(entry.get("proxy-url") or "")
    if proxy:
        if not proxy.startswith(("http://", "https://")):
            raise Failed(
                f"context {context}: proxy {proxy!r} is not an http(s) address, and SOCKS is not spoken: --proxy-url http://HOST:PORT"
            )
        found["proxy-url"] = proxy
    return found


def _authority(entry: Entry, context: str, way: Way) -> str:
    if way.authority:
        pem = kubeconfig.read(Path(way.authority).expanduser())
        if b"-----BEGIN CERTIFICATE-----" not in pem:
            raise InvalidConfig(f"--ca-file {way.authority} holds no PEM certificate")
        return kubeconfig.embedded(pem)
    if entry.get("insecure-skip-tls-verify"):
        raise Failed(
            f"context {context} does not verify its server's certificate, and agents do: give the CA's certificate,"
            f" --ca-file {context}=FILE"
        )
    if entry.get("certificate-authority-data"):
        return str(entry["certificate-authority-data"])
    if entry.get("certificate-authority"):
        return base64.b64encode(kubeconfig.read(Path(str(entry["certificate-authority"])))).decode()
    return ""
