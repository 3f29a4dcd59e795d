"""Effect of PlacementDecisions on the pods that follow them, and the pods that a change wakes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import msgspec
import pytest

from agent.api import names
from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    PODS,
    Kind,
)
from agent.api.names.ocm import LABEL_GROUP_NAME, LABEL_PLACEMENT
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.clusters.placement_mode import PlacementMode
from agent.clusters.stores.placement_decisions import part_of, placed_by, reference_of
from agent.kube.config import Connection
from agent.kube.store import Key, Object
from agent.ranking.placed import Decided, Placed, Reference
from agent.scheduler.cache import undecided
from agent.scheduler.cache.decisions import NOT_USED, SETTLE_SECONDS, Decisions
from agent.settings import PlacementSetting
from tests.clusters.test_placement_mode import GROUP, Server
from tests.kube.test_session import serving
from tests.waiting import until

LONG, SHORT = names.PREFIX, names.SHORT_PREFIX
WEB: Key = ("shop", "web")
Raw = dict[str, Any]
ALL = {"selectorType": "LabelSelector", "labelSelector": {}}
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def raw(name: str = "web", *, namespace: str = "shop", version: int = 1, status: Raw | None = None, **more: Raw) -> Raw:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": str(version), **more}
    return {"metadata": metadata, "status": status or {}}


def obj(kind: Kind, found: Raw) -> Object:
    return Object(kind, msgspec.json.encode(found))


def pod(name: str = "web", **annotations: str) -> Object:
    """Return a pod; keys are given without the short prefix."""
    return obj(PODS, raw(name, annotations={SHORT + key.replace("_", "-"): each for key, each in annotations.items()}))


def decision(*clusters: str, number: int = 1, group: str = "", version: int = 2, **scores: int) -> Raw:
    """Return a PlacementDecision of the Placement web."""
    found: list[Raw] = [{"clusterName": each, "reason": ""} for each in clusters]
    found += [{"clusterName": each, "score": score} for each, score in scores.items()]
    labels = {LABEL_PLACEMENT: "web", LABEL_GROUP_NAME: group}
    return raw(f"web-decision-{number}", status={"decisions": found}, version=version, labels=labels)


@pytest.mark.parametrize(
    ("own", "of_namespace", "want"),
    [
        ({}, {}, None),
        ({SHORT + "placement": "web"}, {}, Reference("web")),
        ({}, {LONG + "placement": "web"}, Reference("web")),
        ({SHORT + "placement": "web"}, {SHORT + "placement": "other"}, Reference("web")),
        ({SHORT + "placement": "web", LONG + "placement": "long"}, {}, Reference("long")),
        ({SHORT + "placement": ""}, {SHORT + "placement": "web"}, None),
        ({SHORT + "placement": "web", SHORT + "placement-group": "a"}, {}, Reference("web", "a")),
        ({}, {SHORT + "placement": "web", LONG + "placement-group": "a"}, Reference("web", "a")),
        ({SHORT + "placement": "web"}, {SHORT + "placement": "x", SHORT + "placement-group": "a"}, Reference("web")),
        ({SHORT + "placement-group": "b"}, {SHORT + "placement": "web"}, Reference("web", "b")),
        ({SHORT + "placement-group": "b"}, {}, None),
    ],
)
def test_what_a_pod_follows(own: dict[str, str], of_namespace: dict[str, str], want: Reference | None) -> None:
    namespace = obj(NAMESPACES, raw("shop", annotations=of_namespace))
    assert reference_of(obj(PODS, raw(annotations=own)), namespace) == want


def test_a_namespace_that_is_not_known_says_nothing() -> None:
    assert reference_of(pod(), None) is None


@pytest.mark.parametrize(
    ("status", "want"),
    [
        ({}, None),
        ({"decisions": []}, ()),
        ({"decisions": [{"clusterName": "eu", "score": 7}, {"clusterName": "us"}]}, (Decided("eu", 7), Decided("us"))),
        ({"decisions": [{"clusterName": "eu", "score": "many"}, {}]}, (Decided("eu"),)),
        ({"decisions": "eu"}, None),
    ],
    ids=["nobody has decided", "for none", "scores", "odd ones", "nonsense"],
)
def test_what_a_placement_decision_says(status: Raw, want: tuple[Decided, ...] | None) -> None:
    found = part_of(obj(PLACEMENT_DECISIONS, raw(status=status)))
    assert (found.decided if found else None) == want


def judged(*decisions: Raw, group: str = "", condition: Raw | None = None, is_missing: bool = False) -> Placed:
    parts = [part for each in decisions if (part := part_of(obj(PLACEMENT_DECISIONS, each)))]
    placement = None if is_missing else obj(PLACEMENTS, raw(status={"conditions": [condition] if condition else []}))
    return placed_by(Reference("web", group), "shop", parts, placement, is_missing=is_missing)


def test_decisions_of_all_objects_count_together_and_those_of_a_group_alone() -> None:
    parts = (decision(eu=1, us=3), decision(number=2, group="canary", ap=2))
    assert judged(*parts).scores == {"eu": 0.0, "us": 100.0, "ap": 50.0}
    assert judged(*parts, group="canary").scores == {"ap": 50.0}


@pytest.mark.parametrize(
    ("found", "why", "known"),
    [
        (judged(is_missing=True), "there is no such Placement in namespace shop", False),
        (judged(), "it has no decisions yet", False),
        (judged(decision("eu"), group="canary"), "it has no decision group canary", False),
        (judged(decision()), "it has decided for no cluster", True),
        (
            judged(decision(), condition={"type": "PlacementSatisfied", "status": "False", "message": "no set"}),
            "it has decided for no cluster: no set",
            True,
        ),
        (judged(decision("eu")), "", True),
    ],
)
def test_why_there_is_nothing_to_go_by(found: Placed, why: str, known: bool) -> None:
    assert (found.why, found.known) == (why, known)


def listed(*items: Raw) -> Raw:
    return {"metadata": {"resourceVersion": "1"}, "items": list(items)}


@contextlib.asynccontextmanager
async def following(
    mode: PlacementSetting = "consume",
) -> AsyncIterator[tuple[Decisions, PlacementMode, list[set[Key]]]]:
    """Return the decisions of a cluster and the list of woken pods. By default other controllers write the
    decisions."""
    there = listed()
    lists = [f"{GROUP}/v1beta1/{each}" for each in ("placements", "placementdecisions")]
    lists += [f"{GROUP}/v1alpha1/addonplacementscores", f"{GROUP}/v1/managedclusters"]
    lists += [f"{GROUP}/v1beta2/{each}" for each in ("managedclustersets", "managedclustersetbindings")]
    answers: dict[str, Raw | int] = {"/api/v1/namespaces": there}
    answers |= dict.fromkeys(lists, there) if mode != "off" else {}
    async with serving(Server(answers).handle) as address:
        cluster = Cluster(Connection(server=address), "here")
        woken: list[set[Key]] = []

        def wake(keys: Iterable[Key]) -> None:
            woken.append(set(keys))

        try:
            found = PlacementMode(cluster, mode, 3600.0)
            yield Decisions(found, cluster.informer(NAMESPACES), SystemClock(), wake), found, woken
        finally:
            await cluster.close()


async def settle() -> None:
    await asyncio.sleep(2 * SETTLE_SECONDS)


async def test_who_follows_a_placement_is_woken_when_it_decides_anew_and_nobody_else() -> None:
    async with following() as (decisions, mode, woken):
        one, two, other, free = (
            pod("one", placement="web"),
            pod("two", placement="web"),
            pod("other", placement="x"),
            pod("free"),
        )
        watched = mode.watch(PLACEMENT_DECISIONS)
        await until(lambda: decisions.can_tell(one))
        for each in (one, two, other, free):
            decisions.follow(each)
            decisions.of(each)
        await settle()
        woken.clear()
        watched.absorb(msgspec.json.encode(decision("eu")))
        await until(lambda: woken)
        assert woken == [{one.key, two.key}]
        first = decisions.of(one)
        assert first is not None
        assert (first.scores, decisions.of(two), decisions.of(free)) == ({"eu": 50.0}, first, None)
        watched.absorb(msgspec.json.encode(decision("eu", version=3)))
        decisions.forget(two.uid)
        await settle()
        assert (len(woken), decisions.of(one)) == (1, first), "the same once more is no news"
        watched.absorb(msgspec.json.encode(decision("eu", number=2, version=4)))
        watched.absorb(msgspec.json.encode(decision("us", version=5)))
        await until(lambda: len(woken) > 1)
        assert woken[1:] == [{one.key}], "several objects are one decision, and who has a node is not woken"


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undecided, "LOOK_SECONDS", 0.05)


@pytest.mark.usefixtures("soon")
async def test_who_waits_for_a_placement_is_woken_when_it_has_another_reason_and_for_no_figures() -> None:
    async with following("serve") as (decisions, mode, woken):
        one, other = pod("one", placement="web"), pod("other", placement="x")

        def write(kind: Kind, name: str, version: int, **more: Any) -> None:
            namespace = "" if kind in (MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS) else "shop"
            found = {**raw(name, namespace=namespace, version=version), **more}
            mode.watch(kind).absorb(msgspec.json.encode(found))

        async def told(reason: str) -> None:
            await until(lambda: decisions.reasons(WEB).get("eu") == reason)

        await until(lambda: decisions.can_tell(one))
        for each in (one, other):
            decisions.follow(each)
            decisions.of(each)
        spec = {"numberOfClusters": 0}
        write(PLACEMENTS, "web", 2, spec=spec)
        await until(lambda: mode.fleet.known)
        await settle()
        assert decisions.reasons(WEB) == {}
        woken.clear()
        write(MANAGED_CLUSTERS, "eu", 3)
        await until(lambda: woken)
        await told("in no set that is bound to namespace shop (sets: none)")
        assert woken == [{one.key}]
        write(MANAGED_CLUSTER_SETS, "all", 4, spec={"clusterSelector": ALL})
        write(MANAGED_CLUSTER_SET_BINDINGS, "all", 5)
        await until(lambda: len(woken) > 1)
        await told("score 100, not among the best 0")
        steady = [{"scoreCoordinate": {"builtIn": "Balance"}, "weight": 2}]
        write(PLACEMENTS, "web", 6, spec=spec | {"prioritizerPolicy": {"configurations": steady}})
        await told("score 200, not among the best 0")
        assert woken[1:] == [{one.key}], "figures alone are no news"
        decisions.forget(one.uid)
        write(MANAGED_CLUSTERS, "eu", 7, metadata={**raw("eu", namespace="", version=7)["metadata"], **DELETED})
        await settle()
        assert (len(woken), decisions.reasons(WEB)) == (2, {}), "nobody waits any more"


async def test_nothing_is_told_before_decisions_have_been_read() -> None:
    async with following() as (decisions, _, _):
        follower = pod(placement="web")
        assert not decisions.can_tell(follower)
        assert decisions.can_tell(pod())
        unread = decisions.of(follower)
        assert unread is not None
        assert not unread.known
        await until(lambda: decisions.can_tell(follower))
        found = decisions.of(follower)
        assert found is not None
        assert found.why == "there is no such Placement in namespace shop"


async def test_where_no_placements_are_used_followers_are_told_so_at_once() -> None:
    async with following("off") as (decisions, _, _):
        follower = pod(placement="web")
        found = decisions.of(follower)
        assert found is not None
        assert (found.why, found.known, decisions.can_tell(follower)) == (NOT_USED, False, True)
        assert decisions.reasons(WEB) == {}
