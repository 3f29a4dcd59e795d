"""Information on the Target object itself, for callers without a connection to it."""

from typing import Any

import msgspec
import pytest

from agent.api.kinds import TARGETS
from agent.clusters.target_info import target_info_of
from agent.clusters.unconnected_target import not_ready, unconnected_target
from agent.kube.store import Object

CREATED = "2026-01-01T10:00:00Z"
SINCE = "2026-01-01T12:03:00Z"


def target(**conditions: tuple[str, str]) -> Object:
    found = [
        {"type": kind, "status": status, "message": message, "lastTransitionTime": SINCE}
        for kind, (status, message) in conditions.items()
    ]
    metadata = {"name": "eu", "namespace": "default", "creationTimestamp": CREATED}
    obj: dict[str, Any] = {"metadata": metadata, "status": {"conditions": found}}
    return Object(TARGETS, msgspec.json.encode(obj))


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (target(Ready=("True", "connected")), (True, True, False)),
        (target(Ready=("False", "no answer")), (False, True, False)),
        (target(), (False, False, False)),
        (target(Ready=("True", "connected"), Responsive=("False", "slow")), (True, True, True)),
        (target(Ready=("True", "connected"), Responsive=("True", "prompt")), (True, True, False)),
    ],
    ids=["ready", "not ready", "nothing said yet", "slow", "prompt again"],
)
def test_conditions_are_taken_at_their_word(obj: Object, want: tuple[bool, bool, bool]) -> None:
    told = unconnected_target(obj)
    assert (told.ready, told.known, told.slow) == want
    assert (told.namespace, told.title, told.node_name) == ("default", "eu", "admiralty-default-eu")


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (target(Ready=("False", "Secret default/eu does not exist")), "Secret default/eu does not exist (since 12:03)"),
        (target(Ready=("True", "connected")), "not connected yet (since 12:03)"),
        (target(), "not connected yet (since 10:00)"),
    ],
    ids=["it cannot be connected", "after a start", "just created"],
)
def test_a_target_without_connection_takes_no_pods_and_says_why(obj: Object, want: str) -> None:
    place = target_info_of(not_ready(unconnected_target(obj)), None, None, obj)
    assert not place.ready
    assert place.state == want
