"""Rooms whose keys are of targets: one that does not answer leaves workers for all others."""

from typing import Any

import pytest

from agent.api.kinds import CONFIGMAPS
from agent.controllers.endpoints import EndpointsRoom
from agent.controllers.follow import FollowRoom
from agent.controllers.follow.needs import Item
from agent.controllers.globalsvc import GlobalServices
from agent.controllers.ingress import IngressRoom
from agent.runtime.controller import Controller

KEY = ("node", "shop", "web")


@pytest.mark.parametrize(
    ("room", "key"),
    [
        (EndpointsRoom, KEY),
        (GlobalServices, KEY),
        (IngressRoom, KEY),
        (FollowRoom, Item("node", CONFIGMAPS, "shop", "web")),
    ],
)
def test_a_target_has_a_lane_of_which_there_is_room_for_several(room: type[Controller[Any]], key: Any) -> None:
    assert room.lane(object.__new__(room), key) == "node"
    assert room.workers >= 4 * room.lane_width
