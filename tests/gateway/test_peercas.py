"""CAs of peers that users or other clusters wrote, as Envoy gets them."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from agent.base import certificates
from agent.gateway.peercas import CAS_LIMIT, PeerCas, without
from agent.model.gatewaypeer import Gateway, Judged, Peer

CA = certificates.authority("gateways", datetime.now(UTC), timedelta(days=1)).certificate.decode()
PEER = Peer("eu", "shop", "uid-eu", f"# comment\n{CA}")


def judged(*peers: Peer) -> Judged:
    return Judged(Gateway("uid-here", peers), {})


def test_only_certificates_are_left_of_a_ca_and_an_unchanged_peer_stays_the_same_object() -> None:
    cas = PeerCas()
    (first,) = cas.usable(judged(PEER)).gateway.peers
    assert first.ca == CA
    other = msgspec.structs.replace(PEER, name="us", uid="uid-us")
    again = cas.usable(judged(PEER, other)).gateway.peers
    assert again[0] is first
    assert [each.ca for each in again] == [CA, CA]


@pytest.mark.parametrize("ca", ["", "no certificate", CA * (CAS_LIMIT + 1)])
def test_a_peer_without_usable_certificates_is_left_out_alone(ca: str) -> None:
    wrong = msgspec.structs.replace(PEER, name="us", ca=ca)
    found = PeerCas().usable(judged(wrong, PEER))
    assert [each.name for each in found.gateway.peers] == ["eu"]
    assert "name those of the CA of the peer's gateway" in found.problems["shop/us"]


def test_peers_whose_ca_envoy_refuses_are_left_out() -> None:
    other = msgspec.structs.replace(PEER, name="us", ca="CA 2")
    found = without(judged(PEER, other), {"CA 2"})
    assert found.gateway.peers == (PEER,)
    assert "Envoy cannot use these certificates" in found.problems["shop/us"]
    assert without(found, ()) is found
