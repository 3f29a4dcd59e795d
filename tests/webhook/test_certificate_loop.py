"""Certificate and registration on a real API server: shared, repaired, renewed."""

import asyncio
import base64
import ssl

import aiohttp
import pytest

from agent.api.kinds import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS
from agent.base import certificates
from agent.kube.errors import NotFound
from tests.waiting import until
from tests.webhook.replica import CONFIGURATIONS, Place, Raw, elected
from webhook.app import Webhook

pytestmark = pytest.mark.cluster

SECRET = "multicluster-scheduler-webhook-cert"


async def serves(webhook: Webhook, ca: bytes) -> bool:
    """Return whether the server answers a caller that trusts only this CA."""
    context = ssl.create_default_context(cadata=ca.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        try:
            async with session.post(f"https://{webhook.settings.bind}/mutate--v1-pod", data=b"") as response:
                return response.status == 400
        except aiohttp.ClientConnectorCertificateError:
            return False


async def test_two_replicas_that_start_at_once_share_one_ca(place: Place) -> None:
    async with place.replica(ready=False) as one, place.replica(ready=False) as other:
        await until(lambda: place.is_ready(one), what="one ready")
        await until(lambda: place.is_ready(other), what="the other ready")
        shared = await place.secret()
        assert len(certificates.split(shared["ca.crt"])) == 1
        assert await place.trusted() == shared["ca.crt"]
        assert await serves(one, shared["ca.crt"])
        assert await serves(other, shared["ca.crt"])
        await until(place.mutates, what="API server calls one of them")


async def test_replicas_that_agree_write_no_more(place: Place) -> None:
    async with place.replica("--check-interval=0.05s") as one, place.replica("--check-interval=0.05s") as other:
        for _ in range(2):
            await asyncio.gather(one.certificate_loop.check(), other.certificate_loop.check())
        before = await versions(place)
        await asyncio.gather(*(webhook.certificate_loop.check() for webhook in (one, other) for _ in range(10)))
        assert await versions(place) == before


async def versions(place: Place) -> tuple[str, str]:
    secret = await place.client.get(SECRETS, SECRET, place.namespace)
    return secret["metadata"]["resourceVersion"], (await place.configuration())["metadata"]["resourceVersion"]


async def test_a_replica_that_starts_again_keeps_the_ca(place: Place) -> None:
    async with place.replica() as webhook:
        port = webhook.server.port
        before = await place.secret()
    async with place.replica(port=port):
        assert await place.secret() == before
        assert await place.trusted() == before["ca.crt"]


async def test_a_deleted_secret_brings_a_new_ca_without_interruption(place: Place) -> None:
    async with place.replica("--overlap=1s", "--check-interval=0.2s"):
        old = await place.secret()
        await place.client.delete(SECRETS, SECRET, place.namespace)

        async def moved_on() -> bool:
            await place.create(elected("probe"), dry_run=True)
            now = await place.secret()
            return bool(now) and now["tls.crt"] != old["tls.crt"] and old["ca.crt"] not in now["ca.crt"]

        await until(moved_on, what="the new CA alone")
        new = await place.secret()
        assert len(certificates.split(new["ca.crt"])) == 1

        async def trusted() -> bool:
            return await place.trusted() == new["ca.crt"]

        await until(trusted, what="the new CA trusted alone")
        await place.create(elected("probe"), dry_run=True)


async def test_a_deleted_secret_keeps_the_old_ca_trusted_for_a_while(place: Place) -> None:
    async with place.replica() as webhook:
        old = await place.secret()
        await place.client.delete(SECRETS, SECRET, place.namespace)

        async def back() -> bool:
            return bool(await place.secret()) and await place.trusted() == (await place.secret())["ca.crt"]

        await until(back, what="a Secret and trust in it")
        new = await place.secret()
        assert certificates.split(new["ca.crt"])[1:] == [old["ca.crt"]]
        assert (new["tls.crt"], new["ca.key"] == old["ca.key"]) == (old["tls.crt"], False)
        assert await serves(webhook, old["ca.crt"])


@pytest.mark.parametrize("field", ["ca.key", "tls.crt"])
async def test_a_damaged_secret_is_repaired(place: Place, field: str) -> None:
    async with place.replica():
        good = await place.secret()
        damage = {"data": {field: base64.b64encode(b"nonsense").decode()}}
        await place.client.patch(SECRETS, SECRET, damage, place.namespace)

        async def repaired() -> bool:
            return await place.secret() == good

        await until(repaired, what="the Secret as it was")


async def test_a_secret_with_other_data_is_left_alone_and_reported(place: Place) -> None:
    data = {"password": base64.b64encode(b"theirs").decode()}
    theirs = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "data": data}
    made = await place.client.create(SECRETS, theirs, place.namespace)
    async with place.replica(ready=False) as webhook:

        async def reported() -> bool:
            return "also holds password" in (webhook.certificate_loop.certificate_problem() or "")

        await until(reported, what="the report")
        problem = webhook.certificate_loop.certificate_problem() or ""
        assert "delete it and run helm upgrade, which creates an empty one" in problem
        assert "or name another with --tuning=certificate-secret" in problem
        assert not await place.is_ready(webhook)
    assert await place.client.get(SECRETS, SECRET, place.namespace) == made


