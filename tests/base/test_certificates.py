import datetime
import ipaddress

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from agent.base import certificates
from agent.base.certificates import Pair

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


@pytest.fixture(scope="module")
def ca() -> Pair:
    return certificates.authority("flotilla", NOW, 100 * DAY)


def verify(pair: Pair, trusted: Pair, name: str, at: datetime.datetime) -> None:
    """Verify as a TLS client does. Raises VerificationError."""
    subject: x509.GeneralName
    try:
        subject = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        subject = x509.DNSName(name)
    store = Store([x509.load_pem_x509_certificate(trusted.certificate)])
    verifier = PolicyBuilder().store(store).time(at).build_server_verifier(subject)
    verifier.verify(x509.load_pem_x509_certificate(pair.certificate), [])


@pytest.mark.parametrize("name", ["hook.system.svc", "10.1.2.3", "fd00::1"])
def test_a_certificate_is_good_for_each_of_its_names(ca: Pair, name: str) -> None:
    pair = certificates.issue(ca, ["other.system.svc", name], NOW, 10 * DAY)
    verify(pair, ca, name, NOW)


def test_a_certificate_is_not_good_for_another_name(ca: Pair) -> None:
    pair = certificates.issue(ca, ["hook.system.svc"], NOW, 10 * DAY)
    with pytest.raises(VerificationError):
        verify(pair, ca, "hook.other.svc", NOW)


def test_a_certificate_is_not_good_under_another_ca(ca: Pair) -> None:
    other = certificates.authority("flotilla", NOW + DAY, 100 * DAY)
    pair = certificates.issue(ca, ["hook.system.svc"], NOW, 10 * DAY)
    with pytest.raises(VerificationError):
        verify(pair, other, "hook.system.svc", NOW + DAY)
    assert certificates.signed_by(pair.certificate, ca.certificate)
    assert not certificates.signed_by(pair.certificate, other.certificate)


def test_a_certificate_is_good_for_a_verifier_whose_clock_is_minutes_behind(ca: Pair) -> None:
    pair = certificates.issue(ca, ["hook.system.svc"], NOW, 10 * DAY)
    verify(pair, ca, "hook.system.svc", NOW - datetime.timedelta(minutes=4))


def test_a_certificate_ends_with_its_ca_at_the_latest(ca: Pair) -> None:
    pair = certificates.issue(ca, ["hook.system.svc"], NOW + 95 * DAY, 10 * DAY)
    assert certificates.expiry(pair.certificate) == NOW + 100 * DAY


def test_a_name_longer_than_a_common_name_may_be_is_served(ca: Pair) -> None:
    name = f"{'a' * 63}.{'b' * 63}.svc"
    verify(certificates.issue(ca, [name], NOW, DAY), ca, name, NOW)


def test_a_certificate_without_names_is_refused(ca: Pair) -> None:
    with pytest.raises(ValueError, match="at least one"):
        certificates.issue(ca, [], NOW, DAY)


def test_names_are_read_back(ca: Pair) -> None:
    pair = certificates.issue(ca, ["hook.system.svc", "10.1.2.3", "fd00::1"], NOW, DAY)
    assert certificates.names_of(pair.certificate) == {"hook.system.svc", "10.1.2.3", "fd00::1"}
    assert certificates.names_of(ca.certificate) == frozenset()


@pytest.mark.parametrize(
    ("age", "due"),
    [(0, False), (59, False), (61, True), (91, True)],
    ids=["when new", "with more than a third left", "with less than a third left", "when expired"],
)
def test_renewal_is_due(ca: Pair, age: int, due: bool) -> None:
    pair = certificates.issue(ca, ["hook.system.svc"], NOW, 90 * DAY)
    assert certificates.needs_renewal(pair.certificate, NOW + age * DAY) is due


def test_a_key_belongs_to_its_own_certificate_only(ca: Pair) -> None:
    pair = certificates.issue(ca, ["hook.system.svc"], NOW, DAY)
    assert certificates.belongs(pair)
    assert not certificates.belongs(Pair(pair.certificate, ca.key))


def test_a_bundle_is_split_into_its_certificates(ca: Pair) -> None:
    other = certificates.authority("flotilla", NOW + DAY, DAY)
    assert certificates.split(ca.certificate + b"\n" + other.certificate) == [ca.certificate, other.certificate]
    assert certificates.split(b"") == []
    with pytest.raises(ValueError, match="parsing"):
        certificates.split(b"-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n")


def test_what_else_is_in_a_bundle_reaches_nobody(ca: Pair) -> None:
    revoked = b"-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
    assert certificates.split(b"said\n" + revoked + ca.certificate + revoked) == [ca.certificate]


def test_a_key_is_not_shown(ca: Pair) -> None:
    assert "PRIVATE" not in repr(ca)
