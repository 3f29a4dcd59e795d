"""Writer of Envoy's files: each whole, in the order that Envoy needs, and only after Envoy has loaded the one
before.
"""

import asyncio
import os
from pathlib import Path

import msgspec

from agent.base import atomic_files
from agent.gateway.admin import Admin
from agent.model import envoy, envoystart, envoyudp
from agent.model.envoycounters import ALIVE, INGRESS, PEER, UDP_PEER
from agent.model.envoyparts import CERTIFICATE, Encoded, Place, Resources, ca_of

_CA_REFUSED = "trusted CA"
"""Part of Envoy's message about a CA that it cannot use."""
_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


class _Named(msgspec.Struct):
    name: str


class _File(msgspec.Struct):
    resources: list[msgspec.Raw]


_decode_file = msgspec.json.Decoder(_File).decode
_decode_named = msgspec.json.Decoder(_Named).decode


class NotTaken(Exception):
    """Envoy runs and has not loaded a file in time."""


class CasRefused(Exception):
    """Envoy cannot use these CAs of peers: with them it would refuse the listener of all peers."""

    def __init__(self, cas: set[str]) -> None:
        super().__init__(f"Envoy cannot use the CA of {len(cas)} peers")
        self.cas = cas


class Files:
    """Envoy's files. Only changed files are written."""

    def __init__(self, place: Place, admin: Admin) -> None:
        self._place = place
        self._directory = Path(place.directory)
        self._admin = admin
        # Envoy may have run for a long time: its present configuration is in the files.
        self._have = Resources(self._read(envoy.CLUSTERS), self._read(envoy.LISTENERS))
        self._certificate: Encoded = self._read(CERTIFICATE)
        self._doubtful = True
        """Whether Envoy may lack parts of the files: it may have refused files of an earlier gateway process."""

    def certificate(self, chain: bytes, key: bytes) -> None:
        """Make Envoy present a certificate, from the next connection on. Raises OSError."""
        wanted = envoy.certificate(chain, key)
        if wanted != self._certificate:
            self._write(CERTIFICATE, envoy.file(wanted)[1])
            self._certificate = wanted

    async def bring(self, wanted: Resources) -> str:
        """Write clusters and listeners, and wait until Envoy has loaded them; return a message about refused parts.

        Refused parts are written again unchanged by the next call. Raises OSError, NotTaken, CasRefused.
        """
        problem, wanted = "", envoyudp.renewed(self._have, wanted)
        for name, content in envoy.steps(self._have, wanted, again=self._doubtful):
            refused = await self._step(name, content)
            if refused and (cas := await self._refused_cas(name, content, wanted)):
                self._doubtful = True
                raise CasRefused(cas)
            problem = refused or problem
        self._have, self._doubtful = wanted, bool(problem)
        start(self._place, wanted)
        return problem

    def doubt(self) -> None:
        """Write all files again at the next call, because Envoy has refused something since."""
        self._doubtful = True

    async def _refused_cas(self, name: str, content: Encoded, wanted: Resources) -> set[str]:
        """Return the CAs for which Envoy refuses a file; empty if it refuses the file for other reasons."""
        if name == envoy.CLUSTERS:
            return await self._unusable(content)
        refusals = await self._admin.refusals()
        if refusals is None or _CA_REFUSED not in refusals.reasons.get(INGRESS, ""):
            return set()
        # Envoy loads the gateway's own certificate with its first peer. Without that certificate it accepts
        # clusters with any CA.
        others = {each: text for each, text in wanted.clusters.items() if not each.startswith((ALIVE, PEER, UDP_PEER))}
        await self._step(envoy.CLUSTERS, others)
        again = await self._step(envoy.CLUSTERS, wanted.clusters)
        return await self._unusable(wanted.clusters) if again else set()

    async def _unusable(self, clusters: Encoded) -> set[str]:
        """Return the CAs of peers' clusters that Envoy lacks, or has with another CA."""
        has = await self._admin.clusters()
        if has is None:
            return set()
        wanted = {(name, ca_of(msgspec.json.decode(each))) for name, each in clusters.items() if name.startswith(PEER)}
        return {ca for _, ca in wanted - has}

    async def _step(self, name: str, content: Encoded) -> str:
        listeners = name == envoy.LISTENERS
        before = await self._admin.loaded()
        # A large installation has megabytes of configuration: a thread hashes and writes them.
        version = await asyncio.to_thread(self._write_resources, name, content)
        refused = before.rejected(listeners=listeners) if before is not None else None
        loop = asyncio.get_running_loop()
        until = loop.time() + _PATIENCE_SECONDS
        while loop.time() < until:
            stats = await self._admin.loaded()
            # An Envoy that is not running reads the file when it starts.
            if self._admin.gone or (stats is not None and stats.version(listeners=listeners) == version):
                return ""
            now = stats.rejected(listeners=listeners) if stats is not None else None
            if now is not None and refused is not None and now > refused:
                return f"Envoy refuses {name}, or a part of it"
            refused = now if refused is None else refused
            await asyncio.sleep(_LOOK_SECONDS)
        raise NotTaken(f"Envoy has not taken {name} within {_PATIENCE_SECONDS:.0f} s")

    def _read(self, name: str) -> Encoded:
        try:
            found = _decode_file((self._directory / name).read_bytes()).resources
            return {_decode_named(each).name: bytes(each) for each in found}
        except (OSError, msgspec.DecodeError):
            return {}

    def _write_resources(self, name: str, content: Encoded) -> str:
        """Write a file and return its version."""
        version, text = envoy.file(content)
        self._write(name, text)
        return version

    def _write(self, name: str, content: bytes) -> None:
        """Write a file atomically: Envoy detects only files that are moved into place."""
        atomic_files.write(self._directory / name, content)


def start(place: Place, wanted: Resources | None = None) -> None:
    """Write the files for Envoy's start if they are missing: the bootstrap file last. Raises OSError."""
    directory, found = Path(place.directory), wanted or Resources({}, {})
    for name, content in ((envoy.CLUSTERS, found.clusters), (envoy.LISTENERS, found.listeners)):
        if not (directory / name).exists():
            atomic_files.write(directory / name, envoy.file(content)[1])
    own, path = msgspec.json.encode(envoystart.bootstrap(place, os.uname().nodename)), directory / envoy.BOOTSTRAP
    if not path.exists() or path.read_bytes() != own:
        atomic_files.write(path, own)
