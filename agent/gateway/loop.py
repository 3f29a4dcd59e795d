"""The gateway's loop: makes Envoy's files from the input file, and tells health and refusals by Envoy's counters.

The input is read every quarter of a second, the counters every second. What cannot be used is left out; where that is
all of it, Envoy keeps what it has.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from agent.base import certificates, wholefile
from agent.base.certificates import Pair
from agent.gateway import metrics
from agent.gateway.admin import Admin
from agent.gateway.files import Files, NotTaken
from agent.model import envoy, envoycounters, envoyudp, gatewaypeer
from agent.model.envoyparts import Place
from agent.model.gatewaypeer import TCP, Called, Gateway, InvalidGateway, Judged, Peer

INTERVAL_SECONDS = 0.25
STATUS = "status.json"
_LOOKS = 4
"""Envoy's counters are read each time that so many intervals have gone by."""

_log = logging.getLogger(__name__)


class Loop:
    """One gateway pod's control."""

    def __init__(self, place: Place, source: Path, pair: Path, admin: Admin, *, loopback: bool = False) -> None:
        """:param source: the file that says what the gateway is told
        :param pair: directory of its certificate, tls.crt and tls.key
        """
        self._place = place
        self._source = source
        self._pair = pair
        self._loopback = loopback
        self._admin = admin
        self._files = Files(place, admin)
        self._last: tuple[bytes, bytes, bytes] | None = None
        self._gateway: Gateway | None = None
        self._envoy_problem = ""
        self._input_problem = "nothing has been read yet"
        self.health: dict[str, envoycounters.PeerHealth] = {}
        self.refused: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        """Of peers that cannot be used, by peer."""
        self._answers = self._takes = False
        self._counters: envoycounters.Counters = {}

    async def run(self, pulse: Callable[[], None]) -> None:
        """Go on until cancelled; `pulse` is called each time."""
        turn = 0
        while True:
            pulse()
            await self.apply()
            if turn % _LOOKS == 0:
                await self.look()
            turn += 1
            await asyncio.sleep(INTERVAL_SECONDS)

    async def apply(self) -> None:
        """Read what is told, and have Envoy do it where it has changed."""
        try:
            read = tuple(each.read_bytes() for each in (self._source, self._pair / "tls.crt", self._pair / "tls.key"))
            document, chain, key = read
            if (document, chain, key) == self._last:
                return
            judged = usable(gatewaypeer.read(document, loopback=self._loopback))
            check_pair(Pair(chain, key), judged.gateway)
            # Of one that is made anew nothing is known that was said of the one before.
            self._forget(self.health.keys() - {each.key for each in judged.gateway.peers})
            self._files.certificate(chain, key)
            self._envoy_problem = await self._files.bring(envoy.resources(judged.gateway, self._place))
        except (OSError, ValueError, NotTaken) as error:
            self._say(str(error))
            return
        self._last = (document, chain, key)
        self._gateway = judged.gateway
        self._tell_problems(judged)
        self._say(self._envoy_problem)

    async def look(self) -> None:
        """Read Envoy's counters, and tell what they say."""
        stats = await self._admin.stats()
        self._answers = stats is not None
        if stats is not None or self._admin.gone:
            self._takes = stats is not None and stats.listens
        gateway = self._gateway
        if stats is None or gateway is None:
            return
        self._counters = stats.counters
        peers = {each.key: len(each.addresses) for each in gateway.peers}
        health = envoycounters.health(stats.counters, peers, self.health)
        self._forget(self.health.keys() - health.keys())
        for peer, found in health.items():
            before = self.health.get(peer)
            if before is None or (before.ready, before.reason) != (found.ready, found.reason):
                _log.info("peer %s: %s (%d of %d addresses answer)", peer, found.reason, found.healthy, found.total)
        refused = envoycounters.refusals(stats.counters)
        metrics.measure(stats.counters, health, refused)
        if (health, refused) != (self.health, self.refused):
            self.health, self.refused = health, refused
            self._tell()

    def problem(self) -> str | None:
        """Why this gateway takes nobody, None when it does."""
        if self._gateway is None:
            return self._input_problem
        if not self._answers:
            return "Envoy does not answer"
        return None if self._takes else "Envoy takes no connections yet: it loads its files, and asks its peers"

    def listens(self, peer: str) -> list[int]:
        """Local ports that stand for Services of a peer, and at which Envoy takes connections.

        Those for UDP only once the peer says that it takes it: an older gateway does not know of UDP.
        """
        found = self._gateway.peers if self._gateway is not None and self._takes else ()
        these = ((each, called) for each in found if each.key == peer for called in each.services)
        return sorted(port for each, called in these if self._is_taken(each, called) for port in called.locals)

    def _is_taken(self, peer: Peer, called: Called) -> bool:
        return called.protocol == TCP or envoycounters.takes_udp(self._counters, envoyudp.name_of(peer, called))

    def _forget(self, peers: Collection[str]) -> None:
        self.health = {peer: found for peer, found in self.health.items() if peer not in peers}
        for peer in peers:
            metrics.forget(peer)

    def _tell(self) -> None:
        """A file for whoever wants to know without asking for metrics."""
        status = {"peers": self.health, "refused": self.refused, "problems": self.problems}
        wholefile.write(Path(self._place.directory, STATUS), msgspec.json.encode(status), mode=0o644)

    def _tell_problems(self, judged: Judged) -> None:
        for peer, problem in judged.problems.items():
            if self.problems.get(peer) != problem:
                _log.warning("peer %s is left out: %s", peer, problem)
        self.problems = judged.problems
        self._tell()

    def _say(self, problem: str) -> None:
        if problem and problem != self._input_problem:
            _log.warning("%s", problem)
        self._input_problem = problem


def usable(judged: Judged) -> Judged:
    """Without peers whose CA Envoy could not read: it would refuse the listener of all of them."""
    peers, problems = [], dict(judged.problems)
    for peer in judged.gateway.peers:
        try:
            found = certificates.split(peer.ca.encode())
        except ValueError:
            found = []
        if found:
            peers.append(msgspec.structs.replace(peer, ca=b"".join(found).decode()))
        else:
            problems[peer.key] = "ca: it is no list of certificates (PEM): name those of the CA of the peer's gateway"
    return Judged(msgspec.structs.replace(judged.gateway, peers=tuple(peers)), problems)


def check_pair(pair: Pair, gateway: Gateway) -> None:
    """Raises InvalidGateway where a certificate is not this gateway's."""
    try:
        fits = certificates.fits(pair)
    except (ValueError, TypeError) as error:
        raise InvalidGateway(f"tls.crt and tls.key: not a certificate and its key: {error}") from error
    if not fits:
        raise InvalidGateway("tls.key: it is not the key of tls.crt: write both at once")
    name = gatewaypeer.identity(gateway.cluster)
    if name not in certificates.names_of(pair.certificate):
        raise InvalidGateway(f"tls.crt: it is not for {name}, which peers ask for: issue one that has this URI")
