"""Local ports of gateways' peers: what is looked up for each alone comes to what all of them together would."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api.kinds import GATEWAY_PEERS
from agent.controllers.gateways.hosts import Hosts
from agent.controllers.gateways.slices import GatewaySlicesRoom
from agent.kube.client import encode
from agent.kube.store import Object, Store
from agent.model import hostservices
from agent.model.gatewaypeer import FIRST_PORT

Raw = dict[str, Any]

LOCALS = st.lists(st.integers(FIRST_PORT - 1, FIRST_PORT + 6), max_size=3, unique=True)
"""Of a Service; few numbers, so that several have the same."""
TOLD = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 4), LOCALS), max_size=3)
"""Services of a peer, with how many ready endpoints they have there and which ports stand for them."""


def room() -> GatewaySlicesRoom:
    found = GatewaySlicesRoom.__new__(GatewaySlicesRoom)
    found._ports, found._freed, found._holders = {}, {}, Counter()
    found._peers = SimpleNamespace(store=Store())  # type: ignore[assignment]
    return found


def peer(name: str, told: dict[str, tuple[int, list[int]]], version: int = 1) -> Raw:
    ports = [{"name": "http", "port": 80}]
    services = [{"name": each, "ports": ports, "ready": ready} for each, (ready, _) in told.items()]
    status = [{"name": each, "ports": [{"port": 80, "locals": found}]} for each, (_, found) in told.items()]
    metadata = {"name": name, "namespace": "shop", "resourceVersion": f"{version}"}
    return {"metadata": metadata, "spec": {"services": services}, "status": {"services": status}}


def put(at: GatewaySlicesRoom, raw: Raw) -> None:
    obj = Object(GATEWAY_PEERS, encode(raw))
    at._peer_changed(at._peers.store.put(obj), obj)


@given(st.lists(TOLD, min_size=1, max_size=4), TOLD, st.integers(1, 2))
def test_ports_are_allotted_as_if_all_of_the_others_were_looked_up(
    told: list[dict[str, tuple[int, list[int]]]], last: dict[str, tuple[int, list[int]]], gateways: int
) -> None:
    found = room()
    for number, each in enumerate([*told, last]):
        put(found, peer(f"peer-{number % len(told)}", each, number))
    for number in range(len(told)):
        key = ("shop", f"peer-{number}")
        obj = found._peers.store.get(key)
        assert obj is not None
        want = hostservices.allot_all(obj.decode(), (), found._taken(key), gateways)
        assert found._allot(obj.decode(), Hosts(), gateways) == want


def test_a_peer_that_keeps_its_ports_asks_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    found = room()
    for number in range(3):
        put(found, peer(f"peer-{number}", {"a": (1, [FIRST_PORT + number])}))
    asked = list[tuple[str, str]]()
    taken = found._taken
    monkeypatch.setattr(found, "_taken", lambda key: asked.append(key) or taken(key))  # type: ignore[func-returns-value]
    for obj in found._peers.store:
        found._allot(obj.decode(), Hosts(), 1)
    assert not asked
    put(found, peer("peer-3", {"a": (1, [])}))
    allotted, _ = found._allot(peer("peer-3", {"a": (1, [])}), Hosts(), 1)
    assert allotted["services"] == [{"name": "a", "ports": [{"port": 80, "locals": [FIRST_PORT + 3]}]}]
    assert asked == [("shop", "peer-3")]
