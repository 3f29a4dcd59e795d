"""Hosts of headless Services: their fields in GatewayPeers, and how gateways read them."""

from typing import Any

import pytest

from agent.api import names
from agent.model.gatewayhosts import (
    HEADLESS,
    HOSTS_LIMIT,
    OFFERED,
    Headless,
    Host,
    every_local,
    hosts_of,
    leads_to_hosts,
    told,
    with_hosts,
    written,
)
from agent.model.gatewaylink import document
from agent.model.gatewaypeer import Called, Offered
from tests.model.test_gatewaylink import OTHER, OWN, SOURCE, peer, slice

Raw = dict[str, Any]

TCP = (("tcp", 5432),)


def endpoint(host: str, address: str = "10.1.0.5", *, ready: bool | None = True, **fields: Any) -> Raw:
    named = {"hostname": host} if host else {}
    return {"addresses": [address], "conditions": {"ready": ready}, **named, **fields}


def db(*endpoints: Raw, **fields: Any) -> Raw:
    return slice("db", **{"ports": [{"name": "tcp", "port": 5432}], "endpoints": list(endpoints), **fields})


def hosts(*slices: Raw, ports: tuple[str, ...] = ("tcp",)) -> list[Headless]:
    return hosts_of("db", slices, {"admiral"}, ports)


def telling(*found: Headless, status: Raw | None = None) -> Raw:
    """Return a GatewayPeer whose hosts are called and may call."""
    made = peer(**({"status": status} if status is not None else {}))
    made["spec"] |= written(HEADLESS, found) | written(OFFERED, found)
    return made


DB = Headless("db", TCP, (Host("db-0", 1),))


@pytest.mark.parametrize(
    ("slices", "want"),
    [
        ([db(endpoint("db-0"))], [DB]),
        ([db(endpoint("db-0", ready=None))], [DB]),
        # The address stays while the pod is not ready.
        ([db(endpoint("db-0", ready=False))], [Headless("db", TCP, (Host("db-0"),))]),
        ([db(endpoint(""), endpoint("", "10.1.0.6"))], [Headless("db", TCP, (Host("", 2),))]),
        ([db(endpoint("db-0"), endpoint("db-0", "10.1.0.6", ready=False))], [DB]),
        # Both are on one node, whose address they share.
        (
            [db(endpoint("db-0")), db(endpoint("db-1", ready=False))],
            [Headless("db", TCP, (Host("db-0", 1), Host("db-1")))],
        ),
        # One pod with a slice for each IP family.
        (
            [
                db(endpoint("db-0", targetRef={"uid": "a"})),
                db(endpoint("db-0", "fd00::5", targetRef={"uid": "a"}), family="IPv6"),
            ],
            [DB],
        ),
        ([db(endpoint("db-0", nodeName="admiral"))], []),
        ([db(endpoint("db-0", nodeName="admiralty-shop-us"))], []),
        ([db(endpoint("db-0"), family="FQDN")], []),
        ([db(endpoint("db-0"), ports=[{"name": "tcp", "port": 5432, "protocol": "UDP"}])], []),
        ([db(endpoint("db-0"), ports=[{"name": "admin", "port": 9000}])], []),
        ([db(endpoint("db-0"), ports=None)], []),
        ([db(endpoint("db-0"), endpoints=None)], []),
    ],
)
def test_hosts_are_what_a_clusters_own_pods_are_called_by(slices: list[Raw], want: list[Headless]) -> None:
    assert hosts(*slices) == want


def test_hosts_with_the_same_ports_are_told_together_and_others_apart() -> None:
    other = db(endpoint("db-2"), ports=[{"name": "tcp", "port": 6000}])
    assert hosts(other, db(endpoint("db-1"), endpoint("db-0"))) == [
        Headless("db", TCP, (Host("db-0", 1), Host("db-1", 1))),
        Headless("db", (("tcp", 6000),), (Host("db-2", 1),)),
    ]


def test_no_two_ports_of_a_host_agree_in_name_or_number() -> None:
    ports = [{"name": name, "port": port} for name, port in (("a", 80), ("b", 80), ("c", 81), ("d", 82))]
    again = [{"name": "d", "port": 83}]
    found = hosts(db(endpoint(""), ports=ports), db(endpoint(""), ports=again), ports=("a", "b", "c", "d"))
    assert [each.ports for each in found] == [(("a", 80), ("c", 81), ("d", 82))]


def test_of_very_many_hosts_the_last_are_left_out_and_counted() -> None:
    every = [endpoint(f"db-{number}") for number in range(HOSTS_LIMIT + 3)]
    (found,) = hosts(db(*reversed(every)))
    assert [each.name for each in found.hosts] == [f"db-{number}" for number in range(HOSTS_LIMIT)]
    assert written(HEADLESS, [found])["headless"][0]["leftOut"] == found.left_out == 3
    assert "leftOut" not in written(OFFERED, [found])["offeredHeadless"][0]


