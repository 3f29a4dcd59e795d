"""The gateway's loop: makes Envoy's files from the input file, and tells health and refusals by Envoy's counters.

The input is read every quarter of a second, the counters every second, however long Envoy takes for its files. What
cannot be used is left out; where that is all of it, Envoy keeps what it has. What Envoy refuses is told it again.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from agent.base import certificates, wholefile
from agent.base.certificates import Pair
from agent.gateway import metrics
from agent.gateway.admin import Admin
from agent.gateway.envoystate import EnvoyState
from agent.gateway.files import CasRefused, Files, NotTaken
from agent.model import envoy, envoycounters, envoyudp, gatewaypeer
from agent.model.envoyparts import Place
from agent.model.gatewaypeer import TCP, Called, Gateway, InvalidGateway, Judged, Peer

INTERVAL_SECONDS = 0.25
STATUS = "status.json"
LOOK_SECONDS = 1.0
"""Envoy's counters are read this often."""
AGAIN_SECONDS = 30.0
"""What Envoy refuses it is told again after so long: a port that was taken may be free."""
CAS_LIMIT = 16
"""A peer has one CA, and two while it is replaced."""

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
        self._files = Files(place, admin)
        self._envoy = EnvoyState(admin)
        self._last: tuple[bytes, bytes, bytes] | None = None
        self._gateway: Gateway | None = None
        self._input_problem = "nothing has been read yet"
        self.health: dict[str, envoycounters.PeerHealth] = {}
        self.refused: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        """Of peers that cannot be used, by peer."""
        self._again_at = math.inf
        self._unusable: set[str] = set()
        """CAs that Envoy has refused."""
        self._meant: set[str] = set()
        """Peers, as they are told now; Envoy may not have the files yet."""
        self.changed: Callable[[], None] = lambda: None
        """Called when something else is to be said of peers."""
        self._counters: envoycounters.Counters = {}

    async def run(self, pulse: Callable[[], None]) -> None:
        """Do what is told until cancelled; `pulse` is called each time."""
        while True:
            pulse()
            await self.apply()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def watch(self, pulse: Callable[[], None]) -> None:
        """Tell how peers are until cancelled; `pulse` is called each time."""
        while True:
            due = time.monotonic() + LOOK_SECONDS
            pulse()
            await self.look()
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def apply(self) -> None:
        """Read what is told, and have Envoy do it where it has changed."""
        try:
            read = tuple(each.read_bytes() for each in (self._source, self._pair / "tls.crt", self._pair / "tls.key"))
            document, chain, key = read
            if (document, chain, key) == self._last and time.monotonic() < self._again_at:
                return
            judged = usable(gatewaypeer.read(document, loopback=self._loopback))
            check_pair(Pair(chain, key), judged.gateway)
            self._files.certificate(chain, key)
            self._unusable &= {each.ca for each in judged.gateway.peers}
            judged, problem = await self._bring(judged)
            if problem:
                # Nobody is led to a port that it has refused, not even for a moment.
                await self._envoy.look()
        except (OSError, ValueError, NotTaken) as error:
            self._say(str(error))
            return
        self._last, self._again_at = (document, chain, key), time.monotonic() + AGAIN_SECONDS if problem else math.inf
        self._gateway = judged.gateway
        self._tell_problems(judged)
        self._say(f"{problem}: {self._envoy.reasons or 'its log says why'}" if problem else "")
        self.changed()

    async def _bring(self, judged: Judged) -> tuple[Judged, str]:
        """Have Envoy do it, without the peers whose CA it cannot use; returns what it does, and what it refuses."""
        while True:
            judged = without(judged, self._unusable)
            self._meant = {each.key for each in judged.gateway.peers}
            # Of one that is made anew nothing is known that was said of the one before.
            self._forget(self.health.keys() - self._meant)
            try:
                return judged, await self._files.bring(envoy.resources(judged.gateway, self._place))
            except CasRefused as error:
                self._unusable |= error.cas

    async def look(self) -> None:
        """Read Envoy's counters, and tell what they say."""
        before = (self._envoy.takes, self._envoy.refusals)
        stats, gateway = await self._envoy.look(), self._gateway
        now = (self._envoy.takes, self._envoy.refusals)
        self._judge_refusals()
        if stats is not None and gateway is not None:
            self._count(stats.counters, gateway)
        if now != before:
            self._tell()
            self.changed()

    def _judge_refusals(self) -> None:
        """What Envoy has refused when it started is not told by what it was told."""
        found = self._envoy.refusals
        metrics.refused_listeners(len(found.reasons))
        if found.reasons and self._again_at == math.inf:
            self._files.doubt()
            self._again_at = 0.0

    def _count(self, counters: envoycounters.Counters, gateway: Gateway) -> None:
        self._counters = counters
        peers = {each.key: len(each.addresses) for each in gateway.peers if each.key in self._meant}
        health = envoycounters.health(counters, peers, self.health)
        self._forget(self.health.keys() - health.keys())
        news = False
        for peer, found in health.items():
            before = self.health.get(peer)
            if before is None or (before.ready, before.reason) != (found.ready, found.reason):
                news = True
                _log.info("peer %s: %s (%d of %d addresses answer)", peer, found.reason, found.healthy, found.total)
        refused = envoycounters.refusals(counters)
        metrics.measure(counters, health, refused)
        if (health, refused) != (self.health, self.refused):
            self.health, self.refused = health, refused
            self._tell()
        if news:
            self.changed()

    def problem(self) -> str | None:
        """Why this gateway takes nobody, None when it does."""
        if self._gateway is None:
            return self._input_problem
        return self._envoy.problem()

    def listens(self, peer: str) -> list[int]:
        """Local ports that stand for Services of a peer, and at which Envoy takes connections.

        Those for UDP only once the peer says that it takes it: an older gateway does not know of UDP.
        """
        if not self._envoy.takes:
            return []
        missing = self._envoy.refusals.missing
        return sorted(
            port
            for each, called, port in self._locals(peer)
            if envoy.listener_of(each, called, port) not in missing and self._is_taken(each, called)
        )

    def trouble(self, peer: str) -> str:
        """Why nobody is to call Services of a peer at some local ports, or at any; empty where nothing is wrong."""
        if not self._envoy.takes:
            return "its Envoy takes no connections"
        missing, reasons = self._envoy.refusals.missing, self._envoy.refusals.reasons
        found = [
            (port, called.name, reasons[name])
            for each, called, port in self._locals(peer)
            if (name := envoy.listener_of(each, called, port)) in missing
        ]
        if not found:
            return ""
        port, service, why = found[0]
        return (
            f"Envoy refuses {len(found)} of the local ports, such as {port}, which stands for {service}: {why}; it is"
            f" told of them again every {AGAIN_SECONDS:.0f} s"
        )

    def _locals(self, peer: str) -> Iterator[tuple[Peer, Called, int]]:
        for each in self._gateway.peers if self._gateway is not None else ():
            if each.key == peer:
                yield from ((each, called, port) for called in each.services for port in called.locals)

    def _is_taken(self, peer: Peer, called: Called) -> bool:
        return called.protocol == TCP or envoycounters.takes_udp(self._counters, envoyudp.name_of(peer, called))

    def _forget(self, peers: Collection[str]) -> None:
        self.health = {peer: found for peer, found in self.health.items() if peer not in peers}
        for peer in peers:
            metrics.forget(peer)

    def _tell(self) -> None:
        """A file for whoever wants to know without asking for metrics."""
        refuses = self._envoy.refusals.reasons
        status = {"peers": self.health, "refused": self.refused, "problems": self.problems, "envoyRefuses": refuses}
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
    """With no more in the CAs of peers than their certificates, and without peers that have none."""
    peers, problems = [], dict(judged.problems)
    for peer in judged.gateway.peers:
        try:
            found = certificates.split(peer.ca.encode())
        except ValueError:
            found = []
        if 0 < len(found) <= CAS_LIMIT:
            peers.append(msgspec.structs.replace(peer, ca=b"".join(found).decode()))
        else:
            wrong = f"it is no list of 1 to {CAS_LIMIT} certificates (PEM)"
            problems[peer.key] = f"ca: {wrong}: name those of the CA of the peer's gateway"
    return Judged(msgspec.structs.replace(judged.gateway, peers=tuple(peers)), problems)


def without(judged: Judged, cas: Collection[str]) -> Judged:
    """Without peers that have one of these CAs: Envoy, which cannot use it, would refuse the listener of all peers."""
    left = tuple(each for each in judged.gateway.peers if each.ca not in cas)
    wrong = "ca: Envoy cannot use these certificates: name those of the CA of the peer's gateway"
    problems = {each.key: wrong for each in judged.gateway.peers if each.ca in cas}
    return Judged(msgspec.structs.replace(judged.gateway, peers=left), judged.problems | problems)


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
