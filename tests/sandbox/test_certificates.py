"""Certificates, as OpenSSL and the API server read them."""

import datetime
import ssl

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from agent.base.certificates import Pair
from hack.lab.sandbox.certificates import Authority, service_account_keys

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@pytest.fixture
def authority() -> Authority:
    return Authority("us", NOW)


def read(pair: Pair) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pair.certificate)


def test_every_certificate_is_issued_by_the_clusters_own_authority(authority: Authority) -> None:
    ca = read(authority.pair)
    for pair in (authority.serving(["10.0.0.1"]), authority.client("me")):
        read(pair).verify_directly_issued_by(ca)
    with pytest.raises(ValueError, match="Issuer"):
        read(Authority("eu", NOW).client("me")).verify_directly_issued_by(ca)


def test_a_serving_certificate_names_addresses_and_hosts(authority: Authority) -> None:
    certificate = read(authority.serving(["10.0.0.1", "kubernetes.default"]))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert names.get_values_for_type(x509.DNSName) == ["kubernetes.default"]
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]


def test_a_clients_user_and_group_are_in_its_subject(authority: Authority) -> None:
    subject = read(authority.client("me", "system:masters")).subject
    assert [item.value for item in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["me"]
    assert [item.value for item in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters"]


def test_certificates_are_valid_from_a_little_before_now(authority: Authority) -> None:
    certificate = read(authority.client("me"))
    assert certificate.not_valid_before_utc < NOW < certificate.not_valid_after_utc


def test_openssl_takes_the_authority_in_strict_mode(authority: Authority) -> None:
    context = ssl.create_default_context(cadata=authority.pair.certificate.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    assert context.cert_store_stats()["x509_ca"] == 1


def test_service_account_keys_belong_together() -> None:
    private, public = service_account_keys()
    key = serialization.load_pem_private_key(private, None)
    form = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    assert key.public_key().public_bytes(*form) == public
