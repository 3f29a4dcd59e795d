"""Peers benchmark: time from a standstill of all gateways of a peer until no client is routed to them.

One real cluster with its agent, its gateway, and the gateway of the peer, whose Envoy is stopped by SIGSTOP: it
still accepts connections, but never answers. The time depends on when the last successful health check was. So
the benchmark stops Envoy at evenly spaced times after a check.
"""

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, GATEWAY_PEERS, NAMESPACES, SERVICES
from agent.api.names.links import GATEWAY_SERVICE, GATEWAY_SLICE_MANAGER
from agent.cli.progress import Progress
from agent.gateway.admin import Admin
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.model import envoy, gatewaylink
from agent.model.envoycounters import ALIVE
from agent.model.envoyparts import CHECKS
from agent.model.gatewaylink import Shared
from agent.model.gatewaypeer import Peer
from agent.model.gatewaytold import Told
from agent.runtime.supervisor import Supervisor
from hack.lab.benchmarks import report
from hack.lab.benchmarks.budgets import Budget
from hack.lab.benchmarks.errors import BenchError
from hack.lab.benchmarks.lab import open_lab, phase, until
from hack.lab.benchmarks.manifests import namespace
from hack.lab.sandbox.gateways import GatewayPod
from hack.lab.sandbox.manifests import AGENT_NAMESPACE

TRIES = 5
LIMIT_SECONDS = 12.0
_CLUSTER, _SPACE, _SERVICE, _PEER = "cd", "shop", "web", "peer"
_SOURCE = "another-source"
_PORTS = (("http", 80),)
LOOK_SECONDS = 0.05
_PATIENCE_SECONDS = 120.0

Raw = dict[str, Any]


@dataclass(frozen=True)
class Standstill:
    """Times of one try, in seconds since the peer was stopped unless noted otherwise."""

    after: float
    """Seconds from the beginning of the last health check to the stop."""
    noticed: float
    """Until the gateway's own Envoy stops routing to the peer."""
    told: float
    """Until the status of the GatewayPeer reports it."""
    led: float
    """Until no endpoint that routes to the peer is ready."""


async def peers(tries: int, progress: Progress) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark. Return the report as lines and as JSON values.

    Raises BenchError, SandboxError or KubeError.
    """
    first = f"127.{64 + os.getpid() % 128}.0."
    flags = ("--gateway", f"--gateway-address={first}1:15443")
    async with open_lab((_CLUSTER,), 1, 110, progress, agent_flags=flags) as lab:
        client, before = lab.source, await lab.sample()
        uid = (await client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
        kubeconfig = str(lab.sandbox[_CLUSTER].kubeconfig)
        async with (
            GatewayPod(_PEER, f"{first}2") as peer,
            GatewayPod(uid, f"{first}1", kubeconfig=kubeconfig) as own,
            Admin(str(own.directory / envoy.ADMIN)) as admin,
            Supervisor("bench") as supervisor,
        ):
            await _link(client, own, peer)
            bench = _Bench(client, admin, peer)
            for name, informer in {"peers": bench.peers, "slices": bench.slices}.items():
                supervisor.spawn(name, informer.run)
            found = [await bench.run(number / tries * pause()) for number in range(tries)]
        work = phase(before, await lab.sample())
    budgets = peers_budgets(found)
    figures = {
        "benchmark": "peers",
        "tries": [asdict(each) for each in found],
        "strangers_cpu_seconds": work.strangers,
        "budgets": report.budget_figures(budgets),
    }
    return [*peers_lines(found), *report.disturbance([work]), *report.budget_lines(budgets)], figures


def pause() -> float:
    """Return the seconds between two health checks of a healthy peer."""
    return float(CHECKS["interval"].removesuffix("s"))


def peers_budgets(found: list[Standstill]) -> list[Budget]:
    """Return the promised limits."""
    longest = max(each.led for each in found)
    return [Budget("a peer stands still, until no endpoint leads there, longest", longest, "most", LIMIT_SECONDS, "s")]


def peers_lines(found: list[Standstill]) -> list[str]:
    """Return a table of the times of each try."""
    rows = [["a peer stands still", "Envoy has noticed", "the GatewayPeer says so", "no endpoint is ready"]]
    for each in found:
        times = (f"after {value:.1f} s" for value in (each.noticed, each.told, each.led))
        rows.append([f"{each.after:.1f} s after a check has begun", *times])
    return ["", *report.table(rows), "kube-proxy gathers what changes for a second more"]


async def _link(client: Client, own: GatewayPod, peer: GatewayPod) -> None:
    """Create a Service that is a copy from another source; the cluster's gateways reach it through the peer."""
    shared = {names.LABEL_PARENT_CLUSTER_UID: _SOURCE}
    ports = [{"name": name, "port": port} for name, port in _PORTS]
    service = {"metadata": {"name": _SERVICE, "labels": shared}, "spec": {"ports": ports}}
    slice = {
        "metadata": {"name": GATEWAY_SERVICE, "labels": {names.LABEL_SERVICE_NAME: GATEWAY_SERVICE}},
        "addressType": "IPv4",
        "ports": [{"name": "gateway", "port": 15443}],
        "endpoints": [{"addresses": ["192.0.2.10"], "targetRef": {"kind": "Pod", "name": own.address}}],
    }
    told = Told(peer.ca, (peer.at,))
    made = gatewaylink.manifest(_PEER, _SPACE, _SOURCE, peer.uid, told, [Shared(_SERVICE, _PORTS, 1)], [])
    peer.tell([Peer("own", _SPACE, own.uid, own.ca, ())])
    await client.create(NAMESPACES, namespace(_SPACE))
    await client.create(SERVICES, service, _SPACE)
    await client.create(ENDPOINT_SLICES, slice, AGENT_NAMESPACE)
    await client.create(GATEWAY_PEERS, made, _SPACE)


