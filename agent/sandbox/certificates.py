"""A cluster's certificate authority, and the certificates and keys of its processes. No I/O."""

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFE = datetime.timedelta(days=365)
FRONT_PROXY = "front-proxy-client"
"""By whom servers of aggregated APIs let themselves be told who asks."""
_CLOCK_SKEW = datetime.timedelta(minutes=5)

CLIENTS: Mapping[str, tuple[str, str]] = {
    "admin": ("flotilla-admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kwok": ("flotilla-kwok", "system:masters"),
    "kubelet-client": ("kube-apiserver-kubelet-client", "system:masters"),
    "front-proxy": (FRONT_PROXY, ""),
}
"""Client certificates: user and group."""


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority of one cluster."""

    def __init__(self, cluster: str, now: datetime.datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"flotilla-sandbox-{cluster}")])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = Pair(_pem(certificate), private_pem(self._key))

    def serving(self, hosts: Sequence[str]) -> Pair:
        """A server's certificate for these names and addresses."""
        alternatives = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(hosts[0], "", ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, group: str = "") -> Pair:
        """A client's certificate: its common name is the user, its organisation the group."""
        return self._issue(user, group, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self, name: str, group: str, usage: x509.ObjectIdentifier, alternatives: x509.SubjectAlternativeName | None
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        if group:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
        builder = (
            self._builder(x509.Name(attributes), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), private_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + LIFE)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(authority, critical=False)
        )


def service_account_keys() -> tuple[bytes, bytes]:
    """Private and public key (PEM) that sign and verify the tokens of service accounts."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private_pem(key), public


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as unencrypted PEM, in the one format that both Go and OpenSSL take for every use."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
