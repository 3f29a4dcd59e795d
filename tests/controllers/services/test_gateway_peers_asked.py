"""Pairs of clusters that are requeued if one of many clusters changes, with stores filled by the test alone."""

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, CLUSTER_TARGETS, ENDPOINT_SLICES, NODES, SERVICES, TARGETS
from agent.api.names.links import ANNOTATION_GATEWAY
from agent.base.grace import ABSENT_SECONDS
from agent.clusters.stores.gateway_reports import GatewayReports
from agent.clusters.stores.unmarked_slices import UnmarkedSlices
from agent.clusters.stores.unwritten_marks import UnwrittenMarks
from agent.drivers.clusters import Clusters
from agent.drivers.sharing import Sharing, slices_by_service
from agent.drivers.spread import Spread
from agent.kube.both_scopes import EitherScope
from agent.kube.client import encode
from agent.kube.store import Object, Store
from agent.model.gatewaytold import Told, write
from agent.model.servicerule import ANYTHING
from agent.services.gateways.headless import HeadlessOffers
from agent.services.gateways.offers import Offers
from agent.services.gateways.peers import GatewayPeersController

Raw = dict[str, Any]

SPACE, SERVICE = "shop", "web"
OTHERS = 6
NODE = [names.virtual_node("", f"c{number}") for number in range(OTHERS)]


def stored() -> Any:
    synced = asyncio.Event()
    synced.set()
    return SimpleNamespace(store=Store(), synced=synced, subscribe=lambda subscriber: None)


def meta(name: str, namespace: str = "", **more: Any) -> Raw:
    return {"metadata": {"name": name, "namespace": namespace, "resourceVersion": "1", "uid": name, **more}}


def summary(uid: str) -> Object:
    told = {ANNOTATION_GATEWAY: write(Told("PEM", ("192.0.2.9:15443",))), names.ANNOTATION_CLUSTER_UID: uid}
    return Object(CLUSTER_SUMMARIES, encode(meta(names.SUMMARY_NAME, annotations=told)))


def slice_of(ready: int) -> Object:
    endpoints = [{"addresses": [f"10.1.0.{number}"], "conditions": {"ready": True}} for number in range(ready)]
    made = meta(f"{SERVICE}-x", SPACE, labels={names.LABEL_SERVICE_NAME: SERVICE})
    return Object(ENDPOINT_SLICES, encode({**made, "addressType": "IPv4", "ports": [], "endpoints": endpoints}))


class Many:
    """A controller with a Service, locally and in many ClusterTargets; two of them point to the same cluster."""

    def __init__(self) -> None:
        kinds = {kind: stored() for kind in (TARGETS, CLUSTER_TARGETS, NODES, SERVICES)}
        local = SimpleNamespace(
            port=None,
            informer=lambda kind, labels="": kinds[kind],
            either=lambda wanted: EitherScope(None, lambda kind: kinds[kind], wanted),  # type: ignore[arg-type]
        )
        uids = [f"uid-{min(number, OTHERS - 2)}" for number in range(OTHERS)]
        targets = {
            node: SimpleNamespace(is_self=False, told=summary(uid)) for node, uid in zip(NODE, uids, strict=True)
        }
        self.targets = targets
        deps: Any = SimpleNamespace(
            local=local,
            targets=SimpleNamespace(by_node=targets.get),
            settings=SimpleNamespace(gateway_udp=False, gateway_headless=False, cluster_name=""),
            namespaces=SimpleNamespace(is_in_use=lambda namespace: True),
            service_links=SimpleNamespace(rule=lambda service: ANYTHING),
            unwritten_marks=UnwrittenMarks(),
            cluster_uid="uid-here",
        )
        self.sharing = sharing = Sharing.__new__(Sharing)
        Clusters.__init__(sharing, deps)
        sharing.services, sharing._copies, sharing._spread = kinds[SERVICES], {}, Spread()
        sharing._unmarked = UnmarkedSlices(local, deps.unwritten_marks)
        sharing.services.store.index("namespace", lambda service: (service.namespace,))
        shared = meta(SERVICE, SPACE, annotations={"multicluster/global": "true"}, labels={})
        spec = {"ports": [{"name": "http", "port": 80}]}
        sharing.services.store.put(Object(SERVICES, encode({**shared, "spec": spec})))
        sharing._slices = {node: slices_by_service(stored()) for node in ("", *NODE)}
        condition = {"type": "ServicesShared", "status": "True", "reason": "Gateway"}
        for number, node in enumerate(NODE):
            target = {**meta(f"c{number}"), "spec": {}, "status": {"conditions": [condition]}}
            kinds[CLUSTER_TARGETS].store.put(Object(CLUSTER_TARGETS, encode(target)))
            sharing._copies[node] = stored()
            copy = Object(SERVICES, encode({**meta(SERVICE, SPACE), "spec": spec}))
            sharing._copies[node].store.put(copy)
            sharing._spread._add(node, copy.key, uids[number])
        controller = self.controller = GatewayPeersController.__new__(GatewayPeersController)
        super(GatewayPeersController, controller).__init__()
        controller._deps, controller._sharing, controller._written = (
            deps,
            sharing,
            {node: stored() for node in ("", *NODE)},
        )
        controller._gateways = GatewayReports()
        controller._offers = Offers(sharing, controller._written)
        controller._headless = HeadlessOffers(sharing, controller._offers, controller._written)
        controller._summaries = stored()
        controller._summaries.store.put(summary("uid-here"))


