import datetime
from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID

from agent.base import certificate_bundle as bundles
from agent.base import certificates
from agent.base.certificate_bundle import Bundle, Lifetimes

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)
MINUTE = datetime.timedelta(minutes=1)
LIFETIMES = Lifetimes(ca=300 * DAY, certificate=90 * DAY, overlap=10 * MINUTE)
NAMES = ("hook.system.svc",)


def advance(bundle: Bundle, at: datetime.datetime, *names: str) -> Bundle:
    return bundles.advance(bundle, "test", names or NAMES, at, LIFETIMES)


@pytest.fixture(scope="module")
def fresh() -> Bundle:
    return bundles.new("test", NAMES, NOW, LIFETIMES)


def serves_under_trusted_ca(bundle: Bundle) -> bool:
    trusted = certificates.split(bundle.trusted)
    return any(certificates.signed_by(bundle.serving.certificate, one) for one in trusted)


def test_a_fresh_bundle_survives_the_secret(fresh: Bundle) -> None:
    assert bundles.parse(fresh.data()) == fresh


def test_nothing_changes_while_nothing_is_due(fresh: Bundle) -> None:
    assert advance(fresh, NOW + 50 * DAY) is fresh


def test_the_certificate_is_renewed_under_the_same_ca(fresh: Bundle) -> None:
    renewed = advance(fresh, NOW + 61 * DAY)
    assert renewed.ca == fresh.ca
    assert renewed.serving != fresh.serving
    assert certificates.expiry(renewed.serving.certificate) == NOW + (61 + 90) * DAY
    assert bundles.parse(renewed.data()) == renewed


def test_a_ca_whose_key_is_lost_stays_trusted_while_replicas_may_serve_under_it(fresh: Bundle) -> None:
    at = NOW + DAY
    made = bundles.trusting(bundles.new("test", NAMES, at, LIFETIMES), fresh.trusted, at)
    assert made.earlier == (fresh.ca.certificate,)
    assert bundles.parse(made.data()) == made
    assert advance(made, at + 9 * MINUTE).earlier == made.earlier
    assert advance(made, at + 10 * MINUTE).earlier == ()
    for nonsense in (b"", b"-----BEGIN CERTIFICATE-----x-----END CERTIFICATE-----", made.ca.certificate):
        assert bundles.trusting(replace(made, earlier=()), nonsense, at).earlier == ()
    assert bundles.trusting(replace(made, earlier=()), fresh.trusted, NOW + 301 * DAY).earlier == ()


def test_a_new_ca_is_first_trusted_then_used_and_the_old_one_then_forgotten(fresh: Bundle) -> None:
    start = NOW + 201 * DAY
    serving = replace(fresh, serving=certificates.issue(fresh.ca, NAMES, start - DAY, LIFETIMES.certificate))

    announced = advance(serving, start)
    assert announced.ca != fresh.ca
    assert announced.earlier == (fresh.ca.certificate,)
    assert announced.serving == serving.serving
    assert bundles.parse(announced.data()) == announced
    assert advance(announced, start + 9 * MINUTE) == announced

    used = advance(announced, start + 10 * MINUTE)
    assert certificates.signed_by(used.serving.certificate, announced.ca.certificate)
    assert used.earlier == (fresh.ca.certificate,)
    assert advance(used, start + 19 * MINUTE) == used

    done = advance(used, start + 20 * MINUTE)
    assert done == replace(used, earlier=())


def test_the_earlier_ca_serves_until_clients_have_the_new_one_or_its_certificate_is_about_to_expire(
    fresh: Bundle,
) -> None:
    start = NOW + 201 * DAY
    serving = replace(fresh, serving=certificates.issue(fresh.ca, NAMES, start - DAY, LIFETIMES.certificate))
    announced = advance(serving, start)
    expiry = certificates.expiry(serving.serving.certificate)
    asked = list[bytes]()

    def lacking(trusted: bytes) -> bool:
        asked.append(trusted)
        return True

    for at in (start + 10 * MINUTE, expiry - 11 * MINUTE):
        assert bundles.advance(announced, "test", NAMES, at, LIFETIMES, lacking) == announced
        assert bundles.is_held(announced, at, LIFETIMES)
    assert set(asked) == {announced.trusted}
    used = advance(announced, start + 10 * MINUTE)
    forced = bundles.advance(announced, "test", NAMES, expiry - 10 * MINUTE, LIFETIMES, lacking)
    for each in (used, forced):
        assert certificates.signed_by(each.serving.certificate, announced.ca.certificate)
        assert not bundles.is_held(each, expiry, LIFETIMES)


