"""X.509: keys, CAs, certificates, signing requests, and their fields."""

import ipaddress
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PrivateKey = ec.EllipticCurvePrivateKey

BACKDATE = timedelta(minutes=5)
"""Certificates are valid this long before they are made: the API server's clock may be behind ours."""

RENEW_BELOW = 1 / 3
"""Renewal is due when less than this share of the life remains."""

_SELF_SIGNED_LIFE = timedelta(days=365)
_SERVER, _CLIENT = [ExtendedKeyUsageOID.SERVER_AUTH], [ExtendedKeyUsageOID.CLIENT_AUTH]
_PEM_END = b"-----END CERTIFICATE-----"


class Pair(msgspec.Struct, frozen=True):
    """A certificate chain and its key as PEM."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"Pair({self.certificate!r}, key hidden)"

    def load(self, context: ssl.SSLContext) -> None:
        """Load the certificate and its key into a TLS context. Raises ssl.SSLError."""
        # OpenSSL reads files only. This one is in memory: the key touches no disk, and the root may be read-only.
        descriptor = os.memfd_create("certificate")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(self.certificate + b"\n" + self.key)
            context.load_cert_chain(f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)


class Validity(NamedTuple):
    """From when to when a certificate is valid."""

    start: datetime
    end: datetime


def new_key() -> PrivateKey:
    """Return a new private key."""
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: PrivateKey) -> bytes:
    """Return a key as unencrypted PEM, in the format of Kubernetes' own, which Go and OpenSSL take for every use."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def public_pem(key: PrivateKey) -> bytes:
    """Return the certificate without its key, as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def authority(name: str, now: datetime, lifetime: timedelta) -> Pair:
    """Return a new CA. Its subject differs from every earlier one's, so that no verifier confuses old and new."""
    key = new_key()
    subject = _subject(f"{name}-ca@{int(now.timestamp())}")
    builder = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(ca: Pair, names: Sequence[str], now: datetime, lifetime: timedelta) -> Pair:
    """Return a serving certificate for DNS names and IP addresses; it never outlives its CA.

    Raises ValueError when there are no names.
    """
    return _issue_for(ca, names, _SERVER, now, lifetime)


def issue_identity(ca: Pair, names: Sequence[str], now: datetime, lifetime: timedelta) -> Pair:
    """Return a certificate for both ends of a connection; verifiers check its URIs (`spiffe://..`), not its hosts.

    Raises ValueError when there are no names.
    """
    return _issue_for(ca, names, _SERVER + _CLIENT, now, lifetime)


def issue_client(ca: Pair, user: str, group: str, now: datetime, lifetime: timedelta) -> Pair:
    """Return a client certificate: its common name is the user, its organisation the group, if there is one."""
    builder, key = _issued(ca, _subject(user, group), _CLIENT, now, lifetime)
    return _signed(builder, ca, key)


def self_signed(key: PrivateKey, name: str, group: str, hosts: Sequence[str]) -> Pair:
    """Return a self-signed server certificate, valid for a year."""
    now = datetime.now(UTC)
    builder = (
        _builder(_subject(name, group), _subject(name, group), key.public_key(), now, now + _SELF_SIGNED_LIFE)
        .add_extension(_alternatives(hosts), critical=False)
        .add_extension(x509.ExtendedKeyUsage(_SERVER), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def signing_request(key: PrivateKey, name: str, group: str, hosts: Sequence[str]) -> bytes:
    """Return a signing request (PEM) for a server certificate."""
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(name, group))
    signed = request.add_extension(_alternatives(hosts), critical=False).sign(key, hashes.SHA256())
    return signed.public_bytes(serialization.Encoding.PEM)


def names_of(certificate: bytes) -> frozenset[str]:
    """Return the DNS names, IP addresses and URIs a certificate is for."""
    try:
        found = _load(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in found.get_values_for_type(x509.IPAddress))
    texts = (
        name for kind in (x509.DNSName, x509.UniformResourceIdentifier) for name in found.get_values_for_type(kind)
    )
    return frozenset((*texts, *addresses))


def made_at(certificate: bytes) -> datetime:
    """When `authority` or `issue` made a certificate."""
    return _load(certificate).not_valid_before_utc + BACKDATE


def validity(certificate: bytes) -> Validity:
    """From when until when a certificate is valid. Raises ValueError when it is not PEM."""
    found = _load(certificate)
    return Validity(found.not_valid_before_utc, found.not_valid_after_utc)


def expiry(certificate: bytes) -> datetime:
    """Return the last moment at which a certificate is valid."""
    return _load(certificate).not_valid_after_utc


def needs_renewal(certificate: bytes, now: datetime) -> bool:
    """Return whether less than a third of a certificate's life remains."""
    until = expiry(certificate)
    return until - now < (until - made_at(certificate)) * RENEW_BELOW


def signed_by(certificate: bytes, ca: bytes) -> bool:
    """Return whether a CA's key signed a certificate."""
    try:
        _load(certificate).verify_directly_issued_by(_load(ca))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belongs(pair: Pair) -> bool:
    """Return whether a key is the key of its certificate. Raises ValueError when either is not PEM."""
    return _load(pair.certificate).public_key() == _load_key(pair.key).public_key()


def fits(pair: Pair) -> bool:
    """Return whether a key of any kind is the key of its certificate. Raises ValueError when either is not PEM."""
    key = serialization.load_pem_private_key(pair.key, password=None)
    return key.public_key() == _load(pair.certificate).public_key()


def split(bundle: bytes) -> list[bytes]:
    """Return the certificates of a PEM bundle, in order, each encoded again: other content is dropped.

    Raises ValueError when one of them is not a certificate.
    """
    if _PEM_END not in bundle:
        return []
    return [each.public_bytes(serialization.Encoding.PEM) for each in x509.load_pem_x509_certificates(bundle)]


def _load(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate)


def _load_key(key: bytes) -> PrivateKey:
    loaded = serialization.load_pem_private_key(key, password=None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not an elliptic curve key")
    return loaded


def _pair(certificate: x509.Certificate, key: PrivateKey) -> Pair:
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


def _issue_for(
    ca: Pair, names: Sequence[str], usage: Sequence[x509.ObjectIdentifier], now: datetime, lifetime: timedelta
) -> Pair:
    if not names:
        raise ValueError("a certificate needs at least one DNS name, IP address or URI")
    # A common name holds 64 characters at most; verifiers read only the alternative names.
    builder, key = _issued(ca, _subject(names[0][:64]), usage, now, lifetime)
    return _signed(builder.add_extension(_alternatives(names), critical=False), ca, key)


def _issued(
    ca: Pair, subject: x509.Name, usage: Sequence[x509.ObjectIdentifier], now: datetime, lifetime: timedelta
) -> tuple[x509.CertificateBuilder, PrivateKey]:
    """Return a builder with the common fields of a CA's certificates, and a new key; it never outlives its CA."""
    issuer, issuer_key = _load(ca.certificate), _load_key(ca.key)
    key = new_key()
    until = min(now + lifetime, issuer.not_valid_after_utc)
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
    )
    return builder, key


def _signed(builder: x509.CertificateBuilder, ca: Pair, key: PrivateKey) -> Pair:
    return _pair(builder.sign(_load_key(ca.key), hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATE)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str, group: str = "") -> x509.Name:
    organisation = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group)] if group else []
    return x509.Name([*organisation, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternatives(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName([_general_name(host) for host in hosts])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