@pytest.fixture
async def many() -> Many:
    return Many()


def peers(many: Many, node: str, only: set[str] | None = None) -> tuple[Raw, set[str]]:
    wanted, unknown, same = many.controller._wanted(node, SPACE, only)
    assert not unknown
    ready = {name: [each["ready"] for each in peer["spec"]["services"]] for name, peer in wanted.items()}
    return ready, same


async def test_all_are_told_of_all_and_of_each_cluster_once(many: Many) -> None:
    name = many.sharing.gateway_peer
    assert peers(many, "")[0].keys() == {name(node) for node in NODE[:-1]}
    assert peers(many, NODE[0])[0].keys() == {name(node) for node in ("", *NODE[1:-1])}


async def test_endpoints_that_change_are_looked_at_for_their_cluster_alone(many: Many) -> None:
    name = many.sharing.gateway_peer
    many.sharing._slices[NODE[2]].store.put(slice_of(3))
    others = {name(node) for node in ("", *NODE)} - {name(NODE[0])}
    assert peers(many, NODE[0], {name(NODE[2])}) == ({name(NODE[2]): [3]}, others - {name(NODE[2])})
    # If two Targets point to one cluster, the first one's peer is used, whichever changes.
    many.sharing._slices[NODE[-2]].store.put(slice_of(2))
    for changed in NODE[-2:]:
        found, same = peers(many, NODE[0], {name(changed)})
        assert found == {name(NODE[-2]): [2]}
        assert same == others - {name(NODE[-2]), name(NODE[-1])}


async def test_a_cluster_counts_for_a_while_each_time_that_its_summary_names_no_gateways(
    many: Many, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, name, target = time.monotonic(), many.sharing.gateway_peer(NODE[1]), many.targets[NODE[1]]
    had, silent = target.told, Object(CLUSTER_SUMMARIES, encode(meta(names.SUMMARY_NAME)))
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def stays() -> bool:
        wanted, unknown, _ = many.controller._wanted(NODE[0], SPACE, None, {name})
        assert name not in wanted
        return name in unknown

    for _ in range(2):
        target.told = silent
        assert stays()
        now += ABSENT_SECONDS
        assert not stays()
        target.told = had
        assert name in many.controller._wanted(NODE[0], SPACE, None, {name})[0]
    # Peers stay while the summary of either target is unavailable.
    for node in (NODE[0], NODE[1]):
        many.targets[node].told = None
        assert stays()
        now += 10 * ABSENT_SECONDS
        assert stays()


async def test_a_peer_that_stands_for_nobody_is_not_among_those_that_stay(many: Many) -> None:
    assert "stray" not in peers(many, NODE[0], {"stray"})[1]


async def test_all_hear_of_one_and_that_one_hears_of_all(many: Many) -> None:
    queued: list[tuple[tuple[str, str], str]] = []
    many.controller._add = lambda key, peer="": queued.append((key, peer))  # type: ignore[method-assign]
    many.controller._slice_changed(NODE[2], slice_of(1))
    changed = many.sharing.gateway_peer(NODE[2])
    assert dict(queued) == {(node, SPACE): changed if node != NODE[2] else "" for node in ("", *NODE)}


async def test_clusters_that_have_nothing_of_a_namespace_do_not_hear_of_it(many: Many) -> None:
    target = {**meta("apart", "another"), "spec": {}}
    many.sharing.targets.informers[0].store.put(Object(TARGETS, encode(target)))
    many.controller._written[names.virtual_node("another", "apart")] = stored()
    queued: list[tuple[str, str]] = []
    many.controller._add = lambda key, peer="": queued.append(key)  # type: ignore[method-assign]
    many.controller._of(SPACE)
    assert sorted(queued) == sorted((node, SPACE) for node in ("", *NODE))
