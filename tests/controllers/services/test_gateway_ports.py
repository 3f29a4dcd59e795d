"""Local ports of gateways' peers: the lookup for one peer yields the same ports as a lookup over all of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import GATEWAY_PEERS, SERVICES
from agent.kube.client import encode
from agent.kube.store import Object, Store
from agent.model import peerports
from agent.model.gatewaypeer import FIRST_PORT, TCP
from agent.model.localports import Held
from agent.services.gateways import GatewaySlicesController
from agent.services.gateways.localports import LocalPorts
from tests.controllers.offline import offline

Raw = dict[str, Any]

LOCALS = st.lists(st.integers(FIRST_PORT - 1, FIRST_PORT + 6), max_size=3, unique=True)
"""Local ports of a Service, from a small range, so that several have the same."""
TOLD = st.dictionaries(st.sampled_from("abc"), st.tuples(st.integers(0, 4), LOCALS), max_size=3)
"""Services of a peer, with the number of ready endpoints and their local ports."""


def peer(name: str, told: dict[str, tuple[int, list[int]]], version: int = 1) -> Raw:
    ports = [{"name": "http", "port": 80}]
    services = [{"name": each, "ports": ports, "ready": ready} for each, (ready, _) in told.items()]
    status = [{"name": each, "ports": [{"port": 80, "locals": found}]} for each, (_, found) in told.items()]
    metadata = {"name": name, "namespace": "shop", "resourceVersion": f"{version}"}
    return {"metadata": metadata, "spec": {"services": services}, "status": {"services": status}}


def put(ports: LocalPorts, store: Store, raw: Raw) -> None:
    obj = Object(GATEWAY_PEERS, encode(raw))
    ports.changed(store.put(obj), obj)


@given(st.lists(TOLD, min_size=1, max_size=4), TOLD, st.integers(1, 2))
def test_ports_are_allotted_as_if_all_of_the_others_were_looked_up(
    told: list[dict[str, tuple[int, list[int]]]], last: dict[str, tuple[int, list[int]]], gateways: int
) -> None:
    store = Store()
    found = LocalPorts(store)
    for number, each in enumerate([*told, last]):
        put(found, store, peer(f"peer-{number % len(told)}", each, number))
    for number in range(len(told)):
        obj = store.get(("shop", f"peer-{number}"))
        assert obj is not None
        raw = obj.decode()
        taken, held = found.others(raw)
        want = peerports.allot(raw, peerports.named(raw), (), taken, gateways, held)
        assert found.allot(raw, peerports.named(raw), (), gateways) == want


def test_a_peer_that_keeps_its_ports_asks_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store()
    found = LocalPorts(store)
    for number in range(3):
        put(found, store, peer(f"peer-{number}", {"a": (1, [FIRST_PORT + number])}))
    asked, others = list[str](), found.others
    monkeypatch.setattr(found, "others", lambda raw: asked.append(raw["metadata"]["name"]) or others(raw))  # type: ignore[func-returns-value]
    for obj in store:
        found.allot(obj.decode(), peerports.named(obj.decode()), (), 1)
    assert not asked
    new = peer("peer-3", {"a": (1, [])})
    put(found, store, new)
    allotted, _ = found.allot(new, peerports.named(new), (), 1)
    assert allotted["services"] == [{"name": "a", "ports": [{"port": 80, "locals": [FIRST_PORT + 3]}]}]
    assert asked == ["peer-3"]


def test_a_namespace_and_a_source_are_counted_by_all_of_their_peers() -> None:
    store = Store()
    found = LocalPorts(store)
    for number, (namespace, source) in enumerate((("shop", "one"), ("shop", "two"), ("bank", "one"), ("shop", "one"))):
        raw = peer(f"peer-{number}", {"a": (2, [FIRST_PORT + 2 * number, FIRST_PORT + 2 * number + 1])}, number)
        raw["metadata"] |= {"namespace": namespace, "labels": {names.LABEL_PARENT_CLUSTER_UID: source}}
        put(found, store, raw)
    last = store.get(("shop", "peer-3"))
    assert last is not None
    taken, held = found.others(last.decode())
    assert (len(taken), held) == (6, Held(namespace=4, source=2))


async def test_a_service_that_lacks_a_port_is_told_apart_from_one_that_does_not_exist() -> None:
    async with offline(GatewaySlicesController) as (cluster, controller):
        labels = {names.LABEL_GLOBAL: "true"}
        cluster.put(
            cluster.deps.local.informer(SERVICES),
            SERVICES,
            "web",
            "shop",
            metadata={"labels": labels},
            spec={"ports": [{"port": 80}]},
        )
        cluster.put(
            cluster.deps.local.informer(SERVICES),
            SERVICES,
            "external",
            "shop",
            metadata={"labels": labels},
            spec={"type": "ExternalName", "externalName": "db.example.com", "ports": [{"port": 80}]},
        )
        raw = peer("eu", {"web": (1, []), "ghost": (1, []), "external": (1, [])})
        raw["metadata"]["labels"] = {names.LABEL_PARENT_CLUSTER_UID: cluster.deps.cluster_uid}
        raw["spec"]["services"][0]["ports"].append({"name": "metrics", "port": 9090})
        found = await controller._usable(raw)
        assert found.ports == {"web": {(80, TCP)}}
        assert found.lacking == ["web (it has no port 9090/TCP)"]
        assert found.left_out == ["ghost (there is none of that name)"]
