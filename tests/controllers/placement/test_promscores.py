"""Scores from a real Prometheus, on a real API server."""

import base64
import contextlib
import datetime
import functools
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from agent.api.conditions import find_condition
from agent.api.kinds import ADDON_PLACEMENT_SCORES, EVENTS, MANAGED_CLUSTERS, NAMESPACES, SECRETS
from agent.base.metrics import REGISTRY
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model import promscore
from agent.placement.prometheus_scores import PrometheusScoresController
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.certificates import Authority
from tests.chart import prometheus
from tests.chart.prometheus import Prometheus
from tests.controllers.starting import running
from tests.namespaces import end
from tests.ocm import object_of
from tests.waiting import until

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]
SETTINGS = {"placement": "consume", "discovery_interval": 0.2}
NAME = "slo"


@dataclass
class Exporter:
    """An exporter that Prometheus scrapes: latencies of clusters."""

    values: dict[str, str] = field(default_factory=dict)
    address: str = ""

    async def page(self, request: web.Request) -> web.Response:
        lines = ["# TYPE latency gauge", *(f'latency{{site="{name}"}} {value}' for name, value in self.values.items())]
        return web.Response(text="\n".join([*lines, ""]))


@contextlib.asynccontextmanager
async def served(app: web.Application, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve an application; yield its HOST:PORT."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def measuring(folder: Path, **values: str) -> AsyncIterator[tuple[Exporter, Prometheus]]:
    """Run a Prometheus that scrapes these latencies every second."""
    exporter = Exporter(values)
    app = web.Application()
    app.router.add_get("/metrics", exporter.page)
    async with served(app) as address, prometheus.running(folder, {"latency": [address]}) as found:
        await until(functools.partial(found.query, "latency"), 60)
        yield exporter, found


@pytest.fixture
async def clusters(client: Client, namespace: str, placement_kinds: None) -> AsyncIterator[tuple[str, str]]:
    """Create two ManagedClusters; yield their names."""
    names = (f"{namespace}-eu", f"{namespace}-us")
    for name in names:
        await managed_cluster(client, name)
    yield names
    for name in names:
        await client.delete(MANAGED_CLUSTERS, name)
        await end(client, name)


async def managed_cluster(client: Client, name: str) -> None:
    """Create a ManagedCluster and its namespace."""
    await client.create(NAMESPACES, object_of(NAMESPACES, name))
    await client.create(MANAGED_CLUSTERS, object_of(MANAGED_CLUSTERS, name, spec={"hubAcceptsClient": True}))


def wanted(url: str, *scores: Raw) -> Raw:
    """Return settings with these scores."""
    given = {
        "name": "latency",
        "resource": NAME,
        "url": url,
        "query": "max by (site) (latency)",
        "clusterLabel": "site",
    }
    document = [{**given, "min": 0, "max": 200, "interval": "1s", **score} for score in scores or ({},)]
    return {**SETTINGS, "prometheus_scores": promscore.read(json.dumps(document))}


async def status(client: Client, cluster: str, name: str = NAME) -> Raw:
    found = await client.get(ADDON_PLACEMENT_SCORES, name, cluster)
    return dict(found.get("status") or {})


def says(client: Client, cluster: str, want: dict[str, int], reason: str = "Updated", name: str = NAME) -> Any:
    """Return a probe for these scores, and for a condition with this reason."""

    async def probe() -> Raw | None:
        found = await status(client, cluster, name)
        told = find_condition(found.get("conditions"), "AddOnPlacementScoreUpdated")
        scores = {each["name"]: each["value"] for each in found.get("scores") or ()}
        return found if scores == want and told is not None and told["reason"] == reason else None

    return probe


def queries(outcome: str, score: str = "slo/latency") -> float:
    labels = {"score": score, "outcome": outcome}
    return REGISTRY.get_sample_value("flotilla_prometheus_score_queries_total", labels) or 0.0


async def test_nothing_is_asked_where_there_are_no_placements(cluster: Cluster, client: Client, tmp_path: Path) -> None:
    before = queries("failed")
    off = wanted("http://127.0.0.1:1") | {"placement": "off"}
    async with running(cluster, PrometheusScoresController, **off) as deps:
        assert not deps.placement.active
        with pytest.raises(NotFound):
            await client.list(MANAGED_CLUSTERS)
        assert queries("failed") == before


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_scores_follow_what_prometheus_says(
    cluster: Cluster, client: Client, clusters: tuple[str, str], tmp_path: Path
) -> None:
    eu, us = clusters
    async with (
        measuring(tmp_path, **{eu: "50", us: "199.5", "stranger": "1"}) as (exporter, found),
        running(cluster, PrometheusScoresController, **wanted(found.url)),
    ):
        await until(says(client, eu, {"latency": -50}))
        assert (await until(says(client, us, {"latency": 99})))["validUntil"]
        exporter.values[eu] = "300"
        await until(says(client, eu, {"latency": 100}))
        # Its series ends, and its score with it.
        del exporter.values[eu]
        await until(says(client, eu, {}, "NoSeries"))
        await until(says(client, us, {"latency": 99}))
        late = f"{eu}-late"
        exporter.values[late] = "100"
        await managed_cluster(client, late)
        await until(says(client, late, {"latency": 0}))
        await client.delete(MANAGED_CLUSTERS, late)
        await client.delete(NAMESPACES, late)
        # Its namespace is deleted while the ManagedCluster exists.
        await client.delete(NAMESPACES, us)
        await until(lambda: told(client, us, "ScoresBlocked"))


async def told(client: Client, name: str, reason: str) -> bool:
    events = await client.list(EVENTS, "default", fields=f"reason={reason}")
    return any(each["involvedObject"]["name"] == name for each in events)


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_what_goes_wrong_is_told_and_disturbs_no_other_score(
    cluster: Cluster, client: Client, clusters: tuple[str, str], tmp_path: Path
) -> None:
    eu, us = clusters
    async with measuring(tmp_path, **{eu: "50", us: "100"}) as (_, found):
        scores = (
            {},
            {"name": "typo", "resource": "typo", "query": "max by (site) ("},
            {"name": "all", "resource": "all", "query": "latency", "clusterLabel": "job"},
            {"name": "none", "resource": "none", "query": "latency", "clusterLabel": "place"},
            {"name": "nowhere", "resource": "nowhere", "url": "http://127.0.0.1:1"},
        )
        failed = queries("failed", "typo/typo")
        async with running(cluster, PrometheusScoresController, **wanted(found.url, *scores)):
            for name, words in (
                ("typo", "Prometheus says bad_data"),
                ("all", "several series have job=latency"),
                ("none", "no series has the label place"),
                ("nowhere", "http://127.0.0.1:1 cannot be reached"),
            ):
                broken = await until(says(client, us, {}, "QueryFailed", name))
                assert words in broken["conditions"][0]["message"]
            await until(says(client, eu, {"latency": -50}))
            await until(lambda: queries("failed", "typo/typo") > failed)
    # Prometheus has stopped: its last scores expire.
    async with running(cluster, PrometheusScoresController, **wanted(found.url)):
        await until(says(client, eu, {}, "QueryFailed"))


@pytest.mark.full("Waits for timeouts of many seconds; faster tests of this folder keep the rule.")
async def test_a_prometheus_of_its_own_authority_asks_for_the_token_of_a_secret(
    cluster: Cluster, client: Client, namespace: str, clusters: tuple[str, str], tmp_path: Path
) -> None:
    eu, us = clusters
    authority = Authority("prometheus", datetime.datetime.now(datetime.UTC))
    async with measuring(tmp_path, **{eu: "50", us: "100"}) as (_, found), guarded(found.url, authority) as address:
        score = {
            "url": f"https://{address}",
            "tokenSecret": {"name": "prometheus", "key": "bearer"},
            "caBundle": authority.pair.certificate.decode(),
        }
        trusted = wanted("", score) | {"namespace": namespace}
        async with running(cluster, PrometheusScoresController, **trusted):
            missing = await until(says(client, eu, {}, "QueryFailed"))
            assert f"Secret {namespace}/prometheus" in missing["conditions"][0]["message"]
            await client.create(
                SECRETS, {"metadata": {"name": "prometheus"}, "stringData": {"bearer": "wrong"}}, namespace
            )

            async def refused() -> bool:
                return "HTTP status 401" in (await status(client, eu))["conditions"][0]["message"]

            await until(refused)
            right = {"data": {"bearer": base64.b64encode(b"right\n").decode()}}
            await client.patch(SECRETS, "prometheus", right, namespace)
            await until(says(client, eu, {"latency": -50}))
            assert "right" not in json.dumps(await client.get(ADDON_PLACEMENT_SCORES, NAME, eu))
        del score["caBundle"]
        async with running(cluster, PrometheusScoresController, **wanted("", score) | {"namespace": namespace}):
            failing = await until(says(client, eu, {}, "QueryFailed"))
            assert "caBundle" in failing["conditions"][0]["message"]


@contextlib.asynccontextmanager
async def guarded(url: str, authority: Authority) -> AsyncIterator[str]:
    """Run a server in front of a Prometheus that rejects requests without the token `right`."""

    async def handle(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Bearer right":
            return web.Response(status=401, text="who are you?")
        async with (
            aiohttp.ClientSession() as session,
            session.post(url + request.path, data=await request.post()) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read(), content_type="application/json")

    app = web.Application()
    app.router.add_post("/api/v1/query", handle)
    pair = authority.serving(["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        file.write(pair.certificate + pair.key)
        file.flush()
        context.load_cert_chain(file.name)
    async with served(app, context) as address:
        yield address
