"""`python -m agent.gateway`: the process next to Envoy in a gateway pod."""

import asyncio
import contextlib
import os
import socket
import sys
from pathlib import Path

from agent.base.flags import InvalidSetting
from agent.base.log import configure
from agent.gateway.admin import Admin
from agent.gateway.cluster import FromCluster
from agent.gateway.files import start
from agent.gateway.loop import Loop
from agent.gateway.settings import Settings, parse
from agent.kube.client import Client
from agent.kube.config import load
from agent.kube.errors import InvalidConfig
from agent.kube.session import Session
from agent.model import envoy, hostport
from agent.model.envoyparts import Place
from agent.model.gatewaysize import limits
from agent.runtime.health import Health, heartbeat
from agent.runtime.listening import has_family
from agent.runtime.process import run_until_signal
from agent.runtime.supervisor import Supervisor

_SILENT_SECONDS = 60.0


def place_of(settings: Settings) -> Place:
    """Return Envoy's addresses. An empty host means all addresses of the IP families that this pod has."""
    everywhere = "::" if has_family(socket.AF_INET6) else "0.0.0.0"
    host, port = hostport.split(settings.listen)
    live, live_port = hostport.split(settings.live)
    return Place(
        settings.directory,
        port,
        host or everywhere,
        settings.answer,
        hostport.join(live or everywhere, live_port),
        connections=settings.connections,
    )


async def run(settings: Settings) -> None:
    """Run until cancelled. Raises OSError for a port that is in use, InvalidConfig."""
    place = place_of(settings)
    pulse, alive = heartbeat(_SILENT_SECONDS)
    seen, looking = heartbeat(_SILENT_SECONDS)
    health = Health(settings.health_address)
    health.live("loop", alive)
    health.live("counters", looking)
    async with contextlib.AsyncExitStack() as stack:
        admin = await stack.enter_async_context(Admin(f"{settings.directory}/{envoy.ADMIN}"))
        loop = Loop(place, Path(settings.input), Path(settings.certificates), admin, loopback=settings.loopback)
        cluster = await _cluster(settings, loop, stack) if settings.from_cluster else None
        health.ready("gateway", lambda: _problem(loop, cluster))
        supervisor = await stack.enter_async_context(Supervisor("gateway"))
        for name, task in cluster.tasks() if cluster is not None else ():
            supervisor.spawn(name, task)
        supervisor.spawn("loop", lambda: loop.run(pulse))
        supervisor.spawn("counters", lambda: loop.watch(seen))
        supervisor.spawn("health", health.serve)
        await asyncio.Event().wait()


async def _cluster(settings: Settings, loop: Loop, stack: contextlib.AsyncExitStack) -> FromCluster:
    session = await stack.enter_async_context(Session(load(settings.kubeconfig or None), name="local"))
    return FromCluster(Client(session), settings.named, Path(settings.input), loop, limits(settings.memory))


def _problem(loop: Loop, cluster: FromCluster | None) -> str | None:
    """Return why the gateway is not ready, None if it is. An unreadable cluster explains a missing input file."""
    found = loop.problem()
    return (cluster.problem() if found and cluster is not None else None) or found


def main() -> int:
    """Return the exit status: 0 after a signal, 1 for unusable settings or files, 2 for wrong usage."""
    try:
        settings = parse(sys.argv[1:])
        configure(settings.log_level, settings.log_json, cluster="")
        os.makedirs(settings.directory, mode=0o700, exist_ok=True)
        if settings.prepare:
            start(place_of(settings))
        else:
            run_until_signal(run(settings))
    except (InvalidSetting, InvalidConfig, OSError) as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
