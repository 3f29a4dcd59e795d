"""ResourceQuotas of a target: readable ones count, unreadable ones are reported on the Target."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.api.kinds import RESOURCE_QUOTAS
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.target import Probing, Target
from agent.kube.config import Connection
from agent.kube.store import Object
from agent.ranking.snapshot import Quota, amounts
from agent.scheduler.cache.quotas import InvalidQuota, QuotaCache, quota, quotas_of
from tests.examples import examples
from tests.kube.test_session import serving
from tests.model.test_summaryflaw import AMOUNTS, VALUES
from tests.waiting import until

LATER = 3600.0


def told(name: str, hard: Any, **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": "1", "uid": name}
    return {"metadata": metadata, "status": {"hard": hard, **status}}


def raw(manifest: Any) -> Object:
    return Object(RESOURCE_QUOTAS, msgspec.json.encode(manifest))


@pytest.mark.parametrize(
    ("hard", "used", "field"),
    [
        ({"cpu": "lots"}, {}, "status.hard[cpu]: 'lots' is not a quantity"),
        ({"cpu": "1"}, {"cpu": "9" * 5000}, "status.used[cpu]"),
        ([1], {"cpu": "1"}, "status.hard"),
        ({"cpu": 1}, {"cpu": {}}, "status.used[cpu]"),
        ({"cpu": 1}, 5, "status.used"),
    ],
)
def test_a_quota_that_cannot_be_read_is_named_with_the_field_and_the_remedy(hard: Any, used: Any, field: str) -> None:
    bad = raw(told("team-a", hard, used=used))
    with pytest.raises(InvalidQuota) as caught:
        quota(bad)
    for part in ("ResourceQuota shop/team-a in the target", field, "correct it there, or delete it"):
        assert part in str(caught.value)
    good = raw(told("team-b", {"pods": "2"}))
    assert quotas_of([bad, good]) == {"shop": (Quota("team-b", amounts({"pods": 2}), {}),)}


async def test_a_target_says_which_quota_does_not_count_until_it_is_mended() -> None:
    quotas = [told("bad", {"cpu": "lots"}), told("good", {"pods": "2"}), told("worse", {"cpu": "9" * 5000})]
    events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def handle(request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("resourcequotas"):
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": []})
        if "watch" not in request.query:
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": quotas})
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(msgspec.json.encode(await events.get()) + b"\n")

    async with serving(handle) as server:
        cluster = Cluster(Connection(server), "far")
        target = Target(("shop", "far"), cluster, SystemClock(), Probing())
        changes: list[str] = []
        target.changed = lambda target: changes.append(target.ignored)
        found = QuotaCache(target, LATER, lambda: None)
        try:
            await until(lambda: [each.name for each in found.read().get("shop", ())] == ["good"])
            assert "shop/bad" in target.ignored
            assert "1 more" in target.ignored
            for name in ("bad", "worse"):
                mended = told(name, {"cpu": "1"})
                mended["metadata"]["resourceVersion"] = "2"
                events.put_nowait({"type": "MODIFIED", "object": mended})
            await until(lambda: not target.ignored)
            assert [each.name for each in found.read()["shop"]] == ["bad", "good", "worse"]
            assert changes[-1] == ""
        finally:
            found.stop()
            await cluster.close()


QUOTAS = st.fixed_dictionaries(
    {"status": st.fixed_dictionaries({}, optional={"hard": AMOUNTS | VALUES, "used": AMOUNTS | VALUES})},
    optional={"spec": st.fixed_dictionaries({}, optional={"scopes": VALUES, "scopeSelector": VALUES})},
)


@settings(max_examples=examples(300), deadline=None)
@given(QUOTAS)
def test_whatever_a_target_says_of_a_quota_is_read_or_refused_with_our_error(told: dict[str, Any]) -> None:
    obj = raw({"metadata": {"name": "q", "namespace": "shop"}, **told})
    try:
        read = quota(obj)
    except InvalidQuota:
        assert quotas_of([obj]) == {}
    else:
        assert quotas_of([obj]) == ({"shop": (read,)} if read is not None else {})
