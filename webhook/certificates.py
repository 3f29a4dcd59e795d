"""X.509 for the webhook: its own CA, the certificate it serves, and the questions asked of both. No I/O."""

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agent.base.pair import Pair, private_pem

BACKDATE = timedelta(minutes=5)
"""Certificates are valid this long before they are made: the API server's clock may be behind ours."""

RENEW_BELOW = 1 / 3
"""Renewal is due when less than this share of the life remains."""

_PEM_END = b"-----END CERTIFICATE-----"


def authority(name: str, now: datetime, lifetime: timedelta) -> Pair:
    """A new CA. Its subject differs from every earlier one's, so that no verifier confuses old and new."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(f"{name}-ca@{int(now.timestamp())}")
    builder = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(ca: Pair, names: Sequence[str], now: datetime, lifetime: timedelta) -> Pair:
    """A serving certificate for DNS names and IP addresses; it never outlives its CA.

    Raises ValueError when there are no names.
    """
    if not names:
        raise ValueError("a serving certificate needs at least one DNS name or IP address")
    issuer, issuer_key = _load(ca.certificate), _load_key(ca.key)
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + lifetime, issuer.not_valid_after_utc)
    alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
    builder = (
        # A common name holds 64 characters at most; verifiers read only the alternative names.
        _builder(_subject(names[0][:64]), issuer.subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(alternatives, critical=False)
    )
    return _pair(builder.sign(issuer_key, hashes.SHA256()), key)


def names_of(certificate: bytes) -> frozenset[str]:
    """The DNS names and IP addresses a certificate is for."""
    try:
        found = _load(certificate).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = (str(address) for address in found.get_values_for_type(x509.IPAddress))
    return frozenset((*found.get_values_for_type(x509.DNSName), *addresses))


def made_at(certificate: bytes) -> datetime:
    """When `authority` or `issue` made a certificate."""
    return _load(certificate).not_valid_before_utc + BACKDATE


def expiry(certificate: bytes) -> datetime:
    """The last moment at which a certificate is valid."""
    return _load(certificate).not_valid_after_utc


def needs_renewal(certificate: bytes, now: datetime) -> bool:
    """Whether less than a third of a certificate's life remains."""
    until = expiry(certificate)
    return until - now < (until - made_at(certificate)) * RENEW_BELOW


def signed_by(certificate: bytes, ca: bytes) -> bool:
    """Whether a CA's key signed a certificate."""
    try:
        _load(certificate).verify_directly_issued_by(_load(ca))
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belongs(pair: Pair) -> bool:
    """Whether a key is the key of its certificate. Raises ValueError when either is not PEM."""
    return _load(pair.certificate).public_key() == _load_key(pair.key).public_key()


def fits(pair: Pair) -> bool:
    """Whether a key of any kind is the key of its certificate. Raises ValueError when either is not PEM."""
    key = serialization.load_pem_private_key(pair.key, password=None)
    return key.public_key() == _load(pair.certificate).public_key()


def split(bundle: bytes) -> list[bytes]:
    """The certificates of a PEM bundle, in order. Raises ValueError when one of them is not a certificate."""
    parts = [part.strip() + b"\n" + _PEM_END + b"\n" for part in bundle.split(_PEM_END)[:-1]]
    for part in parts:
        _load(part)
    return parts


def _load(certificate: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(certificate)


def _load_key(key: bytes) -> ec.EllipticCurvePrivateKey:
    loaded = serialization.load_pem_private_key(key, password=None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not an elliptic curve key")
    return loaded


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private_pem(key))


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


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


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
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
