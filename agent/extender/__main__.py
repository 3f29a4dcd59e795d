"""`python -m agent.extender`: the bind extender as a separate process with separate permissions."""

import contextlib
import sys

from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.extender.server import Extender
from agent.kube.config import load
from agent.runtime.entry import run_process
from agent.runtime.guardedmetrics import GuardedMetrics
from agent.runtime.health import Health
from agent.runtime.supervisor import Supervisor
from agent.runtime.task_group import together
from agent.settings import InvalidSetting, Settings, parse

_PROGRAM = "python -m agent.extender"
_PURPOSE = (
    "Flotilla's bind extender for the candidate scheduler (mode reserve), outside the agent. Of the agent's settings"
    " those of extender, cluster, log, health and metrics count, and of --tuning hold and request-timeout."
)


async def run(settings: Settings) -> None:
    """Serve until cancelled.

    :raises InvalidSetting: if a setting is invalid
    :raises InvalidConfig: if the kubeconfig cannot be used
    :raises OSError: if the port is in use
    """
    if not settings.extender_address:
        raise InvalidSetting("--extender-address: say where to serve the candidate scheduler, such as 127.0.0.1:10261")
    connection = load(settings.kubeconfig or None, settings.context or None)
    local = Cluster(connection, "local", timeout=settings.request_timeout)
    health = Health(settings.health_address, metrics=not settings.metrics_address)
    async with contextlib.AsyncExitStack() as stack, Supervisor("replica") as supervisor:
        stack.push_async_callback(local.close)
        extender = Extender(local, SystemClock(), settings)
        await extender.start()
        supervisor.spawn("extender", extender.run)
        metrics = settings.metrics_address
        await together(health.serve(), *((GuardedMetrics(metrics, local.client).serve(),) if metrics else ()))


def main() -> int:
    """Run the extender. Return 0 after a signal, 1 for invalid settings or kubeconfig, 2 for usage errors."""
    return run_process("extender", lambda: parse(sys.argv[1:], _PROGRAM, _PURPOSE), run)


if __name__ == "__main__":
    sys.exit(main())
