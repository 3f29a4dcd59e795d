import asyncio
import contextlib
import datetime
import ssl
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from agent.base import certificates
from agent.base.certificates import Pair
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.config import Connection
from agent.kube.session import Session
from agent.model import _yaml
from tests.waiting import until
from tests.webhook.reviews import patch_of, pod, review
from tests.webhook.test_targets import target
from webhook.handlers import application
from webhook.placements import SetGuard
from webhook.server import Server, Tls
from webhook.targets import Targets
from webhook.validator import Validator
from webhook.works import WorkGuard

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)
LIMIT = 100_000


@dataclass
class Running:
    """Server on loopback and the CA that its callers trust."""

    app: web.Application
    server: Server
    tls: Tls
    targets: Targets
    ca: Pair

    def url(self, path: str = "/mutate--v1-pod") -> str:
        return f"https://127.0.0.1:{self.server.port}{path}"


def trusting(ca: Pair) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=ca.certificate.decode())


@contextlib.asynccontextmanager
async def serving(limit: int = LIMIT) -> AsyncIterator[Running]:
    """Run a webhook in this process with one target; `limit` is the longest body in bytes."""
    ca = certificates.authority("test", NOW, DAY)
    tls = Tls()
    tls.load(certificates.issue(ca, ["127.0.0.1"], NOW, DAY))
    async with Session(Connection("http://127.0.0.1:1")) as session:
        targets = Targets(Client(session))
        for informer in targets.informers:
            informer.synced.set()
        targets.informers[0].store.put(target("c2", "default"))
        client = Client(session)
        app = application(targets, Validator(client), SetGuard(client), WorkGuard(client), limit)
        server = Server(app, tls, "127.0.0.1", 0)
        await server.start()
        try:
            yield Running(app, server, tls, targets, ca)
        finally:
            await server.stop()


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async with serving() as running:
        yield running


@pytest.fixture
async def http(running: Running) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(running.ca))) as session:
        yield session


def count(outcome: str) -> float:
    return REGISTRY.get_sample_value("flotilla_webhook_requests_total", {"outcome": outcome}) or 0.0


@pytest.mark.parametrize("path", ["/mutate--v1-pod", "/mutate-v1-pod"])
async def test_an_elected_pod_is_patched_over_tls(running: Running, http: aiohttp.ClientSession, path: str) -> None:
    before = count("mutated")
    async with http.post(running.url(path), json=review(pod())) as response:
        assert response.status == 200
        assert response.content_type == "application/json"
        answered = await response.json()
    assert {"op": "add", "path": "/metadata/finalizers", "value": ["multicluster.admiralty.io/default-c2"]} in patch_of(
        answered
    )
    assert count("mutated") == before + 1


