"""Monitor of a target's agent: polls its lease and watches its ClusterSummary; `agent_health` judges both."""

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.kinds import LEASES
from agent.clusters.health.agent_health import (
    OWN,
    AgentRecord,
    AgentState,
    Pulse,
    conclude,
    flaw_of,
    is_readable,
    readable_leases,
)
from agent.clusters.port import Port
from agent.kube.errors import Forbidden, KubeError, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Object

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.model.source import Flaw

log = logging.getLogger(__name__)

_LEASE_FIELDS = f"metadata.name={names.LEASE_CONTROLLERS}"
_UNDECIDED_SECONDS = 3.0
"""Seconds between readings of the lease until the agent is known to be alive. A live agent renews it every 2 s."""


class AgentMonitor:
    """Monitors the agent of one target; calls `changed` whenever `record` changes."""

    def __init__(self, title: str, port: Port, summaries: Informer, interval: float, *, is_self: bool) -> None:
        """:param title: of the target, for the log
        :param interval: seconds between readings of the lease; an agent is silent if its lease has not changed
            for the lease duration and a third of this
        :param is_self: whether the agent of the target is this agent
        """
        self._title = title
        self._port = port
        self._summaries = summaries
        self._interval = interval
        self._is_self = is_self
        self.changed: Callable[[], None] = lambda: None
        self.record: AgentRecord | None = OWN if is_self else None
        """None until the state is first known."""
        self.homes: tuple[str, ...] = ()
        """Namespaces in the target that have a lease of an agent."""
        self.replicas: frozenset[str] = frozenset()
        """Identities of the agents that lead in the target, from these leases."""
        self._heard_at = -math.inf
        self._connected = asyncio.Event()
        self._pulse = Pulse(interval / 3)
        self._pulse_record = self.record
        self._flaw: Flaw | None = None

    @property
    def summary(self) -> Object | None:
        """Return the agent's report about its nodes; None while it is unknown or unusable."""
        return self._summary if self._flaw is None else None

    @property
    def told(self) -> Object | None:
        """Return the summary even if its report about nodes is flawed; None if it cannot be read."""
        summary = self._summary
        return summary if self._flaw is None or (summary is not None and is_readable(summary)) else None

    @property
    def _summary(self) -> Object | None:
        return self._summaries.store.get(("", names.SUMMARY_NAME))

    def connect(self, connected: bool) -> None:
        """Start or stop reading the lease."""
        if connected:
            self._connected.set()
        else:
            self._connected.clear()

    def heard_for(self, seconds: float) -> float:
        """Return the seconds until the last answer about the lease is older than `seconds`; 0 if it already is."""
        return max(self._heard_at + seconds - asyncio.get_running_loop().time(), 0.0)

    async def run(self) -> None:
        """Read the lease until cancelled."""
        if self._is_self:
            return
        while True:
            await self._connected.wait()
            await self._read_lease()
            alive = self._pulse_record is not None and self._pulse_record.usable
            await asyncio.sleep(self._interval if alive else min(self._interval, _UNDECIDED_SECONDS))

    def summary_changed(self, summary: Object | None) -> None:
        """Record the report of the agent."""
        self._flaw = flaw_of(summary) if summary is not None else None
        self._judge()

    async def _read_lease(self) -> None:
        try:
            _, items = await self._port.list_raw(LEASES, fields=_LEASE_FIELDS)
            leases = readable_leases(items)
        except (Forbidden, NotFound) as error:
            message = f"the lease {names.LEASE_CONTROLLERS} of the target's agent cannot be read: {error}"
            self._pulse_record = AgentRecord(AgentState.UNKNOWN, message)
        except KubeError as error:
            # The probe reports the reason.
            log.debug("lease of the agent of target %s: %s", self._title, error)
            return
        else:
            self._heard_at = asyncio.get_running_loop().time()
            self.homes = tuple(lease.metadata.namespace for lease in leases)
            self.replicas = frozenset(lease.spec.holder_identity or "" for lease in leases) - {""}
            self._pulse_record = self._pulse.read(leases, self._heard_at) or self._pulse_record
        self._judge()

    def _judge(self) -> None:
        old = self.record
        self.record = conclude(self._pulse_record, self._summary, self._flaw)
        if self.record is not None and self.record != old:
            level = logging.INFO if self.record.usable else logging.WARNING
            log.log(level, "agent of target %s: %s", self._title, self.record.message)
        if self.record != old:
            self.changed()