def test_what_is_written_is_read_again() -> None:
    found = [Headless("db", TCP, (Host("db-0", 1), Host("db-1"))), Headless("mq", (("", 1),), (Host("", 4),), 2)]
    assert list(told(telling(*found))) == found
    assert [each.hosts for each in told(telling(*found), OFFERED)] == [(Host("db-0"), Host("db-1")), (Host(""),)]
    assert written(HEADLESS, []) == {}


def test_a_host_that_is_told_twice_counts_once_and_too_many_do_not() -> None:
    many = Headless("db", TCP, tuple(Host(f"x{number}") for number in range(HOSTS_LIMIT)))
    assert [len(each.hosts) for each in told(telling(DB, many))] == [1, HOSTS_LIMIT - 1]
    assert [len(each.hosts) for each in told(telling(DB, DB))] == [1, 0]


def allotted(*ports: int, host: str = "db-0") -> Raw:
    return {"name": "db", "host": host, "ports": [{"port": 5432, "locals": list(ports)}]}


def test_gateways_call_hosts_that_have_local_ports_and_let_peers_in_to_their_pods() -> None:
    given = telling(Headless("db", TCP, (Host("db-0", 1), Host("db-1", 1))), status={"headless": [allotted(20000)]})
    slices = [db(endpoint("db-0"), endpoint("db-1", "10.1.0.6", ready=False), endpoint("", "10.1.0.7"))]
    found = with_hosts(document(OWN, [given], slices), [given], slices)
    assert found.peers[0].services == (Called("db", 5432, (20000,), host="db-0"),)
    assert found.peers[0].offered == (Offered("db", 5432, host="db-0"), Offered("db", 5432, host="db-1"))
    assert [(each.host, each.endpoints) for each in found.services] == [("db-0", ("10.1.0.5:5432",)), ("db-1", ())]


@pytest.mark.parametrize(
    ("fields", "endpoints"),
    [
        ({"ports": [{"name": "other", "port": 5432}]}, ("10.1.0.5:5432",)),
        ({"ports": [{"name": "tcp", "port": 5433}]}, ()),
        ({"endpoints": [endpoint("db-1")]}, ()),
        ({"endpoints": [endpoint("db-0", nodeName="admiralty-shop-us")]}, ()),
        ({"endpoints": [endpoint("db-0", "fd00::5")], "family": "IPv6"}, ("[fd00::5]:5432",)),
        # Endpoints in other clusters are not offered to a third one.
        ({"labels": {names.LABEL_SLICE_MANAGED_BY: "gateway.flotilla"}}, ()),
        ({"labels": {names.LABEL_SLICE_MANAGED_BY: names.SLICE_MANAGER}}, ()),
        ({"namespace": "bank"}, ()),
    ],
)
def test_peers_reach_ready_pods_of_a_host_in_the_own_cluster(fields: Raw, endpoints: tuple[str, ...]) -> None:
    given, slices = telling(DB), [db(endpoint("db-0"), **fields) if "endpoints" not in fields else db(**fields)]
    (service,) = with_hosts(document(OWN, [given], slices), [given], slices).services
    assert (service.namespace, service.name, service.port, service.host) == ("shop", "db", 5432, "db-0")
    assert service.endpoints == endpoints


def test_nobody_lets_callers_in_to_what_another_source_has_shared() -> None:
    given, slices = telling(DB), [db(endpoint("db-0"), source=OTHER)]
    found = with_hosts(document(OWN, [given], slices), [given], slices)
    assert found.peers[0].offered == found.services == ()


def test_without_hosts_nothing_is_added() -> None:
    given = peer(source=SOURCE)
    plain = document(OWN, [given], [])
    assert with_hosts(plain, [given], []) == plain


GOOD = [{"type": "Programmed", "status": "True", "message": ""}]
LISTENS = {"gw": {"healthy": 1, "listens": [20000, 20001]}}


@pytest.mark.parametrize(
    ("leads", "status"),
    [
        (True, {"headless": [allotted(20000, 20001)], "conditions": GOOD, "gateways": LISTENS}),
        (False, {"headless": [allotted(20000, 20002)], "conditions": GOOD, "gateways": LISTENS}),
        (False, {"headless": [allotted()], "conditions": GOOD, "gateways": LISTENS}),
        (False, {"headless": [allotted(20000, host="db-1")], "conditions": GOOD, "gateways": LISTENS}),
        (False, {"headless": [allotted(20000)], "gateways": LISTENS}),
        (False, {"headless": [allotted(20000)], "conditions": GOOD}),
        (False, {}),
    ],
    ids=["it listens", "not everywhere", "no port", "another host", "not programmed", "nobody says", "nothing"],
)
def test_gateways_lead_to_a_service_once_one_listens_for_each_of_its_hosts(leads: bool, status: Raw) -> None:
    assert leads_to_hosts(telling(DB, status=status), "db") is leads
    assert not leads_to_hosts(telling(DB, status=status), "web")


def test_local_ports_of_services_and_hosts_are_taken_alike() -> None:
    services = [{"name": "web", "ports": [{"port": 80, "locals": [20005]}]}]
    assert every_local(telling(status={"services": services, "headless": [allotted(20000)]})) == {20000, 20005}
