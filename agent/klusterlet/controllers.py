"""All controllers of a member of a hub."""

from typing import Any

from agent.clusters.deps import Deps
from agent.klusterlet.accounts import Accounts
from agent.klusterlet.drift import Watches
from agent.klusterlet.hub import HubController
from agent.klusterlet.reports import ReportsController
from agent.klusterlet.works import EVICTION_SECONDS, WorksController
from agent.runtime.controller import Controller
from agent.runtime.informers import Informers


def build(deps: Deps, *, eviction_seconds: float = EVICTION_SECONDS) -> list[Controller[Any]]:
    """Return the controllers, which share the connection to the hub."""
    hub, accounts = HubController(deps), Accounts(deps)
    watches = Watches(Informers(accounts.client(""), deps.local.supervisor))
    works = WorksController(deps, hub, watches, accounts, eviction_seconds=eviction_seconds)
    return [hub, works, ReportsController(deps, hub, works, watches, accounts)]
