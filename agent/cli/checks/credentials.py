"""When the credentials of a kubeconfig end. Pure; no secret of it is kept."""

import base64
import binascii

from cryptography import x509

from agent.cli.checks.view import Credentials
from agent.kube import kubeconfig as documents
from agent.kube.errors import InvalidConfig
from agent.model.token import claims


def read(secret: str, kubeconfig: bytes, context: str = "") -> Credentials | None:
    """Of the user of a context, by default the current one; None where the kubeconfig has no such user."""
    try:
        document = documents.document_of(kubeconfig)
        _, chosen = documents.context_of(document, context)
        user = documents.named(document, "users", "user", str(chosen.get("user")))
    except InvalidConfig:
        return None
    if user.get("client-certificate-data"):
        return _certificate(secret, str(user["client-certificate-data"]))
    if not user.get("token"):
        return None
    told = claims(str(user["token"]).strip())
    return Credentials(secret, told.issued, told.expires) if told is not None else Credentials(secret)


def _certificate(secret: str, encoded: str) -> Credentials | None:
    try:
        found = x509.load_pem_x509_certificate(base64.b64decode(encoded))
    except (ValueError, binascii.Error):
        return None
    return Credentials(secret, found.not_valid_before_utc, found.not_valid_after_utc, "client certificate")
