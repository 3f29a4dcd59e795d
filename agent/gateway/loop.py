"""Control loop of the gateway: generates Envoy's files from the input file, and reports health and refusals.

It reads the input every quarter of a second and Envoy's counters every second, however long Envoy takes to load
files. Unusable peers are left out; if the whole input is unusable, Envoy keeps its present files. Refused parts
are written again after a while.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

import msgspec

from agent.base import atomic_files, certificates
from agent.base.certificates import Pair
from agent.gateway import metrics
from agent.gateway.admin import Admin
from agent.gateway.envoystate import EnvoyState
from agent.gateway.files import CasRefused, Files, NotTaken
from agent.gateway.peercas import PeerCas, without
from agent.model import envoy, envoycounters, envoyudp, gatewaypeer
from agent.model.envoybuilder import Builder
from agent.model.envoycounters import Checked
from agent.model.envoyparts import Place
from agent.model.gatewaypeer import TCP, Called, Gateway, InvalidGateway, Judged, Peer, Reader

INTERVAL_SECONDS = 0.25
STATUS = "status.json"
LOOK_SECONDS = 1.0
"""Seconds between readings of Envoy's counters."""
AGAIN_SECONDS = 30.0
"""Seconds until refused parts are written again: a local port may be free by then."""

_log = logging.getLogger(__name__)


class _Listeners(NamedTuple):
    """Listeners at the local ports of one peer: name, port of the Service, local port."""

    peer: Peer
    listeners: tuple[tuple[str, Called, int], ...]
    checked: Checked


_NO_LISTENERS = _Listeners(Peer("", "", "", ""), (), Checked(0, ""))


