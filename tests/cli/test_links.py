"""`flotilla links`: rows by Service and by pair of clusters."""

from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, SERVICE_LINKS, SERVICES, TARGETS, Kind
from agent.cli.links import lines
from agent.kube.store import Object


def obj(kind: Kind, name: str, namespace: str = "shop", **fields: Any) -> Object:
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": "1"} | fields.pop("metadata", {})
    return Object(kind, msgspec.json.encode({"metadata": metadata, **fields}))


def target(name: str, reason: str = "EndpointSlices", namespace: str = "shop") -> Object:
    condition = {"type": "ServicesShared", "status": "True", "reason": reason, "message": ""}
    return obj(TARGETS, name, namespace, status={"conditions": [condition]})


def mirror(service: str, origin: str, *ready: bool) -> Object:
    labels = {
        names.LABEL_SERVICE_NAME: service,
        names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER,
        names.LABEL_ORIGIN: names.origin("shop", origin),
    }
    endpoints = [{"addresses": [f"10.0.0.{n}"], "conditions": {"ready": each}} for n, each in enumerate(ready)]
    return obj(ENDPOINT_SLICES, f"{service}-{origin}", metadata={"labels": labels}, endpoints=endpoints)


def test_every_service_has_a_line_per_pair_with_the_endpoints_that_are_known_here() -> None:
    services = [obj(SERVICES, "web"), obj(SERVICES, "db")]
    slices = [mirror("web", "us", True, False, True), mirror("web", "eu", True), mirror("db", "eu")]
    found = lines(services, [target("us"), target("eu"), target("mine", namespace="other")], {}, slices)
    assert [(each.service, each.link.one, each.link.other, each.endpoints) for each in found] == [
        ("db", "local-cluster", "us", 0),
        ("db", "local-cluster", "eu", 0),
        ("db", "us", "eu", None),
        ("web", "local-cluster", "us", 2),
        ("web", "local-cluster", "eu", 1),
        ("web", "us", "eu", None),
    ]


def test_of_a_mesh_it_is_not_known_here_what_endpoints_it_tells() -> None:
    (line,) = lines([obj(SERVICES, "web")], [target("us", "Cilium")], {}, [])
    assert (line.link.driver, line.endpoints) == ("cilium", None)


def row(cluster: str, *sources: str, reason: str = "Connected", ready: str = "True", endpoints: int = 2) -> Any:
    return {
        "cluster": cluster,
        "namespace": "shop",
        "driver": "endpointslices",
        "from": sources,
        "ready": ready,
        "reason": reason,
        "message": "",
        "endpoints": endpoints,
    }


def test_of_a_service_that_has_a_link_that_counts_a_line_for_whose_callers_reach_whose_endpoints() -> None:
    services = [obj(SERVICES, "web"), obj(SERVICES, "db")]
    rows = [row("local-cluster", "us"), row("us", "local-cluster", "eu", reason="Unverified")]
    told = [
        obj(SERVICE_LINKS, "web", status={"clusters": rows}),
        # No agent has reported a status yet.
        obj(SERVICE_LINKS, "db"),
    ]
    found = lines(services, [target("us")], {}, [], told)
    assert [(each.service, each.link.one, each.link.other, each.link.reason, each.endpoints) for each in found] == [
        ("db", "local-cluster", "us", "Unverified", 0),
        ("web", "local-cluster", "us", "Connected", 2),
        ("web", "us", "local-cluster", "Unverified", None),
        ("web", "us", "eu", "Unverified", None),
    ]


def test_a_link_that_is_not_accepted_has_a_line_of_its_own() -> None:
    bad = {"type": "Accepted", "status": "False", "reason": "UnknownCluster", "message": "spec.from: no Target mars"}
    told = [
        obj(SERVICE_LINKS, "web", status={"clusters": [row("us", "eu")], "conditions": []}),
        obj(SERVICE_LINKS, "more", spec={"service": "web"}, status={"clusters": [], "conditions": [bad]}),
    ]
    found = lines([obj(SERVICES, "web")], [target("us")], {}, [], told)
    assert [(each.link.one, each.link.ready, each.link.reason) for each in found] == [
        ("servicelink/more", "False", "UnknownCluster"),
        ("us", "True", "Connected"),
    ]


def test_callers_in_another_namespace_have_a_line_of_their_own() -> None:
    elsewhere = {**row("us", "eu", reason="Pending", ready="False"), "namespace": "web"}
    told = [obj(SERVICE_LINKS, "web", status={"clusters": [row("us", "eu"), elsewhere]})]
    found = lines([obj(SERVICES, "web")], [target("us")], {}, [], told)
    assert [(each.link.one, each.link.other, each.link.reason) for each in found] == [
        ("us", "eu", "Connected"),
        ("us/web", "eu", "Pending"),
    ]


def gateway_peer(target: str, source: str = "here", connected: str = "True", **spec: Any) -> Object:
    """Return a source's GatewayPeer about a target, with the gateways' conditions."""
    said = [
        {"type": "Programmed", "status": "True", "reason": "Programmed", "message": ""},
        {"type": "Connected", "status": connected, "reason": "PeerUnreachable", "message": "nobody answers"},
    ]
    name = names.gateway_peer(target, source, names.origin("shop", target))
    labels = {names.LABEL_PARENT_CLUSTER_UID: source}
    return obj(GATEWAY_PEERS, name, metadata={"labels": labels}, spec=spec, status={"conditions": said})


def test_of_gateways_it_is_told_whether_the_other_one_answers_and_how_many_endpoints_there_are() -> None:
    services, targets = [obj(SERVICES, "web"), obj(SERVICES, "db")], [target("us", "Gateway"), target("eu", "Gateway")]
    web, hosts = [{"name": "web", "ready": 2}], [{"name": "db-0", "ready": 1}, {"name": "db-1", "ready": 1}]
    db = [{"name": "db", "ports": [{"port": 5432}], "hosts": hosts}]
    peers = [
        # Another source uses this name for another cluster.
        gateway_peer("us", "there", services=[{"name": "other", "ready": 9}]),
        gateway_peer("us", services=web, headless=db),
        gateway_peer("eu", connected="False", services=web),
    ]
    found = lines(services, targets, {}, [], gateway_peers=peers)
    assert [(each.service, each.link.other, each.link.ready, each.link.reason, each.endpoints) for each in found] == [
        ("db", "us", "True", "Connected", 2),
        # No GatewayPeer lists this Service.
        ("db", "eu", "True", "Unverified", None),
        ("db", "eu", "True", "Unverified", None),
        ("web", "us", "True", "Connected", 2),
        ("web", "eu", "False", "PeerUnreachable", 2),
        ("web", "eu", "True", "Unverified", None),
    ]
    assert found[4].link.message == "nobody answers"


def test_of_gateways_that_nobody_tells_of_it_is_said_what_their_targets_say() -> None:
    (line,) = lines([obj(SERVICES, "web")], [target("us", "Gateway")], {}, [])
    assert (line.link.driver, line.link.ready, line.link.reason, line.endpoints) == (
        "gateway",
        "True",
        "Unverified",
        None,
    )
