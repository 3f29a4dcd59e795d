"""Times at which the pods of a Deployment were first observed, and observed as Running, from one watch."""

import time

from agent.api.kinds import PODS
from agent.kube.client import Client
from agent.kube.informer import Informer
from agent.kube.store import Object
from hack.lab.benchmarks.manifests import APP


class PodTimes:
    """Records the pods of one Deployment. Times are of `time.monotonic`, by UID.

    Both times come from the same watch, so that its delay nearly cancels out.
    """

    def __init__(self, client: Client, namespace: str, app: str) -> None:
        self.informer = Informer(client, PODS, namespace, labels=f"{APP}={app}")
        self.added: dict[str, float] = {}
        self.running: dict[str, float] = {}
        self.last_change = time.monotonic()
        self.informer.subscribe(self._changed)

    @property
    def left(self) -> int:
        """Number of existing pods."""
        return len(self.informer.store)

    @property
    def latencies(self) -> list[float]:
        """Seconds from the first observation to Running, for each pod that is Running."""
        return [moment - self.added[uid] for uid, moment in self.running.items()]

    def _changed(self, old: Object | None, new: Object | None) -> None:
        now = time.monotonic()
        self.last_change = now
        if new is None:
            return
        self.added.setdefault(new.uid, now)
        if new.phase == "Running":
            self.running.setdefault(new.uid, now)