class Loop:
    """Control loop of one gateway pod."""

    def __init__(self, place: Place, source: Path, pair: Path, admin: Admin, *, loopback: bool = False) -> None:
        """:param source: path of the input file
        :param pair: directory of its certificate, tls.crt and tls.key
        """
        self._place = place
        self._source = source
        self._pair = pair
        self._reader = Reader(loopback=loopback)
        self._cas = PeerCas()
        self._builder = Builder(place)
        self._files = Files(place, admin)
        self._envoy = EnvoyState(admin)
        self._last: tuple[bytes, bytes, bytes] | None = None
        self._seen: object = None
        """Inode, time and size of the files when they were last read: a large installation has megabytes of input."""
        self._gateway: Gateway | None = None
        self._listeners: dict[str, _Listeners] = {}
        self._input_problem = "nothing has been read yet"
        self.health: dict[str, envoycounters.PeerHealth] = {}
        self.refused: dict[str, int] = {}
        self.problems: dict[str, str] = {}
        """Messages about unusable peers, by peer."""
        self._again_at = math.inf
        self._unusable: set[str] = set()
        """CAs that Envoy has refused."""
        self._meant: set[str] = set()
        """Peers in the present input; Envoy may not have loaded their files yet."""
        self.changed: Callable[[], None] = lambda: None
        """Listener called when the reported state of peers changes."""
        self._counters: envoycounters.Counters = {}

    async def run(self, pulse: Callable[[], None]) -> None:
        """Apply the input until cancelled; call `pulse` in each round."""
        while True:
            pulse()
            await self.apply()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def watch(self, pulse: Callable[[], None]) -> None:
        """Check and report the health of peers until cancelled; call `pulse` in each round."""
        while True:
            due = time.monotonic() + LOOK_SECONDS
            pulse()
            await self.look()
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def apply(self) -> None:
        """Read the input and, if it has changed, make Envoy apply it."""
        try:
            paths = (self._source, self._pair / "tls.crt", self._pair / "tls.key")
            seen = [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in map(Path.stat, paths)]
            if seen == self._seen and self._last is not None and time.monotonic() < self._again_at:
                return
            document, chain, key = (each.read_bytes() for each in paths)
            if (document, chain, key) == self._last and time.monotonic() < self._again_at:
                self._seen = seen
                return
            judged = self._cas.usable(self._reader.read(document))
            check_pair(Pair(chain, key), judged.gateway)
            self._files.certificate(chain, key)
            self._unusable &= {each.ca for each in judged.gateway.peers}
            judged, problem = await self._bring(judged)
            if problem:
                # Read the refusals at once, so that no traffic is routed to a refused port.
                await self._envoy.look()
        except (OSError, ValueError, NotTaken) as error:
            self._say(str(error))
            return
        self._last, self._again_at = (document, chain, key), time.monotonic() + AGAIN_SECONDS if problem else math.inf
        self._seen = seen
        self._use(judged.gateway)
        self._tell_problems(judged)
        self._say(f"{problem}: {self._envoy.reasons or 'its log says why'}" if problem else "")
        self.changed()

    def _use(self, gateway: Gateway) -> None:
        before, self._gateway = self._listeners, gateway
        self._listeners = {}
        for peer in gateway.peers:
            known = before.get(peer.key)
            self._listeners[peer.key] = known if known is not None and known.peer is peer else _listeners(peer)

    async def _bring(self, judged: Judged) -> tuple[Judged, str]:
        """Make Envoy apply the input except peers with unusable CAs; return the applied part and a message
        about refusals.
        """
        while True:
            judged = without(judged, self._unusable)
            self._meant = {each.key for each in judged.gateway.peers}
            # A recreated peer starts without the health of its predecessor.
            self._forget(self.health.keys() - self._meant)
            try:
                for _ in self._builder.build(judged.gateway):
                    await asyncio.sleep(0)
                return judged, await self._files.bring(self._builder.resources(judged.gateway))
            except CasRefused as error:
                self._unusable |= error.cas

    async def look(self) -> None:
        """Read Envoy's counters and report what has changed."""
        before = (self._envoy.takes, self._envoy.refusals)
        stats = await self._envoy.look()
        now = (self._envoy.takes, self._envoy.refusals)
        self._judge_refusals()
        if stats is not None and self._gateway is not None:
            self._count(stats.counters)
        if now != before:
            self._tell()
            self.changed()

    def _judge_refusals(self) -> None:
        """Write the files again if Envoy refused parts of them at its start, when no write observed it."""
        found = self._envoy.refusals
        metrics.refused_listeners(len(found.reasons))
        if found.reasons and self._again_at == math.inf:
            self._files.doubt()
            self._again_at = 0.0

    def _count(self, counters: envoycounters.Counters) -> None:
        self._counters = counters
        peers = {each: found.checked for each, found in self._listeners.items() if each in self._meant}
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
        """Return the reason why this gateway accepts no connections, None if it does."""
        if self._gateway is None:
            return self._input_problem
        return self._envoy.problem()

    def listens(self, peer: str) -> list[int]:
        """Return the local ports of a peer's Services at which Envoy accepts connections.

        Ports for UDP are included only once the peer reports that it accepts UDP: an older gateway does not
        support it.
        """
        if not self._envoy.takes:
            return []
        missing, found = self._envoy.refusals.missing, self._listeners.get(peer, _NO_LISTENERS)
        return sorted(
            port for name, called, port in found.listeners if name not in missing and self._is_taken(found.peer, called)
        )

    def trouble(self, peer: str) -> str:
        """Return the reason why some or all Services of a peer must not be called through this gateway; empty
        if none.
        """
        if not self._envoy.takes:
            return "its Envoy takes no connections"
        missing, reasons = self._envoy.refusals.missing, self._envoy.refusals.reasons
        listeners = self._listeners.get(peer, _NO_LISTENERS).listeners if missing else ()
        found = [(port, called.name, reasons[name]) for name, called, port in listeners if name in missing]
        if not found:
            return ""
        port, service, why = found[0]
        return (
            f"Envoy refuses {len(found)} of the local ports, such as {port}, which stands for {service}: {why}; it is"
            f" told of them again every {AGAIN_SECONDS:.0f} s"
        )

    def _is_taken(self, peer: Peer, called: Called) -> bool:
        return called.protocol == TCP or envoycounters.takes_udp(self._counters, envoyudp.name_of(peer, called))

    def _forget(self, peers: Collection[str]) -> None:
        self.health = {peer: found for peer, found in self.health.items() if peer not in peers}
        for peer in peers:
            metrics.forget(peer)

    def _tell(self) -> None:
        """Write the state to a file, for readers without access to the metrics."""
        refuses = self._envoy.refusals.reasons
        status = {"peers": self.health, "refused": self.refused, "problems": self.problems, "envoyRefuses": refuses}
        atomic_files.write(Path(self._place.directory, STATUS), msgspec.json.encode(status), mode=0o644)

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


def _listeners(peer: Peer) -> _Listeners:
    found = (
        (envoy.listener_of(peer, called, port), called, port) for called in peer.services for port in called.locals
    )
    return _Listeners(peer, tuple(found), Checked(len(peer.addresses), envoycounters.ALIVE + peer.gateways))


def check_pair(pair: Pair, gateway: Gateway) -> None:
    """Check the certificate; raises InvalidGateway if it does not belong to this gateway."""
    try:
        fits = certificates.fits(pair)
    except (ValueError, TypeError) as error:
        raise InvalidGateway(f"tls.crt and tls.key: not a certificate and its key: {error}") from error
    if not fits:
        raise InvalidGateway("tls.key: it is not the key of tls.crt: write both at once")
    name = gatewaypeer.identity(gateway.cluster)
    if name not in certificates.names_of(pair.certificate):
        raise InvalidGateway(f"tls.crt: it is not for {name}, which peers ask for: issue one that has this URI")
