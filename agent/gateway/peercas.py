"""CAs of peers, as the gateway passes them to Envoy."""

from collections.abc import Collection

import msgspec

from agent.base import certificates
from agent.model.gatewaypeer import Judged, Peer

CAS_LIMIT = 16
"""Most certificates in a CA. A peer has one CA, and two while it is replaced."""


class PeerCas:
    """Reduces CAs of peers to their certificates. An unchanged peer stays the identical object."""

    def __init__(self) -> None:
        self._usable: dict[str, tuple[Peer, Peer]] = {}
        """Peers as they were given and as they are used, by key."""

    def usable(self, judged: Judged) -> Judged:
        """Return peers without anything in their CAs but certificates, and without peers that have no certificate."""
        peers, problems = list[Peer](), dict(judged.problems)
        before, self._usable = self._usable, {}
        certificates_of = dict[str, str]()
        for peer in judged.gateway.peers:
            known = before.get(peer.key)
            if known is None or known[0] is not peer:
                if peer.ca not in certificates_of:
                    certificates_of[peer.ca] = _certificates(peer.ca)
                known = (peer, msgspec.structs.replace(peer, ca=certificates_of[peer.ca]))
            self._usable[peer.key] = known
            if known[1].ca:
                peers.append(known[1])
            else:
                wrong = f"it is no list of 1 to {CAS_LIMIT} certificates (PEM)"
                problems[peer.key] = f"ca: {wrong}: name those of the CA of the peer's gateway"
        return Judged(msgspec.structs.replace(judged.gateway, peers=tuple(peers)), problems)


def _certificates(ca: str) -> str:
    """Return the certificates in a CA; empty if there are none or too many."""
    try:
        found = certificates.split(ca.encode())
    except ValueError:
        return ""
    return b"".join(found).decode() if len(found) <= CAS_LIMIT else ""


def without(judged: Judged, cas: Collection[str]) -> Judged:
    """Remove peers that have one of these CAs: Envoy cannot use them and would refuse the listener of all peers."""
    if not cas:
        return judged
    left = tuple(each for each in judged.gateway.peers if each.ca not in cas)
    wrong = "ca: Envoy cannot use these certificates: name those of the CA of the peer's gateway"
    problems = {each.key: wrong for each in judged.gateway.peers if each.ca in cas}
    return Judged(msgspec.structs.replace(judged.gateway, peers=left), judged.problems | problems)
