"""`python -m agent.gateway`: the process beside Envoy in a gateway pod."""

import asyncio
import os
import sys
from pathlib import Path

from agent.base.flags import InvalidSetting
from agent.base.log import configure
from agent.gateway.admin import Admin
from agent.gateway.loop import Loop
from agent.gateway.settings import Settings, parse
from agent.model import envoy, hostport
from agent.model.envoy import Place
from agent.runtime.health import Health, heartbeat
from agent.runtime.process import run_until_signal
from agent.runtime.supervisor import Supervisor

_SILENT_SECONDS = 60.0


async def run(settings: Settings) -> None:
    """Go on until cancelled. Raises OSError for a port that is taken."""
    host, port = hostport.split(settings.listen)
    place = Place(settings.directory, port, host or "0.0.0.0", settings.answer)
    pulse, alive = heartbeat(_SILENT_SECONDS)
    health = Health(settings.health_address)
    health.live("loop", alive)
    async with Admin(f"{settings.directory}/{envoy.ADMIN}") as admin, Supervisor("gateway") as supervisor:
        loop = Loop(place, Path(settings.input), Path(settings.certificates), admin, loopback=settings.loopback)
        health.ready("gateway", loop.problem)
        supervisor.spawn("loop", lambda: loop.run(pulse))
        supervisor.spawn("health", health.serve)
        await asyncio.Event().wait()


def main() -> int:
    """Exit status: 0 after a signal, 1 for what cannot be used, 2 for usage."""
    try:
        settings = parse(sys.argv[1:])
        configure(settings.log_level, settings.log_json, cluster="")
        os.makedirs(settings.directory, mode=0o700, exist_ok=True)
        run_until_signal(run(settings))
    except (InvalidSetting, OSError) as error:
        sys.stderr.write(f"gateway: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