async def test_an_empty_secret_is_filled(place: Place) -> None:
    empty = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}}
    await place.client.create(SECRETS, empty, place.namespace)
    async with place.replica():
        assert set(await place.secret()) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


async def test_a_changed_ca_bundle_is_repaired(place: Place) -> None:
    async with place.replica():
        good = await place.trusted()
        stranger = certificates.authority("stranger", certificates.made_at(good), certificates.BACKDATE)
        for kind, found in ((MUTATING_WEBHOOKS, place.configuration), (VALIDATING_WEBHOOKS, place.validation)):
            webhooks = (await found())["webhooks"]
            for webhook in webhooks:
                webhook["clientConfig"]["caBundle"] = base64.b64encode(stranger.certificate).decode()
                webhook["timeoutSeconds"] = 3
            await place.client.patch(kind, place.namespace, {"webhooks": webhooks})

        async def repaired() -> bool:
            return await place.trusted() == good

        await until(repaired, what="trust as it was")
        assert (await place.configuration())["webhooks"][0]["timeoutSeconds"] == 3


async def test_a_deleted_configuration_is_made_again(place: Place) -> None:
    async with place.replica():
        old = [await place.configuration(), await place.validation()]
        for kind in CONFIGURATIONS:
            await place.client.delete(kind, place.namespace)
        await until(place.mutates, what="API server calls the webhook again")
        await until(place.has_validation, what="the validating configuration is back")
        new = [await place.configuration(), await place.validation()]
    for before, after in zip(old, new, strict=True):
        assert after["webhooks"] == before["webhooks"]
        assert after["metadata"]["uid"] != before["metadata"]["uid"]


async def test_a_start_brings_an_old_configuration_up_to_date(place: Place) -> None:
    async with place.replica():
        pass
    want = await place.configuration()
    first = want["webhooks"][0]
    changed = first | {"matchConditions": [], "timeoutSeconds": 3, "clientConfig": {"url": "https://127.0.0.1:1/x"}}
    # One entry, as Admiralty and Flotilla had before namespaces were elected by default.
    await place.client.patch(MUTATING_WEBHOOKS, place.namespace, {"webhooks": [changed]})
    async with place.replica():
        found = await place.configuration()
    assert [without_address(each) for each in found["webhooks"]] == [without_address(each) for each in want["webhooks"]]


def without_address(webhook: Raw) -> Raw:
    return webhook | {"clientConfig": {}}


async def test_a_certificate_near_its_end_is_renewed_under_the_same_ca(place: Place) -> None:
    async with place.replica("--certificate-lifetime=6s", "--check-interval=0.2s"):
        old = await place.secret()

        async def renewed() -> bool:
            await place.create(elected("probe"), dry_run=True)
            return (await place.secret())["tls.crt"] != old["tls.crt"]

        await until(renewed, what="a new certificate")
        assert (await place.secret())["ca.crt"] == old["ca.crt"]
        await place.create(elected("probe"), dry_run=True)


async def test_without_the_task_to_register_a_validating_configuration_may_be_missing(place: Place) -> None:
    async with place.replica() as webhook:
        port = webhook.server.port
    await place.client.delete(VALIDATING_WEBHOOKS, place.namespace)
    async with place.replica("--register=false", port=port):
        assert await place.mutates()
    with pytest.raises(NotFound):
        await place.validation()


async def test_without_the_task_to_register_a_missing_configuration_is_reported(place: Place) -> None:
    async with place.replica("--register=false", ready=False) as webhook:

        async def reported() -> bool:
            return "start with --register" in (webhook.certificate_loop.registration_problem() or "")

        await until(reported, what="the report")
