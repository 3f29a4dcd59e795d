"""All controllers of a member of a hub."""

from typing import Any

from agent.clusters.deps import Deps
from agent.klusterlet.drift import Watches
from agent.klusterlet.hub import HubController
from agent.klusterlet.reports import ReportsController
from agent.klusterlet.works import EVICTION_SECONDS, WorksController
from agent.runtime.controller import Controller


def build(deps: Deps, *, eviction_seconds: float = EVICTION_SECONDS) -> list[Controller[Any]]:
    """Return the controllers, which share the connection to the hub."""
    hub, watches = HubController(deps), Watches(deps.local.informers)
    works = WorksController(deps, hub, watches, eviction_seconds=eviction_seconds)
    return [hub, works, ReportsController(deps, hub, works, watches)]
