"""Which controller evaluates Placements, derived from an API server's answers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from agent.api.kinds import MANAGED_CLUSTERS
from agent.api.names.ocm import OURS
from agent.clusters import placement_mode
from agent.clusters.cluster import Cluster
from agent.clusters.optional_watch import Watched
from agent.clusters.placement_mode import Mode, PlacementMode
from agent.kube.config import Connection
from agent.kube.store import Object
from agent.settings import PlacementSetting
from tests.kube.test_session import serving
from tests.waiting import until

GROUP = "/apis/cluster.open-cluster-management.io"
PLACEMENTS, MANAGERS = f"{GROUP}/v1beta1", "/apis/operator.open-cluster-management.io/v1"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/placements.cluster.open-cluster-management.io"
CLUSTERS = f"{GROUP}/v1/managedclusters"
REVIEW = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def crd(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "placements.cluster.open-cluster-management.io", "labels": labels}}


def kinds(*plurals: str) -> dict[str, Any]:
    return {"kind": "APIResourceList", "resources": [{"name": plural} for plural in plurals]}


class Server:
    """Responses by path; numbers are HTTP statuses."""

    def __init__(self, answers: dict[str, dict[str, Any] | int]) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.ends = asyncio.Event()
        """Ends the watches."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            await self.ends.wait()
        self.asked.append(request.path)
        answer = self.answers.get(request.path, 404)
        if request.path == REVIEW:
            about = (await request.json())["spec"]["resourceAttributes"]["resource"]
            answer = self.answers.get(f"{REVIEW}/{about}", answer)
        return web.json_response({}, status=answer) if isinstance(answer, int) else web.json_response(answer)


@contextlib.asynccontextmanager
async def looking(
    answers: dict[str, dict[str, Any] | int], setting: PlacementSetting = "auto", interval: float = 3600
) -> AsyncIterator[tuple[PlacementMode, Server]]:
    server = Server(answers)
    async with serving(server.handle) as address:
        cluster = Cluster(Connection(server=address), "here")
        try:
            yield PlacementMode(cluster, setting, interval), server
        finally:
            await cluster.close()


def may(*, evaluate: bool) -> dict[str, Any]:
    return {"status": {"allowed": evaluate}}


OURS_THERE: dict[str, dict[str, Any] | int] = {
    PLACEMENTS: kinds("placements", "placementdecisions"),
    REVIEW: may(evaluate=True),
}


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param({}, "off", id="the group is not served"),
        pytest.param({PLACEMENTS: kinds("clusterclaims")}, "off", id="the group is served without Placements"),
        pytest.param(OURS_THERE | {CRD: crd(**{OURS: "true"})}, "serve", id="the CRD is ours"),
        pytest.param(OURS_THERE | {CRD: crd()}, "consume", id="the CRD is somebody else's"),
        pytest.param(
            OURS_THERE | {CRD: crd(**{OURS: "true"}), MANAGERS: kinds("clustermanagers")},
            "consume",
            id="the CRD is ours, and Open Cluster Management is installed",
        ),
        pytest.param(
            OURS_THERE | {CRD: crd(**{OURS: "true"}), MANAGERS: kinds("klusterlets")},
            "serve",
            id="the CRD is ours, and this is a managed cluster of another hub",
        ),
        pytest.param(
            OURS_THERE | {CRD: crd(**{OURS: "true"}), REVIEW: may(evaluate=False)},
            "consume",
            id="the CRD is ours, and the agent may not evaluate",
        ),
        pytest.param(
            OURS_THERE | {CRD: crd(**{OURS: "true"}), f"{REVIEW}/managedclusters": may(evaluate=False)},
            "consume",
            id="the CRD is ours, and the agent may evaluate but keep no ManagedClusters",
        ),
        pytest.param(OURS_THERE | {CRD: 403}, "consume", id="whose the CRD is may not be read"),
        pytest.param(OURS_THERE, "off", id="the CRD goes while it is looked for"),
    ],
)
async def test_the_owner_of_the_crd_decides(answers: dict[str, dict[str, Any] | int], want: Mode) -> None:
    async with looking(answers) as (found, _):
        await until(lambda: found.mode == want)
        assert found.active == (want != "off")


async def test_it_serves_as_soon_as_it_may_and_says_what_to_set_until_then(caplog: pytest.LogCaptureFixture) -> None:
    answers = OURS_THERE | {CRD: crd(**{OURS: "true"}), REVIEW: may(evaluate=False)}
    async with looking(answers, interval=0.05) as (found, server):
        await until(lambda: server.asked.count(REVIEW) > 1)
        assert found.mode == "consume"
        (told,) = (each.message for each in caplog.records if each.levelname == "WARNING")
        assert told.endswith("set agent.placement.crds=true or agent.placement.mode=serve")
        server.answers |= {REVIEW: may(evaluate=True)}
        await until(lambda: found.mode == "serve")


@pytest.mark.parametrize("setting", ["consume", "serve", "off"])
async def test_a_setting_decides_without_a_request(setting: PlacementSetting) -> None:
    async with looking(OURS_THERE | {CRD: crd()}, setting) as (found, server):
        assert found.mode == setting
        await asyncio.sleep(0)
        assert server.asked == []


async def test_where_there_are_no_placements_one_request_says_so_and_nothing_is_watched() -> None:
    async with looking({}) as (found, server):
        clusters = found.watch(MANAGED_CLUSTERS)
        await until(lambda: found.mode == "off")
        assert server.asked == [PLACEMENTS]
        assert clusters.store is None


async def test_an_api_server_that_fails_is_asked_again_and_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_mode, "_NO_ANSWER_SECONDS", 0.05)
    async with looking({PLACEMENTS: 500}) as (found, server):
        await until(lambda: len(server.asked) > 1)
        assert found.mode is None
        server.answers = {}
        await until(lambda: found.mode == "off")


async def test_what_is_installed_later_is_found_and_watched_and_what_goes_is_not_believed() -> None:
    listed = {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "eu", "resourceVersion": "1"}}]}
    seen: list[str] = []
    turns: list[Mode | None] = []

    def changed(old: Object | None, new: Object | None) -> None:
        seen.extend([new.name] if new is not None else [])

    def names(watched: Watched) -> list[str] | None:
        return [obj.name for obj in watched.store] if watched.store is not None else None

    async with looking({CLUSTERS: listed}, interval=0.05) as (found, server):
        clusters = found.watch(MANAGED_CLUSTERS)
        clusters.subscribe(changed, lambda: None)
        found.on_turn(lambda: turns.append(found.mode))
        await until(lambda: found.mode == "off")
        server.answers |= OURS_THERE | {CRD: crd(**{OURS: "true"})}
        await until(lambda: names(clusters) == ["eu"])
        assert seen == ["eu"]
        found.watch(MANAGED_CLUSTERS).subscribe(changed, lambda: None)
        assert seen == ["eu", "eu"], "who comes late is told, too"
        server.answers.pop(PLACEMENTS)
        await until(lambda: found.mode == "off")
        assert clusters.store is None
        assert turns == ["off", "serve", "off"]


async def test_definitions_that_are_deleted_are_missed_at_once() -> None:
    listed = {"metadata": {"resourceVersion": "1"}, "items": []}
    async with looking(OURS_THERE | {CRD: crd(**{OURS: "true"}), CLUSTERS: listed}) as (found, server):
        clusters = found.watch(MANAGED_CLUSTERS)
        await until(lambda: clusters.store is not None)
        server.answers = {}
        server.ends.set()
        await until(lambda: found.mode == "off")
        assert clusters.store is None
