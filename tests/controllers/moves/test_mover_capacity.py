"""The mover's view of target capacity: decoded once per revision of the summary, and published without live usage."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from agent.api import names
from agent.api.kinds import NODES, PODS, TARGETS
from agent.moves.mover.actions import FIGURES_SECONDS
from agent.moves.mover.capacity import Packing, room
from agent.moves.mover.controller import Mover
from agent.moves.mover.view import Pod, Tell
from agent.ranking.node_fit import NodeFit
from agent.ranking.snapshot import Free, PodTemplate, Shape, TargetInfo
from tests.controllers.offline import Offline, offline

CORE = 10**9
WANTED = PodTemplate("default", {}, {}, {"cpu": 4 * CORE})
US = names.virtual_node("shop", "us")


def packing(name: str, free: int) -> Packing:
    shape = Shape({}, (), False, {"cpu": 9 * CORE}, 1, (Free({"cpu": free * CORE}, 1),))
    node: dict[str, Any] = {"metadata": {"name": name}, "spec": {}}
    return Packing(node, NodeFit(TargetInfo(name, name, "", True, "", {}, (), False, {}, shapes=(shape,))))


def test_one_core_more_in_one_of_many_targets_is_no_other_reason() -> None:
    few = [packing(f"target-{number}", 2) for number in range(100)]
    said = room(WANTED, few)
    assert said == "100 targets: insufficient cpu on every node"
    assert room(WANTED, [*few[:-1], packing("target-99", 3)]) == said
    mixed = [*few, *(packing(f"other-{number}", 0).copy({"cpu": number}) for number in range(1, 100))]
    assert len(room(WANTED, mixed)) < 1200


def test_a_target_is_judged_by_what_a_copy_has_found_out_until_pods_are_put_into_it() -> None:
    told = packing("us", 4)
    taken = told.copy()
    assert taken.take(WANTED)
    assert room(WANTED, [taken]) != ""
    assert room(WANTED, [told.copy()]) == ""
    assert room(WANTED, [told.copy({"cpu": 6 * CORE}, {"cpu": 3 * CORE})]) == "us: limit cpu of the target reached"
    assert room(WANTED, [told.copy({"cpu": 7 * CORE}, {"cpu": 3 * CORE})]) == ""


def test_figures_alone_are_written_again_only_after_a_while() -> None:
    pod = Pod("web-0", "u", told="NoRoom: there is room for 2 of the 3 pods")
    told = Tell(pod, "NoRoom", "there is room for 1 of the 3 pods")
    assert told.news
    assert told.has_other_figures
    assert not replace(told, message="no other target").has_other_figures
    assert FIGURES_SECONDS >= 30


async def test_virtual_nodes_and_summaries_are_decoded_once_for_each_revision() -> None:
    async with offline(Mover, moves=True) as (here, mover):
        groups = mover._gather._groups
        target = cast("Any", SimpleNamespace(node_name=US, key=("shop", "us"), summary=None))
        put_node(here, "4")
        first, second = groups.packings([target, target])
        assert first._refusals is second._refusals
        assert room(WANTED, [first]) == ""
        put_node(here, "1")
        (third,) = groups.packings([target])
        assert room(WANTED, [third]) == f"{US}: not enough cpu"


async def test_requests_under_limits_are_counted_by_events() -> None:
    async with offline(Mover, moves=True) as (here, _):
        held = here.deps.held_requests
        for number in range(3):
            put_pod(here, f"web-{number}", US)
        put_pod(here, "elsewhere", "another")
        put_target(here, limits={"cpu": "9"})
        await held.count()
        assert held.limits(US) == {"cpu": 9 * CORE}
        assert held.of(US)["cpu"] == 3 * CORE
        put_pod(here, "web-0", US, phase="Succeeded")
        put_pod(here, "web-3", US)
        put_pod(here, "elsewhere", US)
        here.delete(here.deps.proxies.informer, "web-1", "shop")
        assert held.of(US)["cpu"] == 3 * CORE
        put_target(here)
        assert not held.limits(US)
        assert not held.of(US)
        put_pod(here, "web-2", US)
        put_target(here, limits={"cpu": "9"})
        await held.count()
        assert held.of(US)["cpu"] == 3 * CORE


def put_node(here: Offline, cpu: str) -> None:
    free = {names.ANNOTATION_FREE: msgspec.json.encode({"cpu": cpu}).decode()}
    labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
    informer = here.deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
    here.put(informer, NODES, US, metadata={"annotations": free, "labels": labels}, spec={})


def put_target(here: Offline, **spec: Any) -> None:
    here.put(here.deps.local.informer(TARGETS), TARGETS, "us", "shop", spec=spec)


def put_pod(here: Offline, name: str, node: str, phase: str = "Running") -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    here.put(
        here.deps.proxies.informer,
        PODS,
        name,
        "shop",
        metadata={"creationTimestamp": "2026-11-30T12:00:00Z"},
        spec={"nodeName": node, "containers": containers},
        status={"phase": phase},
    )
