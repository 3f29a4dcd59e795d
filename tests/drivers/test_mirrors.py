from typing import Any

import pytest

from agent.api import names
from agent.drivers.mirrors import Action, Change, Create, Delete, Origin, decide
from agent.model.endpoints import Shelf
from agent.model.podranges import of

Raw = dict[str, Any]

SHELF = Shelf("default", "web", "u9")


def slice_of(name: str, *addresses: str, ready: bool = True, kind: str = "IPv4") -> Raw:
    return {
        "metadata": {"name": name},
        "addressType": kind,
        "ports": [{"port": 80}],
        "endpoints": [{"addresses": [each], "conditions": {"ready": ready}} for each in addresses],
    }


def run(
    origins: dict[str, Origin],
    existing: dict[str, Raw] | None = None,
    shelf: Shelf = SHELF,
    away: set[str] | None = None,
) -> list[Action]:
    return decide(shelf, origins, existing or {}, away or set())


def applied(actions: list[Action], version: str = "1") -> dict[str, Raw]:
    """Return mirrors as an API server stores them after creation."""
    found = {}
    for action in actions:
        assert isinstance(action, Create)
        metadata = action.manifest["metadata"]
        found[metadata["name"]] = {**action.manifest, "metadata": {**metadata, "uid": "x", "resourceVersion": version}}
    return found


def test_each_slice_of_each_other_cluster_gets_a_mirror() -> None:
    origins = {
        "us": Origin([slice_of("a", "10.1.0.1"), slice_of("b", "10.1.0.2")]),
        "eu": Origin([slice_of("a", "10.2.0.1")]),
    }
    assert len(applied(run(origins))) == 3


def test_own_endpoints_stay_ready_while_callers_prefer_them() -> None:
    labels = (("multicluster.kubernetes.io/source-cluster", "us"),)
    origins = {
        "us": Origin([slice_of("a", "10.1.0.1")], labels=labels, is_own=True),
        "eu": Origin([slice_of("a", "10.2.0.1")]),
    }
    made = applied(decide(SHELF, origins, {}, set(), standby=True)).values()
    ready = {each["endpoints"][0]["addresses"][0]: each["endpoints"][0]["conditions"]["ready"] for each in made}
    assert ready == {"10.1.0.1": True, "10.2.0.1": False}
    assert [dict(labels).items() <= each["metadata"]["labels"].items() for each in made] == [True, False]


def test_what_is_right_is_not_written() -> None:
    origins = {"us": Origin([slice_of("a", "10.1.0.1")])}
    assert run(origins, applied(run(origins))) == []


def test_a_change_is_patched_in_the_very_object_that_was_compared() -> None:
    existing = applied(run({"us": Origin([slice_of("a", "10.1.0.1", "10.1.0.2")])}), "7")
    (change,) = run({"us": Origin([slice_of("a", "10.1.0.1", "10.1.0.2", "10.1.0.3")])}, existing)
    assert isinstance(change, Change)
    assert change.operations == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "add", "path": "/endpoints/2", "value": {"addresses": ["10.1.0.3"], "conditions": {"ready": True}}},
    ]


def test_mirrors_of_slices_that_are_gone_or_empty_go() -> None:
    existing = applied(run({"us": Origin([slice_of("a", "10.1.0.1"), slice_of("b", "10.1.0.2")])}))
    gone = run({"us": Origin([slice_of("a")])}, existing)
    assert {each.name for each in gone if isinstance(each, Delete)} == existing.keys()


def test_mirrors_of_a_cluster_that_shares_the_service_no_more_go() -> None:
    existing = applied(run({"us": Origin([slice_of("a", "10.1.0.1")])}))
    (gone,) = run({}, existing)
    assert isinstance(gone, Delete)
    assert gone.instead is None


def test_nothing_is_concluded_from_a_cluster_that_was_not_read_yet() -> None:
    existing = applied(run({"us": Origin([slice_of("a", "10.1.0.1")])}))
    assert run({"us": Origin(None)}, existing) == []


@pytest.mark.parametrize("known", [True, False])
def test_endpoints_of_a_silent_cluster_stay_but_are_not_ready(known: bool) -> None:
    slices = [slice_of("a", "10.1.0.1")]
    existing = applied(run({"us": Origin(slices)}))
    silent = {"us": Origin(slices if known else None, silent=True)}
    (change,) = run(silent, existing)
    assert isinstance(change, Change)
    paths = {each["path"]: each["value"] for each in change.operations[1:]}
    assert paths == {"/endpoints/0/conditions/ready": False, "/endpoints/0/conditions/serving": False}


def test_a_mirror_of_an_earlier_service_is_made_anew() -> None:
    origins = {"us": Origin([slice_of("a", "10.1.0.1")])}
    (again,) = run(origins, applied(run(origins)), Shelf("default", "web", "u10"))
    assert isinstance(again, Delete)
    assert again.instead is not None
    assert again.instead["metadata"]["ownerReferences"][0]["uid"] == "u10"


def test_hand_edits_of_labels_and_endpoints_are_reverted() -> None:
    origins = {"us": Origin([slice_of("a", "10.1.0.1")])}
    existing = applied(run(origins))
    (name,) = existing
    existing[name]["metadata"]["labels"] = {**existing[name]["metadata"]["labels"], "mine": "x"}
    existing[name]["endpoints"] = []
    assert isinstance(run(origins, existing)[0], Change)


def test_a_mirror_with_an_address_that_is_outside_from_now_on_is_changed() -> None:
    slices = [slice_of("a", "10.1.0.1", "10.9.0.1")]
    existing = applied(run({"us": Origin(slices)}))
    (change,) = run({"us": Origin(slices, ranges=of({"spec": {"podCIDRs": ["10.1.0.0/16"]}}))}, existing)
    assert isinstance(change, Change)
    assert {"op": "remove", "path": "/endpoints/1"} in change.operations


def test_endpoints_that_wait_serve_and_are_not_ready_and_those_of_a_silent_cluster_do_neither() -> None:
    origins = {"b": Origin([slice_of("x", "10.0.0.1")]), "c": Origin([slice_of("y", "10.0.0.2")], silent=True)}
    found = applied(decide(SHELF, origins, {}, (), standby=True))
    ready = {each["endpoints"][0]["addresses"][0]: each["endpoints"][0]["conditions"] for each in found.values()}
    assert ready == {"10.0.0.1": {"ready": False}, "10.0.0.2": {"ready": False, "serving": False}}
    (change,) = decide(SHELF, origins, found, ())
    assert isinstance(change, Change)
    assert change.name == names.mirror("x", "b", 0)


def test_ports_that_nobody_is_told_of_are_not_in_mirrors() -> None:
    slice = {**slice_of("a", "10.1.0.1"), "ports": [{"name": "http", "port": 80}, {"port": 443}]}

    def ports(named: frozenset[str] | None) -> list[int]:
        (mirror,) = applied(run({"us": Origin([slice], ports=named)})).values()
        return [each["port"] for each in mirror["ports"]]

    assert ports(None) == [80, 443]
    assert ports(frozenset(("http",))) == [80]
    assert ports(frozenset(("",))) == [443]
    assert ports(frozenset()) == []
