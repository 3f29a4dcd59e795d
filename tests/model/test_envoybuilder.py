"""Resources of a gateway that are built again after a change."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.model import envoybuilder
from agent.model.envoybuilder import Builder
from agent.model.gatewaypeer import TCP, UDP, Called, Gateway, Offered, Peer, Protocol, Reader, Service
from tests.model.test_envoy import PLACE

SPACES = ("shop", "bank")


def peer(space: str, name: str, ca: str, calls: int, offers: int, protocol: Protocol) -> Peer:
    first = 20000 + 100 * SPACES.index(space) + 10 * ord(name)
    called = tuple(Called(f"their-{n}", 80, (first + n,), protocol=protocol) for n in range(calls))
    offered = tuple(Offered(f"own-{n}", 80, protocol=protocol) for n in range(offers))
    return Peer(name, space, f"uid-{name}", ca, ("203.0.113.1:15443",), called, offered)


peers = st.builds(
    peer,
    st.sampled_from(SPACES),
    st.sampled_from("ab"),
    st.sampled_from(["CA 1", "CA 2"]),
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([TCP, UDP]),
)
services = st.builds(
    Service,
    st.sampled_from(SPACES),
    st.sampled_from(["own-0", "own-1"]),
    st.just(80),
    st.lists(st.sampled_from(["10.0.0.1:80", "10.0.0.2:80"]), unique=True).map(tuple),
    st.sampled_from([TCP, UDP]),
)
gateways = st.builds(
    Gateway,
    st.sampled_from(["uid-here", "uid-there"]),
    st.lists(peers, unique_by=lambda each: each.key).map(tuple),
    st.lists(services, unique_by=lambda each: (each.namespace, each.name, each.protocol)).map(tuple),
)


@given(st.lists(gateways, min_size=2, max_size=4))
def test_after_any_change_resources_are_those_of_a_gateway_that_was_built_at_once(given: list[Gateway]) -> None:
    reader, builder = Reader(), Builder(PLACE)
    for each in given:
        gateway = reader.read(msgspec.json.encode(each)).gateway
        assert builder.resources(gateway) == envoybuilder.resources(gateway, PLACE)


def test_a_change_of_one_namespace_builds_no_peer_of_another_again() -> None:
    own = [Service(space, "own-0", 80, ("10.0.0.1:80",)) for space in SPACES]
    every = tuple(peer(space, name, "CA 1", 1, 1, TCP) for space in SPACES for name in "ab")
    reader, builder = Reader(), Builder(PLACE)

    def built(gateway: Gateway) -> list[str]:
        return list(builder.build(reader.read(msgspec.json.encode(gateway)).gateway))

    assert built(Gateway("uid-here", every, tuple(own))) == ["shop/a", "shop/b", "bank/a", "bank/b"]
    assert built(Gateway("uid-here", every, tuple(own))) == []
    own[1] = msgspec.structs.replace(own[1], endpoints=("10.0.0.2:80",))
    assert built(Gateway("uid-here", every, tuple(own))) == ["bank/a", "bank/b"]
    assert built(Gateway("uid-here", every[1:], tuple(own))) == []
