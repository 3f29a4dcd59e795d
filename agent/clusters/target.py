"""One target as a state machine: connecting, ready, lost and back, with a public health record."""

import asyncio
import logging
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from agent.api import names
from agent.api.kinds import CHAPERONS, Kind
from agent.base.clock import Clock
from agent.clusters.cluster import Cluster
from agent.kube.errors import Forbidden, InvalidConfig, KubeError, NotFound, StatusError, Unauthorized, Unreachable
from agent.kube.informer import Informer
from agent.kube.store import Key, Object

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)


class State(StrEnum):
    """What we know of a target. The values are reasons of its conditions."""

    CONNECTING = "Connecting"
    READY = "Connected"
    UNREACHABLE = "Unreachable"
    UNAUTHORIZED = "Unauthorized"
    FORBIDDEN = "Forbidden"
    NOT_INSTALLED = "NotInstalled"
    FAILING = "Failing"


@dataclass(frozen=True)
class Record:
    """A target's health as others may read it."""

    state: State
    message: str
    since: datetime
    """When this state began."""
    failures: int = 0
    """Probes that failed in a row."""


@dataclass(frozen=True)
class Probing:
    """Seconds and counts of the probe."""

    interval: float = 5.0
    timeout: float = 3.0
    failures: int = 2
    """A target that was ready counts as unreachable after so many failed probes in a row."""


class Target:
    """A cluster that runs our delegates, as one Target (or, with an empty namespace, ClusterTarget) names it.

    Chaperons are watched from the start. `ready` means: reachable, authorised, and the chaperons known. While it is
    not, nothing may be concluded from what the stores do not hold.
    """

    def __init__(self, key: Key, cluster: Cluster, clock: Clock, probing: Probing, *, is_self: bool = False) -> None:
        self.key = key
        self.cluster = cluster
        self.is_self = is_self
        self.finalizer = names.finalizer(*key)
        self.node_name = names.virtual_node(*key)
        self.record = Record(State.CONNECTING, "connecting", clock.now())
        self.changed: Callable[[Target], None] = lambda target: None
        self._clock = clock
        self._probing = probing
        self._probe_now = asyncio.Event()
        self.chaperons = self.informer(CHAPERONS, labels=names.LABEL_PARENT_UID)
        self.chaperons.store.index("parent", parent_of)

    @property
    def namespace(self) -> str:
        """The only namespace this target serves, empty for all."""
        return self.key[0]

    @property
    def title(self) -> str:
        """How a user calls it."""
        return self.key[1]

    @property
    def ready(self) -> bool:
        """Whether pods may be sent there and its stores may be believed."""
        return self.record.state is State.READY

    def serves(self, namespace: str) -> bool:
        """Whether pods of a namespace may go there."""
        return not self.namespace or self.namespace == namespace

    def informer(self, kind: Kind, *, labels: str = "", fields: str = "") -> Informer:
        """A shared informer of the target cluster, within the namespace this target serves."""
        namespace = self.namespace if kind.namespaced else None
        return self.cluster.informer(kind, namespace, labels=labels, fields=fields)

    def doubt(self) -> None:
        """A request got no answer: probe now rather than at the next interval."""
        self._probe_now.set()

    async def run(self) -> None:
        """Probe until cancelled; every change of state is told to `changed`."""
        while True:
            self._probe_now.clear()
            self._conclude(await self._probe())
            try:
                async with asyncio.timeout(self._pause()):
                    await self._probe_now.wait()
            except TimeoutError:
                pass

    def _pause(self) -> float:
        if self.record.state is State.CONNECTING or (self.ready and self.record.failures):
            return min(0.25, self._probing.interval)
        return self._probing.interval

    async def _probe(self) -> KubeError | None:
        path = CHAPERONS.path(self.namespace or None)
        try:
            await self.cluster.client.session.request(
                "GET",
                path,
                params={"limit": "1", "resourceVersion": "0"},
                resource=CHAPERONS.plural,
                timeout=self._probing.timeout,
            )
        except KubeError as error:
            return error
        return None

    def _conclude(self, error: KubeError | None) -> None:
        old = self.record
        if error is None:
            self._answered(old)
            return
        failures = old.failures + 1
        state, message = classify(error, self.namespace)
        if (
            old.state is State.READY
            and state in (State.UNREACHABLE, State.FAILING)
            and failures < self._probing.failures
        ):
            self.record = replace(old, failures=failures)
            return
        since = old.since if state is old.state else self._clock.now()
        self._become(Record(state, message, since, failures))

    def _answered(self, old: Record) -> None:
        if old.state is State.READY:
            self.record = replace(old, failures=0)
        elif not self.chaperons.synced.is_set() or (self.chaperons.error is not None and old.failures):
            if old.failures:
                self.cluster.informers.interrupt()
            self.record = replace(old, failures=0)
            if old.state is not State.CONNECTING:
                self._become(Record(State.CONNECTING, "reachable again, reading its state", self._clock.now()))
        else:
            if old.failures and not self.is_self:
                self.cluster.informers.interrupt()
            self._become(Record(State.READY, "connected", self._clock.now()))

    def _become(self, record: Record) -> None:
        old, self.record = self.record, record
        if (old.state, old.message) != (record.state, record.message):
            log.info("target %s: %s: %s", "/".join(self.key).lstrip("/"), record.state.value, record.message)
            self.changed(self)


def classify(error: KubeError, namespace: str) -> tuple[State, str]:
    """The state that an error of the probe means, with a message that a user can act on."""
    where = f"in namespace {namespace}" if namespace else "in all namespaces"
    match error:
        case Unauthorized():
            return State.UNAUTHORIZED, f"the target refuses the credentials ({error}): renew the kubeconfig Secret"
        case Forbidden():
            return State.FORBIDDEN, f"not allowed to list podchaperons {where}: create a Source there ({error})"
        case NotFound():
            return State.NOT_INSTALLED, "the target does not serve PodChaperons: install the agent there"
        case Unreachable() | InvalidConfig():
            return State.UNREACHABLE, str(error)
        case StatusError():
            return State.FAILING, f"the target answers with an error: {error}"
        case _:
            return State.FAILING, str(error)


def parent_of(chaperon: Object) -> list[str]:
    """Key of the proxy pod that a chaperon stands for, as `namespace/name`."""
    annotations = chaperon.annotations
    namespace = annotations.get(names.ANNOTATION_PARENT_NAMESPACE, chaperon.namespace)
    name = annotations.get(names.ANNOTATION_PARENT_NAME, chaperon.name)
    return [f"{namespace}/{name}"]
