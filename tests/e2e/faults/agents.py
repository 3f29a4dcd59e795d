"""Restart a fleet's agents with other settings, or with a proxy to their own API server."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence

from hack.lab.sandbox import faults, kubeconfig, process
from hack.lab.sandbox.components import AGENT, AGENT_KUBECONFIG, Context
from tests.e2e.fleet import Fleet, token_of

USUAL_SETTINGS = (
    "--lease-duration=12",
    "--lease-renew=9",
    "--lease-retry=2",
    "--probe-interval=5",
    "--probe-timeout=3",
    "--slow-target=0.5",
    "--follow-wait=5",
)
"""Default values of flags for which fleets use other values."""


@contextlib.asynccontextmanager
async def agent_with(
    fleet: Fleet, cluster: str, flags: Sequence[str] = (), *, module: str = AGENT.module, first: Sequence[str] = ()
) -> AsyncIterator[None]:
    """Restart the agent of a cluster with `flags` after its usual flags and `first` before them; restore it at
    the end."""

    def arguments(context: Context) -> list[str]:
        return [*first, *AGENT.arguments(context), *flags]

    runner = fleet.sandbox[cluster].runner
    await fleet.sandbox.stop(cluster, "agent")
    try:
        await runner.started(dataclasses.replace(AGENT, module=module, arguments=arguments))
        yield
    finally:
        pid = runner.find("agent")
        if pid is not None:
            await process.stop(pid, runner.mark("agent"), grace=5)
        await fleet.sandbox.start(cluster, "agent")


@contextlib.asynccontextmanager
async def agent_by(fleet: Fleet, cluster: str, proxy: faults.LossyProxy, *flags: str) -> AsyncIterator[None]:
    """Let the agent of a cluster reach its own API server through a proxy."""
    file = fleet.sandbox[cluster].directory / AGENT_KUBECONFIG
    straight = file.read_text()
    token = await token_of(fleet.clients[cluster], "flotilla-agent", fleet.home)
    file.write_text(kubeconfig.render(cluster, proxy.url, proxy.authority, token=token))
    async with agent_with(fleet, cluster, flags):
        try:
            yield
        finally:
            file.write_text(straight)


def proxy_of(fleet: Fleet, cluster: str, drop: faults.Drop = lambda method, path, body: False) -> faults.LossyProxy:
    """Return a proxy for a cluster's API server, at an address that every cluster reaches."""
    gateway = fleet.sandbox.plan.host_address
    authority = (fleet.sandbox[cluster].directory / "pki" / "ca.crt").read_bytes()
    return faults.LossyProxy(fleet.sandbox[cluster].server, authority, gateway, drop)
