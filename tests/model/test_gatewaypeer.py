import msgspec
import pytest

from agent.model import gatewaypeer
from agent.model.gatewaypeer import Called, Gateway, InvalidGateway, Judged, Offered, Peer, Reader, Service

US = Peer("us", "shop", "uid-us", "CA", ("203.0.113.1:15443",), (Called("web", 80, (20000, 20001)),))


def read(document: bytes, *, loopback: bool = False) -> Judged:
    return Reader(loopback=loopback).read(document)


def judge(gateway: Gateway, *, loopback: bool = False) -> Judged:
    return read(msgspec.json.encode(gateway), loopback=loopback)


def changed(**fields: object) -> Peer:
    return msgspec.structs.replace(US, **fields)


def problems(*peers: Peer) -> dict[str, str]:
    return judge(Gateway("uid-here", peers)).problems


def test_what_is_right_is_taken_as_it_is() -> None:
    gateway = Gateway("uid-here", (US,), (Service("shop", "db", 5432, ("10.0.0.1:5432", "[fd00::1]:5432")),))
    judged = read(msgspec.json.encode(gateway))
    assert (judged.gateway, judged.problems) == (gateway, {})


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (b"{", "not the JSON of a gateway"),
        (b"[" * 100_000, "not the JSON of a gateway"),
        (b'{"cluster": 1}', "cluster"),
        (b'{"cluster": "x", "peer": []}', "unknown field `peer`"),
        (
            b'{"cluster": "x", "services": [{"namespace": "a", "name": "b", "port": 1, "protocol": "SCTP"}]}',
            "Invalid enum value 'SCTP' - at `$.services[0].protocol`",
        ),
        (b'{"cluster": ""}', "cluster: '' is no UID of a cluster: take that of namespace kube-system"),
        (b'{"cluster": "a/b"}', "no UID of a cluster"),
    ],
)
def test_what_is_no_gateway_is_refused(document: bytes, says: str) -> None:
    with pytest.raises(InvalidGateway) as raised:
        read(document)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("peer", "says"),
    [
        (changed(uid="spiffe://x"), "no UID of a cluster"),
        (changed(uid="uid-here"), "uid: it is that of this cluster"),
        (changed(ca=""), "ca: missing"),
        (changed(addresses=("203.0.113.1",)), "addresses: '203.0.113.1' is not HOST:PORT"),
        (changed(addresses=("203.0.113.1:0",)), "is not HOST:PORT"),
        (changed(addresses=("a b:1",)), "is not HOST:PORT"),
        (changed(services=(Called("web", 80, (19999,)),)), "web: local port 19999 is not in 20000-59999"),
        (changed(services=(Called("web", 80, (20000, 20000)),)), "20000 stands for something else already"),
    ],
)
def test_a_wrong_peer_is_left_out_and_takes_no_other_with_it(peer: Peer, says: str) -> None:
    other = msgspec.structs.replace(US, name="other", uid="uid-other", services=())
    judged = judge(Gateway("uid-here", (peer, other)))
    assert judged.gateway.peers == (other,)
    assert says in judged.problems["shop/us"]


def test_what_two_peers_cannot_both_have_the_first_one_has() -> None:
    assert "two of this name" in problems(US, changed(uid="uid-2", services=()))["shop/us"]
    assert "uid-us is that of another peer" in problems(US, changed(name="again", services=()))["shop/again"]
    assert "stands for something else" in problems(US, changed(name="other", uid="uid-2"))["shop/other"]
    assert problems(US, changed(namespace="elsewhere", services=())) == {}


@pytest.mark.parametrize(
    ("endpoint", "in_pods", "elsewhere"),
    [
        ("10.0.0.1:80", True, True),
        ("[fd00::1]:80", True, True),
        ("127.0.0.1:80", False, True),
        ("[::1]:80", False, True),
        ("[::ffff:127.0.0.1]:80", False, True),
        ("169.254.169.254:80", False, False),
        ("0.0.0.0:80", False, False),
        ("10.0.0.1:0", False, False),
        ("example.com:80", False, False),
        ("10.0.0.1", False, False),
    ],
)
def test_endpoints_are_addresses_that_pods_can_have(endpoint: str, in_pods: bool, elsewhere: bool) -> None:
    gateway = Gateway("uid-here", (), (Service("shop", "db", 1, (endpoint,)),))
    for loopback, taken in ((False, in_pods), (True, elsewhere)):
        assert bool(judge(gateway, loopback=loopback).gateway.services[0].endpoints) is taken


def test_server_names_tell_namespaces_services_ports_hosts_callers_and_clusters_apart() -> None:
    names = {
        gatewaypeer.server_name(*each)
        for each in (
            ("shop", "web", 80, "a", "b"),
            ("shop", "web", 81, "a", "b"),
            ("shop", "db", 80, "a", "b"),
            ("prod", "web", 80, "a", "b"),
            ("shop", "web", 80, "c", "b"),
            ("shop", "web", 80, "a", "c"),
        )
    } | {gatewaypeer.server_name("shop", "web", 80, "a", "b", host=host) for host in ("", "web-0", "web-1")}
    assert len(names) == 9
    assert all(len(label) <= 63 for name in names for label in name.split("."))
    assert gatewaypeer.health_name("shop", "a", "b").endswith(gatewaypeer.callers_suffix("shop", "a", "b"))


def test_names_are_part_of_the_wire_and_do_not_change() -> None:
    assert gatewaypeer.server_name("shop", "web", 80, "uid-a", "uid-b") == (
        "5b8d761afd2b5df0.56f3e3400cf0741f.482010b2fa2049d7.gateway.flotilla"
    )
    assert gatewaypeer.server_name("shop", "db", 5432, "uid-a", "uid-b", host="db-0") == (
        "5efcd739f316f303.56f3e3400cf0741f.482010b2fa2049d7.gateway.flotilla"
    )
    assert gatewaypeer.identity("uid-a") == "spiffe://uid-a/gateway"


def test_what_is_offered_is_read() -> None:
    judged = read(
        b'{"cluster":"x","peers":[{"name":"us","namespace":"n","uid":"u","ca":"c","offered":[{"name":"web","port":80}]}]}'
    )
    assert judged.gateway.peers[0].offered == (Offered("web", 80),)


def test_what_has_not_changed_is_the_same_object_in_the_next_document() -> None:
    other = changed(name="other", uid="uid-other", services=())
    web, db = Service("shop", "web", 80, ("10.0.0.1:80",)), Service("shop", "db", 80, ("10.0.0.2:80",))
    reader = Reader()
    first = reader.read(msgspec.json.encode(Gateway("uid-here", (US, other), (web, db)))).gateway
    more = msgspec.structs.replace(web, endpoints=("10.0.0.1:80", "10.0.0.3:80"))
    second = reader.read(msgspec.json.encode(Gateway("uid-here", (US, changed(uid="uid-b")), (more, db)))).gateway
    assert first.peers[0] is second.peers[0]
    assert first.services[1] is second.services[1]
    assert second.services[0] == more


def test_a_local_port_is_that_of_the_peer_that_comes_first_whatever_was_read_before() -> None:
    other = changed(name="other", uid="uid-other", ca="CA 2")
    reader = Reader()
    for peers in ((US, other), (other, US)):
        judged = reader.read(msgspec.json.encode(Gateway("uid-here", peers)))
        assert judged.gateway.peers == peers[:1]
        assert "20000 stands for something else already" in judged.problems[peers[1].key]
    assert reader.read(msgspec.json.encode(Gateway("uid-here", (other,)))).problems == {}