def test_what_is_served_is_trusted_at_every_step_of_ten_years(fresh: Bundle) -> None:
    bundle, at, known = fresh, NOW, {fresh.ca.certificate}
    while at < NOW + 3650 * DAY:
        at += 20 * DAY
        for wait in (0, 4, 12, 24):
            moved = advance(bundle, at + wait * MINUTE)
            assert serves_under_trusted_ca(moved)
            assert certificates.expiry(moved.serving.certificate) > at + wait * MINUTE
            # An API server with the previous CA accepts the certificate that is served now.
            assert any(
                certificates.signed_by(moved.serving.certificate, one) for one in certificates.split(bundle.trusted)
            )
            known.add(moved.ca.certificate)
            bundle = moved
    assert len(known) > 10


def test_a_bundle_that_expired_while_nobody_ran_is_replaced_at_once(fresh: Bundle) -> None:
    at = NOW + 1000 * DAY
    replaced = advance(fresh, at)
    assert certificates.signed_by(replaced.serving.certificate, replaced.ca.certificate)
    assert certificates.expiry(replaced.serving.certificate) > at


def test_replicas_with_different_names_agree_on_one_certificate(fresh: Bundle) -> None:
    both = advance(fresh, NOW + DAY, "10.0.0.2")
    assert certificates.names_of(both.serving.certificate) == {*NAMES, "10.0.0.2"}
    assert advance(both, NOW + DAY) is both
    assert advance(both, NOW + DAY, "10.0.0.2") is both


def test_names_that_nobody_asks_for_go_at_the_next_renewal(fresh: Bundle) -> None:
    both = advance(fresh, NOW + DAY, "10.0.0.2")
    renewed = advance(both, NOW + 70 * DAY)
    assert certificates.names_of(renewed.serving.certificate) == set(NAMES)


def test_two_new_cas_in_a_row_leave_the_one_that_is_served_trusted(fresh: Bundle) -> None:
    once = bundles.with_new_ca(fresh, "test", NOW + MINUTE, LIFETIMES)
    twice = advance(bundles.with_new_ca(once, "test", NOW + 2 * MINUTE, LIFETIMES), NOW + 2 * MINUTE)
    assert twice.earlier == (fresh.ca.certificate,)
    assert serves_under_trusted_ca(twice)


@pytest.mark.parametrize(
    ("field", "value", "complaint"),
    [
        ("ca.key", b"", "ca.key missing"),
        ("ca.crt", b"nonsense", "ca.crt holds no certificate"),
        (
            "ca.crt",
            b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n",
            "ca.crt is not a list of PEM certificates",
        ),
        ("tls.key", b"nonsense", "tls.key or its certificate cannot be read"),
        ("tls.crt", b"nonsense", "tls.key or its certificate cannot be read"),
    ],
)
def test_damage_is_named(fresh: Bundle, field: str, value: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        bundles.parse({**fresh.data(), field: value})


def test_parts_of_different_bundles_do_not_pass(fresh: Bundle) -> None:
    other = bundles.new("test", NAMES, NOW + MINUTE, LIFETIMES)
    with pytest.raises(ValueError, match=r"tls.key is not the key of its certificate"):
        bundles.parse({**fresh.data(), "tls.key": other.serving.key})
    with pytest.raises(ValueError, match=r"ca.key is not the key of its certificate"):
        bundles.parse({**fresh.data(), "ca.key": other.ca.key})
    with pytest.raises(ValueError, match="signed by none of the CAs"):
        bundles.parse({**fresh.data(), "tls.crt": other.serving.certificate, "tls.key": other.serving.key})


def test_names_may_be_uris_and_the_certificate_one_for_both_ends() -> None:
    names = ("spiffe://0b3d/gateway",)
    lifetimes = replace(LIFETIMES, issue=certificates.issue_identity)
    bundle = bundles.new("test", names, NOW, lifetimes)
    assert certificates.names_of(bundle.serving.certificate) == set(names)
    assert bundles.advance(bundle, "test", names, NOW + 50 * DAY, lifetimes) is bundle
    renewed = bundles.advance(bundle, "test", names, NOW + 61 * DAY, lifetimes)
    assert renewed.serving != bundle.serving
    assert certificates.names_of(renewed.serving.certificate) == set(names)
    usage = x509.load_pem_x509_certificate(renewed.serving.certificate).extensions.get_extension_for_class(
        x509.ExtendedKeyUsage
    )
    assert set(usage.value) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
