"""Detection of a silent peer by each gateway of a cluster, from the health checks that its Envoy counts."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from agent.api.kinds import GATEWAY_PEERS
from agent.gateway.admin import Admin
from agent.model import envoy
from agent.model.envoycounters import PEER
from agent.model.envoyparts import Place, peer_cluster
from agent.model.gatewaypeer import Peer
from tests.background import background
from tests.e2e.fleet import Fleet
from tests.gateway.realnodes import PATIENCE_SECONDS, endpoints, gateway_pods, pids

Raw = dict[str, Any]

DIRECTORY = "/run/flotilla-gateway"
_LOOK_SECONDS = 0.1


class Noticed(NamedTuple):
    """Detection by one gateway pod: seconds since a given time, and health checks that its Envoy has begun since."""

    by_envoy: float
    checks: int
    by_slices: float
    """Seconds until its endpoint is not ready."""
    checks_then: int


def threshold() -> int:
    """Return the number of failed checks after which Envoy excludes an address."""
    (check,) = peer_cluster("", Peer("", "", "", "", ()), Place("", 1), "", {})["health_checks"]
    return int(check["unhealthy_threshold"])


async def noticed(fleet: Fleet, cluster: str, namespace: str, service: str, moment: float) -> list[Noticed]:
    """Wait until no gateway of a cluster routes traffic to a Service of its only peer, which stopped answering
    at `moment`."""
    prefix = await _counters_of(fleet, cluster, namespace)

    async def of(pod: Raw) -> Noticed:
        async with _admin(fleet, cluster, pod) as admin:
            return await _watched(admin, prefix, lambda: _is_led(fleet, cluster, namespace, service, pod), moment)

    return await asyncio.gather(*map(of, await gateway_pods(fleet, cluster)))


@contextlib.asynccontextmanager
async def found_well_again(fleet: Fleet, cluster: str, namespace: str) -> AsyncIterator[list[float]]:
    """Record the times at which a gateway of a cluster counts its only peer as healthy again."""
    prefix, moments = await _counters_of(fleet, cluster, namespace), list[float]()

    async def of(pod: Raw) -> None:
        was_well = True
        async with _admin(fleet, cluster, pod) as admin:
            while True:
                stats = await admin.stats()
                if stats is not None:
                    is_well = stats.counters[prefix + "membership_healthy"] > 0
                    if is_well and not was_well:
                        moments.append(time.time())
                    was_well = is_well
                await asyncio.sleep(_LOOK_SECONDS)

    async with contextlib.AsyncExitStack() as stack:
        for pod in await gateway_pods(fleet, cluster):
            await stack.enter_async_context(background(of(pod)))
        yield moments


async def _counters_of(fleet: Fleet, cluster: str, namespace: str) -> str:
    """Return the prefix of Envoy's counters of the only peer."""
    (peer,) = await fleet.clients[cluster].list(GATEWAY_PEERS, namespace)
    return f"cluster.{PEER}{namespace}/{peer['metadata']['name']}."


def _admin(fleet: Fleet, cluster: str, pod: Raw) -> Admin:
    process = pids(fleet, cluster, "envoy", pod["metadata"]["uid"])[0]
    return Admin(f"/proc/{process}/root{DIRECTORY}/{envoy.ADMIN}")


async def _is_led(fleet: Fleet, cluster: str, namespace: str, service: str, pod: Raw) -> bool:
    return (pod["status"]["podIP"], True) in await endpoints(fleet, cluster, namespace, service)


async def _watched(admin: Admin, prefix: str, is_led: Any, moment: float) -> Noticed:
    first, found = -1, (0.0, 0)
    while time.time() < moment + PATIENCE_SECONDS:
        stats = await admin.stats()
        if stats is None:
            # A busy machine may answer late.
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        attempts = stats.counters[prefix + "health_check.attempt"]
        first = attempts if first < 0 else first
        passed = time.time() - moment
        if not found[0] and stats.counters[prefix + "membership_healthy"] == 0:
            found = (passed, attempts - first)
        if found[0] and not await is_led():
            return Noticed(*found, time.time() - moment, attempts - first)
        await asyncio.sleep(_LOOK_SECONDS)
    raise AssertionError(f"a gateway still leads there after {PATIENCE_SECONDS:.0f} s")
