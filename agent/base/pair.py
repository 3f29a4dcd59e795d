"""A certificate and its key, and how a process signs one for itself."""

import datetime
import os
import ssl
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

_DAYS = 365


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate chain and its key as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Pair({self.certificate!r}, key hidden)"

    def load(self, context: ssl.SSLContext) -> None:
        """Have a context show it. Raises ssl.SSLError."""
        # OpenSSL reads files only. This one is in memory: the key touches no disk, and the root may be read-only.
        descriptor = os.memfd_create("certificate")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(self.certificate + b"\n" + self.key)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as unencrypted PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(key: ec.EllipticCurvePrivateKey, subject: x509.Name, names: x509.SubjectAlternativeName) -> Pair:
    """A server's certificate of its own, valid for a year."""
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))
