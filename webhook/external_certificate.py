"""A certificate that another program keeps in the Secret, as cert-manager does: read and served, never written.

That program also makes API servers trust it (cert-manager's CA injector writes caBundle).
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

import msgspec
from cryptography.exceptions import UnsupportedAlgorithm

from agent.api.kinds import SECRETS
from agent.base import certificates
from agent.base.certificate_bundle import CERTIFICATE, KEY
from agent.base.certificates import Pair
from agent.kube.client import Client
from agent.kube.errors import NotFound


class NoCertificate(Exception):
    """The Secret is missing, or holds nothing that can be served."""


class Given(msgspec.Struct, frozen=True):
    """The certificate to serve."""

    serving: Pair

    @property
    def trusted(self) -> bytes:
        """Return no CA: another program writes caBundle."""
        return b""


class ExternalCertificate:
    """Reads the Secret; `name` is what the API server expects in the certificate."""

    def __init__(self, client: Client, namespace: str, secret: str, name: str) -> None:
        self._client = client
        self._namespace = namespace
        self._secret = secret
        self._name = name

    async def refresh(self) -> Given:
        """Return the current certificate. Raises NoCertificate, or KubeError."""
        where = f"Secret {self._namespace}/{self._secret}"
        try:
            secret = await self._client.get(SECRETS, self._secret, self._namespace)
        except NotFound:
            raise NoCertificate(f"{where} does not exist: see whether its Certificate is ready") from None
        try:
            pair = _pair(secret.get("data") or {})
            names = certificates.names_of(pair.certificate)
        except (ValueError, TypeError, binascii.Error, UnsupportedAlgorithm) as error:
            raise NoCertificate(f"{where} holds no certificate with its key in {CERTIFICATE} and {KEY}") from error
        if self._name not in names:
            shown = ", ".join(sorted(names)) or "nobody"
            raise NoCertificate(f"{where}: the certificate is for {shown}, and the API server asks for {self._name}")
        return Given(pair)


def _pair(data: Mapping[str, Any]) -> Pair:
    pair = Pair(*(base64.b64decode(data.get(field, "")) for field in (CERTIFICATE, KEY)))
    if not certificates.fits(pair):
        raise ValueError("the key is another certificate's")
    return pair