async def test_while_a_long_document_is_read_others_are_answered(
    running: Running, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()

    def load(text: str, limit: int) -> None:
        begun.set()
        assert go.wait(30)

    monkeypatch.setattr(_yaml, "load", load)
    long = pod(proxy_pod_scheduling_constraints=f"a: {'b' * 5000}")

    async def ask(obj: dict[str, Any]) -> dict[str, Any]:
        async with http.post(running.url(), json=review(obj)) as response:
            answered: dict[str, Any] = await response.json()
            return answered["response"]  # type: ignore[no-any-return]

    asked = asyncio.create_task(ask(long))
    try:
        await until(begun.is_set)
        assert (await ask(pod()))["allowed"]
        assert not asked.done()
    finally:
        go.set()
    assert (await asked)["allowed"]


async def test_the_path_decides_whether_a_pod_has_to_ask(running: Running, http: aiohttp.ClientSession) -> None:
    for path, patches in (("/mutate--v1-pod", False), ("/mutate-by-default--v1-pod", True)):
        async with http.post(running.url(path), json=review(pod(elected=False))) as response:
            assert ("patch" in (await response.json())["response"]) is patches


async def test_our_own_kinds_are_validated_although_targets_are_not_known_yet(
    running: Running, http: aiohttp.ClientSession
) -> None:
    running.targets.informers[0].synced.clear()
    before = count("valid")
    source = {"apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "Source", "spec": {"userName": "cd"}}
    path = "/validate-multicluster-admiralty-io-v1alpha1"
    async with http.post(running.url(path), json=review(source | {"metadata": {"name": "cd"}})) as response:
        assert (await response.json())["response"] == {"uid": "705ab4f5", "allowed": True}
    assert count("valid") == before + 1


async def test_a_malformed_review_gets_400_and_the_reason(running: Running, http: aiohttp.ClientSession) -> None:
    before = count("malformed")
    async with http.post(running.url(), data=b"nonsense") as response:
        assert response.status == 400
        assert "not JSON" in await response.text()
    assert count("malformed") == before + 1


async def test_a_body_beyond_the_limit_gets_413(running: Running, http: aiohttp.ClientSession) -> None:
    async with http.post(running.url(), data=b" " * (LIMIT + 1)) as response:
        assert response.status == 413


async def test_nothing_but_reviews_is_served(running: Running, http: aiohttp.ClientSession) -> None:
    async with http.get(running.url()) as response:
        assert response.status == 405
    async with http.post(running.url("/"), json={}) as response:
        assert response.status == 404


async def test_before_the_targets_are_known_callers_are_asked_to_come_back(
    running: Running, http: aiohttp.ClientSession
) -> None:
    running.targets.informers[1].synced.clear()
    async with http.post(running.url(), json=review(pod())) as response:
        assert response.status == 503
        assert "try again" in await response.text()


async def test_a_refusal_is_an_answer_and_is_counted(running: Running, http: aiohttp.ClientSession) -> None:
    before = count("refused")
    async with http.post(running.url(), json=review(pod(no_prefix_label_regexp="("))) as response:
        assert response.status == 200
        assert (await response.json())["response"]["allowed"] is False
    assert count("refused") == before + 1


async def test_a_new_certificate_is_served_while_old_connections_go_on(
    running: Running, http: aiohttp.ClientSession
) -> None:
    async with http.post(running.url(), json=review(pod())) as response:
        assert response.status == 200
    successor = certificates.authority("test", NOW - DAY / 2, DAY)
    fresh = certificates.issue(successor, ["127.0.0.1"], NOW, DAY)
    assert running.tls.load(fresh)
    assert not running.tls.load(fresh)
    async with http.post(running.url(), json=review(pod())) as response:
        assert response.status == 200
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(successor))) as newcomer,
        newcomer.post(running.url(), json=review(pod())) as response,
    ):
        assert response.status == 200
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(running.ca))) as stranger:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await stranger.post(running.url(), json=review(pod()))


async def test_with_a_client_ca_only_its_clients_are_served(running: Running, tmp_path: Path) -> None:
    clients = certificates.authority("clients", NOW, DAY)
    (tmp_path / "ca.crt").write_bytes(clients.certificate)
    tls = Tls(str(tmp_path / "ca.crt"))
    tls.load(certificates.issue(running.ca, ["127.0.0.1"], NOW, DAY))
    # An aiohttp application belongs to one server.
    app = web.Application()
    server = Server(app, tls, "127.0.0.1", 0)
    await server.start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting(running.ca))) as stranger:
            with pytest.raises(aiohttp.ClientError):
                await stranger.post(f"https://127.0.0.1:{server.port}/mutate--v1-pod", json=review(pod()))
    finally:
        await server.stop()


async def test_a_key_of_another_certificate_is_not_loaded(running: Running) -> None:
    one, other = (certificates.issue(running.ca, ["127.0.0.1"], NOW, DAY) for _ in range(2))
    loaded = running.tls.loaded
    with pytest.raises(ssl.SSLError):
        running.tls.load(Pair(one.certificate, other.key))
    assert running.tls.loaded == loaded


async def test_a_port_in_use_is_named_with_its_flag(running: Running) -> None:
    with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{running.server.port}: .* \(--bind\)"):
        Server(running.app, running.tls, "127.0.0.1", running.server.port)


async def test_latencies_are_measured(running: Running, http: aiohttp.ClientSession) -> None:
    def seen() -> float:
        return REGISTRY.get_sample_value("flotilla_webhook_seconds_count") or 0.0

    before = seen()
    async with http.post(running.url(), json=review(pod())):
        pass
    assert seen() == before + 1
