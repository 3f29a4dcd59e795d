"""Certificates that all replicas share in one Secret: the CA, earlier CAs, the serving certificate. Pure.

Clients (API servers, peers of a gateway) must trust a CA before any replica serves a certificate of it, and until the
last replica has stopped serving one. So a new CA passes through three states, each at least `overlap` long. The second
lasts until all known clients have the new CA, or the old serving certificate is about to expire:

    ca.crt             serving certificate by
    old                old
    new, old           old      clients learn of the new CA
    new, old           new      replicas take the new certificate
    new                new
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from cryptography.exceptions import UnsupportedAlgorithm

from agent.base import certificates
from agent.base.certificates import Pair

CA_CERTIFICATE = "ca.crt"
CA_KEY = "ca.key"
CERTIFICATE = "tls.crt"
KEY = "tls.key"
FIELDS = (CA_CERTIFICATE, CA_KEY, CERTIFICATE, KEY)

_EARLIER = 2
"""Number of CAs that stay trusted after their Secret was lost."""

Issue = Callable[[Pair, Sequence[str], datetime, timedelta], Pair]
"""Function that issues a certificate of a CA for names, such as `certificates.issue`."""


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """Lifetimes of certificates, and the function that issues them."""

    ca: timedelta = timedelta(days=5 * 365)
    certificate: timedelta = timedelta(days=90)
    overlap: timedelta = timedelta(minutes=10)
    issue: Issue = field(default=certificates.issue, kw_only=True)


@dataclass(frozen=True, slots=True)
class Bundle:
    """The content of the Secret."""

    ca: Pair
    serving: Pair
    earlier: tuple[bytes, ...] = ()  #: certificates (PEM) of earlier CAs that are still trusted

    @property
    def trusted(self) -> bytes:
        """Certificates that clients trust: the current CA, then earlier ones (PEM)."""
        return b"".join((self.ca.certificate, *self.earlier))

    def data(self) -> dict[str, bytes]:
        """Return the fields of the Secret."""
        return {
            CA_CERTIFICATE: self.trusted,
            CA_KEY: self.ca.key,
            CERTIFICATE: self.serving.certificate,
            KEY: self.serving.key,
        }


def parse(data: Mapping[str, bytes]) -> Bundle:
    """Parse the fields of a Secret.

    :raises ValueError: if a field is missing or wrong; the message contains no key
    """
    missing = [name for name in FIELDS if not data.get(name)]
    if missing:
        raise ValueError(f"{', '.join(missing)} missing")
    try:
        trusted = certificates.split(data[CA_CERTIFICATE])
    except ValueError as error:
        raise ValueError(f"{CA_CERTIFICATE} is not a list of PEM certificates") from error
    if not trusted:
        raise ValueError(f"{CA_CERTIFICATE} holds no certificate")
    ca = _pair(CA_KEY, trusted[0], data[CA_KEY])
    serving = _pair(KEY, data[CERTIFICATE], data[KEY])
    if not any(certificates.signed_by(serving.certificate, one) for one in trusted):
        raise ValueError(f"{CERTIFICATE} is signed by none of the CAs of {CA_CERTIFICATE}")
    return Bundle(ca, serving, tuple(trusted[1:]))


def new(name: str, names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Bundle:
    """Create the first bundle: a CA, and a certificate for these DNS names and IP addresses."""
    ca = certificates.authority(name, now, lifetimes.ca)
    return Bundle(ca, lifetimes.issue(ca, names, now, lifetimes.certificate))


def trusting(bundle: Bundle, told: bytes, now: datetime) -> Bundle:
    """Return a bundle that also trusts CAs whose keys were lost, because replicas still serve their certificates.

    :param told: certificates of these CAs (PEM); expired ones are ignored, and all of them if the text is invalid
    """
    try:
        found = certificates.split(told)
        earlier = [each for each in found if certificates.expiry(each) > now and each != bundle.ca.certificate]
    except ValueError:
        return bundle
    return replace(bundle, earlier=(*earlier[:_EARLIER], *bundle.earlier))


def with_new_ca(bundle: Bundle, name: str, now: datetime, lifetimes: Lifetimes) -> Bundle:
    """Return a bundle with a new CA and the same serving certificate: clients must trust the CA first."""
    ca = certificates.authority(name, now, lifetimes.ca)
    return replace(bundle, ca=ca, earlier=(bundle.ca.certificate, *bundle.earlier))


def advance(
    bundle: Bundle,
    name: str,
    names: Sequence[str],
    now: datetime,
    lifetimes: Lifetimes,
    is_awaited: Callable[[bytes], bool] = lambda trusted: False,
) -> Bundle:
    """Return the bundle as it should be now; the given one if nothing is due.

    :param is_awaited: returns True while clients are known to lack some of these CA certificates (PEM)
    """
    if certificates.needs_renewal(bundle.ca.certificate, now):
        bundle = with_new_ca(bundle, name, now, lifetimes)
    if _due(bundle, names, now, lifetimes, is_awaited):
        bundle = replace(bundle, serving=_reissue(bundle, names, now, lifetimes))
    if bundle.earlier:
        bundle = replace(bundle, earlier=_still_trusted(bundle, now, lifetimes))
    return bundle


def is_held(bundle: Bundle, now: datetime, lifetimes: Lifetimes) -> bool:
    """Return True if only clients that lack the new CA delay a serving certificate of it."""
    known_since = certificates.made_at(bundle.ca.certificate)
    old = not certificates.signed_by(bundle.serving.certificate, bundle.ca.certificate)
    return old and now >= known_since + lifetimes.overlap


def _due(
    bundle: Bundle,
    names: Sequence[str],
    now: datetime,
    lifetimes: Lifetimes,
    is_awaited: Callable[[bytes], bool],
) -> bool:
    serving = bundle.serving.certificate
    if not certificates.names_of(serving).issuperset(names):
        return True
    if certificates.signed_by(serving, bundle.ca.certificate):
        return certificates.needs_renewal(serving, now)
    known_since = certificates.made_at(bundle.ca.certificate)
    # While API servers may not know the new CA, even an old certificate near its end is better than a new one.
    expiry = certificates.expiry(serving)
    if now < min(known_since + lifetimes.overlap, expiry):
        return False
    return now >= expiry - lifetimes.overlap or not is_awaited(bundle.trusted)


def _reissue(bundle: Bundle, names: Sequence[str], now: datetime, lifetimes: Lifetimes) -> Pair:
    had = certificates.names_of(bundle.serving.certificate)
    others = frozenset() if had.issuperset(names) else had.difference(names)
    # Replicas with different addresses share one certificate. If a replica that adds its own names removed those of
    # others, replicas would replace the certificate in turn. A renewal removes them; a replica adds its names again.
    return lifetimes.issue(bundle.ca, (*names, *sorted(others)), now, lifetimes.certificate)


def _still_trusted(bundle: Bundle, now: datetime, lifetimes: Lifetimes) -> tuple[bytes, ...]:
    serving = bundle.serving.certificate
    if certificates.signed_by(serving, bundle.ca.certificate):
        moved_on = now >= certificates.made_at(serving) + lifetimes.overlap
        return () if moved_on else bundle.earlier
    return tuple(one for one in bundle.earlier if certificates.signed_by(serving, one))


def _pair(field: str, certificate: bytes, key: bytes) -> Pair:
    pair = Pair(certificate, key)
    try:
        belongs = certificates.belongs(pair)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"{field} or its certificate cannot be read") from error
    if not belongs:
        raise ValueError(f"{field} is not the key of its certificate")
    return pair
