"""Lanes of controllers: a silent target or a busy namespace leaves workers for all others."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.applications.controller import P2CodeController
from agent.dependencies.follow import FollowController
from agent.dependencies.follow.needs import Item
from agent.dependencies.rules import NetworkPolicyController
from agent.pods.live_changes.controller import LiveChanges
from agent.runtime.controller import Controller
from agent.runtime.workqueue import WorkQueue
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from agent.services.ingress import IngressController

POD = ("shop", "web-1")
KEY = ("node", "shop", "web")


@pytest.mark.parametrize(
    ("controller", "key"),
    [
        (EndpointsController, KEY),
        (GlobalServices, KEY),
        (IngressController, KEY),
        (FollowController, Item("node", CONFIGMAPS, "shop", "web")),
    ],
)
def test_a_target_has_a_lane_of_which_there_is_room_for_several(controller: type[Controller[Any]], key: Any) -> None:
    assert controller.lane(object.__new__(controller), key) == "node"
    assert controller.workers >= 4 * controller.lane_width


async def test_applications_of_a_namespace_leave_workers_for_those_of_others() -> None:
    controller: Any = object.__new__(P2CodeController)
    queue = WorkQueue[Any](lane=controller.lane, lane_width=P2CodeController.lane_width)
    for key in (*(("busy", f"app-{number}") for number in range(P2CodeController.workers)), KEY[1:]):
        queue.add(key)
    taken = [await queue.get() for _ in range(P2CodeController.lane_width + 1)]
    assert taken[-1] == KEY[1:]
    assert len(taken) < P2CodeController.workers


async def test_namespaces_whose_policies_are_counted_leave_a_turn_for_another_namespace() -> None:
    controller: Any = object.__new__(NetworkPolicyController)
    assert controller.lane(KEY) == "node"
    queue = WorkQueue[Any](lane=controller.lane, lane_width=NetworkPolicyController.lane_width)
    for number in range(NetworkPolicyController.lane_width + 1):
        queue.add(("", f"team-{number}", ""))
    for _ in range(NetworkPolicyController.lane_width):
        await queue.get()
    assert queue.statistics().waiting == 1
    async with asyncio.timeout(1):
        assert await queue.get() == ("", f"team-{NetworkPolicyController.lane_width}", "")


async def test_changes_of_pods_have_the_lane_of_the_target_that_they_are_in() -> None:
    def bound(node: str) -> Any:
        return SimpleNamespace(node_name=node)

    controller: Any = object.__new__(LiveChanges)
    pods = {("shop", f"cut-{number}"): bound("cut") for number in range(LiveChanges.workers)}
    controller._proxies = SimpleNamespace(store={**pods, POD: bound("node"), ("shop", "new"): bound("")})
    assert controller.lane(POD) == "node"
    assert controller.lane(("shop", "new")) is controller.lane(("shop", "gone")) is None

    queue = WorkQueue[Any](lane=controller.lane, lane_width=LiveChanges.lane_width)
    for key in (*pods, POD):
        queue.add(key)
    taken = [await queue.get() for _ in range(LiveChanges.lane_width + 1)]
    assert taken[-1] == POD
    assert len(taken) < LiveChanges.workers
