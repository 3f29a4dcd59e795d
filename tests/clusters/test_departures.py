"""What is remembered of chaperons that were seen going."""

from typing import Any

import pytest

from agent.api.kinds import CHAPERONS
from agent.clusters.departures import Departure, Departures
from agent.kube.client import encode
from agent.kube.store import Object


def gone(phase: str = "Running", **spec: Any) -> Departure:
    metadata = {"name": "web-1", "namespace": "team", "uid": "c"}
    return Departure.of(Object(CHAPERONS, encode({"metadata": metadata, "spec": spec, "status": {"phase": phase}})))


@pytest.mark.parametrize(
    ("phase", "spec", "ended"),
    [
        ("Succeeded", {"restartPolicy": "Never"}, True),
        ("Failed", {"restartPolicy": "OnFailure"}, True),
        ("Running", {"restartPolicy": "Never"}, False),
        ("", {"restartPolicy": "Never"}, False),
        ("Failed", {"restartPolicy": "Always"}, False),
        ("Failed", {}, False),
        ("Failed", {"restartPolicy": None}, False),
        ("Failed", {"restartPolicy": 7}, False),
    ],
)
def test_a_pod_has_ended_for_good_only_where_it_said_so_and_is_never_made_again(
    phase: str, spec: dict[str, Any], ended: bool
) -> None:
    found = gone(phase, **spec)
    assert (found.name, found.uid, found.ended) == ("web-1", "c", ended)


def test_the_last_one_of_each_pod_counts_until_another_is_sent_and_the_oldest_are_forgotten() -> None:
    departures = Departures(limit=2)
    first, second = gone(), gone("Failed")
    departures.add("a", first)
    departures.add("b", first)
    departures.add("a", second)
    assert departures.get("a") is second
    departures.add("c", first)
    assert departures.get("b") is None
    assert departures.get("a") is second
    departures.discard("a")
    departures.discard("a")
    assert departures.get("a") is None
    assert departures.get("c") is first
