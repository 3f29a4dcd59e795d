"""How a peer that stands still is noticed: by each gateway of a cluster, as its Envoy counts checks of health."""

import asyncio
import time
from typing import Any, NamedTuple

from agent.api.kinds import GATEWAY_PEERS
from agent.gateway.admin import Admin
from agent.model import envoy
from agent.model.envoycounters import PEER
from agent.model.envoyparts import Place, peer_cluster
from agent.model.gatewaypeer import Peer
from tests.e2e.fleet import Fleet
from tests.gateway.realnodes import PATIENCE_SECONDS, endpoints, gateway_pods, pids

Raw = dict[str, Any]

DIRECTORY = "/run/flotilla-gateway"
_LOOK_SECONDS = 0.1


class Noticed(NamedTuple):
    """Of one gateway pod: seconds since a moment, and checks of health that its Envoy has begun since then."""

    by_envoy: float
    checks: int
    by_slices: float
    """Until its endpoint is not ready."""
    checks_then: int


def threshold() -> int:
    """How many checks have to fail until Envoy leaves an address out."""
    (check,) = peer_cluster("", Peer("", "", "", "", ()), Place("", 1), "", {})["health_checks"]
    return int(check["unhealthy_threshold"])


async def noticed(fleet: Fleet, cluster: str, namespace: str, service: str, moment: float) -> list[Noticed]:
    """Wait until all gateways of a cluster, whose only peer stands still since a moment, lead to a Service no more."""
    (peer,) = await fleet.clients[cluster].list(GATEWAY_PEERS, namespace)
    prefix = f"cluster.{PEER}{namespace}/{peer['metadata']['name']}."

    async def of(pod: Raw) -> Noticed:
        process = pids(fleet, cluster, "envoy", pod["metadata"]["uid"])[0]
        async with Admin(f"/proc/{process}/root{DIRECTORY}/{envoy.ADMIN}") as admin:
            return await _watched(admin, prefix, lambda: _is_led(fleet, cluster, namespace, service, pod), moment)

    return await asyncio.gather(*map(of, await gateway_pods(fleet, cluster)))


async def _is_led(fleet: Fleet, cluster: str, namespace: str, service: str, pod: Raw) -> bool:
    return (pod["status"]["podIP"], True) in await endpoints(fleet, cluster, namespace, service)


async def _watched(admin: Admin, prefix: str, is_led: Any, moment: float) -> Noticed:
    first, found = -1, (0.0, 0)
    while time.time() < moment + PATIENCE_SECONDS:
        stats = await admin.stats()
        if stats is None:
            # On a busy machine it may not answer at once.
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
