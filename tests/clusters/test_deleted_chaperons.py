"""Records of chaperons whose deletion was observed."""

from typing import Any

import pytest

from agent.api.kinds import CHAPERONS
from agent.clusters.stores.deleted_chaperons import DeletedChaperons, Departure
from agent.kube.client import encode
from agent.kube.store import Object

EU = ("", "eu")


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
    departures = DeletedChaperons(limit=2)
    first, second = gone(), gone("Failed")
    departures.add((EU, "a"), first)
    departures.add((EU, "b"), first)
    departures.add((EU, "a"), second)
    assert departures.get((EU, "a")) is second
    departures.add((EU, "c"), first)
    assert departures.get((EU, "b")) is None
    assert departures.get((EU, "a")) is second
    departures.discard((EU, "a"))
    departures.discard((EU, "a"))
    assert departures.get((EU, "a")) is None
    assert departures.get((EU, "c")) is first


def test_however_many_targets_there_are_no_more_are_remembered_and_of_one_that_goes_nothing() -> None:
    departures = DeletedChaperons(limit=10)
    departure = gone()
    targets = [("", f"target-{number}") for number in range(20)]
    for target in targets:
        departures.add((target, "a"), departure)
    assert [departures.get((target, "a")) for target in targets] == [None] * 10 + [departure] * 10
    departures.forget(targets[-1])
    assert departures.get((targets[-1], "a")) is None
    assert departures.get((targets[-2], "a")) is departure
