"""A certificate that cert-manager maintains: the webhook reads and serves it, and writes nothing."""

import asyncio
import base64
import contextlib
import ipaddress
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from agent.api.kinds import MUTATING_WEBHOOKS, SECRETS
from agent.api.ownroles import WEBHOOK_SECRET
from agent.base import certificates
from agent.base.certificates import Pair
from agent.kube.errors import NotFound
from tests.waiting import until
from tests.webhook.replica import Place, elected
from webhook.app import Webhook
from webhook.configurations import by_url, mutating
from webhook.settings import InvalidSetting, parse

pytestmark = pytest.mark.cluster

DAY = timedelta(days=1)


def test_who_registers_has_a_ca_of_its_own() -> None:
    with pytest.raises(InvalidSetting, match="leave it out with --certificates=given"):
        parse(["--url=https://127.0.0.1:1", "--register", "--certificates=given"], {})


async def put(place: Place, data: Mapping[str, bytes]) -> None:
    """Write the Secret as cert-manager does."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": WEBHOOK_SECRET}, "data": encoded}
    await place.client.patch(SECRETS, WEBHOOK_SECRET, secret, place.namespace, style="apply")


async def trust(place: Place, webhook: Webhook, ca: bytes) -> None:
    """Create the configuration as the chart and the CA injector do."""
    made = mutating(place.namespace, by_url(f"https://{webhook.settings.bind}"), ca)
    await place.client.patch(MUTATING_WEBHOOKS, place.namespace, made, style="apply")


async def test_a_given_certificate_is_served_and_changes_are_taken_up(place: Place) -> None:
    now = datetime.now(UTC)
    async with place.replica("--register=false", "--certificates=given", ready=False) as webhook:
        problem = webhook.certificate_loop.certificate_problem
        await until(lambda: asyncio.sleep(0, "does not exist" in (problem() or "")), what="no Secret: said")
        ca = certificates.authority("test", now, DAY)
        serving = certificates.issue(ca, (webhook.settings.certificate_name,), now, DAY)
        await put(place, {"ca.crt": ca.certificate, "tls.crt": serving.certificate, "tls.key": serving.key})
        registration = webhook.certificate_loop.registration_problem
        await until(lambda: asyncio.sleep(0, "CA injector" in (registration() or "")), what="nobody trusts it: said")
        await trust(place, webhook, ca.certificate)
        await until(place.mutates, what="API server calls the webhook")
        await until(lambda: place.is_ready(webhook), what="ready")
        before = (await place.configuration())["metadata"]["resourceVersion"]

        renewed = own_rsa(webhook.settings.certificate_name, now)
        await put(place, {"ca.crt": renewed.certificate, "tls.crt": renewed.certificate, "tls.key": renewed.key})
        await until(lambda: serves(webhook, renewed.certificate), what="the new certificate is served")
        await webhook.certificate_loop.check()
        assert (await place.configuration())["metadata"]["resourceVersion"] == before


async def test_a_certificate_for_another_name_is_not_served(place: Place) -> None:
    now = datetime.now(UTC)
    ca = certificates.authority("test", now, DAY)
    other = certificates.issue(ca, ("elsewhere.example",), now, DAY)
    await put(place, {"tls.crt": other.certificate, "tls.key": other.key})
    async with place.replica("--register=false", "--certificates=given", ready=False) as webhook:
        problem = webhook.certificate_loop.certificate_problem
        await until(lambda: asyncio.sleep(0, "is for elsewhere.example" in (problem() or "")), what="said whose it is")
        with pytest.raises(NotFound):
            await place.configuration()
        assert (await place.create(elected(), dry_run=True))["spec"]["schedulerName"] == "default-scheduler"


async def serves(webhook: Webhook, ca: bytes) -> bool:
    """Return whether the server answers a caller that trusts only this CA."""
    context = ssl.create_default_context(cadata=ca.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        with contextlib.suppress(aiohttp.ClientConnectorCertificateError):
            async with session.post(f"https://{webhook.settings.bind}/mutate--v1-pod", data=b"") as response:
                return response.status == 400
    return False


def own_rsa(host: str, now: datetime) -> Pair:
    """Return a self-signed certificate with an RSA key, as cert-manager's defaults create it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + DAY)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pair(made.public_bytes(pem), private)