class _Bench:
    def __init__(self, client: Client, admin: Admin, peer: GatewayPod) -> None:
        made = f"{names.LABEL_SLICE_MANAGED_BY}={GATEWAY_SLICE_MANAGER}"
        self.peers = Informer(client, GATEWAY_PEERS, _SPACE)
        self.slices = Informer(client, ENDPOINT_SLICES, _SPACE, labels=made)
        self._admin = admin
        self._peer = peer

    async def run(self, after: float) -> Standstill:
        """Stop the peer `after` seconds after the beginning of a check."""
        await until("the peer is called", self._is_led, _PATIENCE_SECONDS)
        await self._checked()
        await asyncio.sleep(after)
        began = time.monotonic()
        os.kill(self._peer.pid(), signal.SIGSTOP)
        try:
            steps = (self._has_noticed, self._is_told, self._is_not_led)
            noticed, told, led = await asyncio.gather(*(_since(began, each) for each in steps))
        finally:
            os.kill(self._peer.pid(), signal.SIGCONT)
        return Standstill(after, noticed, told, led)

    async def _checked(self) -> None:
        """Wait until a health check begins."""
        before = await self._counter("health_check.attempt")

        async def more() -> bool:
            return await self._counter("health_check.attempt") > before

        await _since(time.monotonic(), more)

    async def _counter(self, name: str) -> int:
        stats = await self._admin.stats()
        peer = Peer(_PEER, _SPACE, self._peer.uid, self._peer.ca, (self._peer.at,))
        return stats.counters.get(f"cluster.{ALIVE}{peer.gateways}.{name}", -1) if stats is not None else -1

    async def _has_noticed(self) -> bool:
        return await self._counter("membership_healthy") == 0

    async def _is_told(self) -> bool:
        peers = [each.decode() for each in self.peers.store]
        said = [each for peer in peers for each in ((peer.get("status") or {}).get("gateways") or {}).values()]
        return not any(each["healthy"] for each in said)

    async def _is_led(self) -> bool:
        slices = [each.decode() for each in self.slices.store]
        return any(each["conditions"]["ready"] for slice in slices for each in slice["endpoints"])

    async def _is_not_led(self) -> bool:
        return not await self._is_led()


async def _since(began: float, probe: Callable[[], Awaitable[bool]]) -> float:
    while not await probe():
        if time.monotonic() > began + _PATIENCE_SECONDS:
            raise BenchError(f"nothing has come of it within {_PATIENCE_SECONDS:.0f} s")
        await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic() - began
