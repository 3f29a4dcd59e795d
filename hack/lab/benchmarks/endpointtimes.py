"""Times at which delegates become Ready, and at which each cluster's EndpointSlices contain exactly these."""

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from agent.api import names
from agent.api.kinds import ENDPOINT_SLICES, PODS
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from hack.lab.benchmarks.lab import Lab
from hack.lab.benchmarks.manifests import APP
from hack.lab.sandbox.manifests import NAMESPACE

_APP_OF_DELEGATE = names.PREFIX + APP
"""Label in the wire contract, present on delegates of every version."""


class EndpointTimes:
    """Records ready delegates and endpoints by Service. The caller passes the times. Pure.

    :param clusters: names of the clusters that have to receive all endpoints
    """

    def __init__(self, clusters: Collection[str]) -> None:
        self._ready: dict[str, dict[tuple[str, Key], str]] = {}
        """Addresses of ready delegates by Service, and by cluster and key of the pod."""
        self._known: dict[str, dict[str, dict[Key, set[str]]]] = {name: {} for name in clusters}
        """Addresses of ready endpoints by cluster, Service and key of the slice."""
        self._wrong: set[str] = set()
        """Services for which a cluster has a missing or an additional endpoint."""
        self._ready_at: dict[str, float] = {}
        self._right_at: dict[str, float] = {}

    @property
    def ready(self) -> int:
        """Number of delegates that are Ready."""
        return sum(map(len, self._ready.values()))

    @property
    def last_ready(self) -> float:
        """Time at which the last delegate became Ready."""
        return max(self._ready_at.values())

    @property
    def last_right(self) -> float:
        """Time since which every cluster has exactly the right endpoints."""
        return max(self._right_at.values())

    @property
    def lags(self) -> list[float]:
        """Seconds, by Service, from its last delegate Ready until all clusters had exactly its endpoints.

        The two events come from different watches: if the slices arrive first, the value is 0.
        """
        return [max(0.0, self._right_at[name] - ready) for name, ready in self._ready_at.items()]

    def wrong(self) -> list[str]:
        """Return the clusters without exactly the ready delegates, with the numbers of missing and other endpoints."""
        found = []
        for cluster in self._known:
            pairs = [(self._wanted(service), self._found(cluster, service)) for service in self._wrong]
            missing, more = sum(len(a - b) for a, b in pairs), sum(len(b - a) for a, b in pairs)
            if missing or more:
                found.append(f"{cluster} ({missing} missing, {more} too many)")
        return found

    def delegate(self, cluster: str, pod: Key, service: str, address: str, now: float) -> None:
        """Record a delegate of a cluster: its address if it is Ready, else an empty string."""
        ready = self._ready.setdefault(service, {})
        if ready.get((cluster, pod), "") == address:
            return
        if address:
            ready[cluster, pod] = address
            self._ready_at[service] = now
        else:
            del ready[cluster, pod]
        self._judge(service, now)

    def slice(self, cluster: str, slice: Key, service: str, addresses: set[str], now: float) -> None:
        """Record the addresses of the ready endpoints of an EndpointSlice; empty if it is deleted."""
        self._known[cluster].setdefault(service, {})[slice] = addresses
        self._judge(service, now)

    def _judge(self, service: str, now: float) -> None:
        wanted = self._wanted(service)
        if any(self._found(cluster, service) != wanted for cluster in self._known):
            self._wrong.add(service)
        elif service in self._wrong:
            self._wrong.discard(service)
            self._right_at[service] = now

    def _wanted(self, service: str) -> set[str]:
        return set(self._ready.get(service, {}).values())

    def _found(self, cluster: str, service: str) -> set[str]:
        return set[str]().union(*self._known[cluster].get(service, {}).values())


def watches(lab: Lab, times: EndpointTimes) -> list[Informer]:
    """Return informers that record delegates and EndpointSlices of all clusters while they run."""
    informers = []
    for target in lab.targets:
        pods = Informer(target, PODS, NAMESPACE, labels=_APP_OF_DELEGATE)
        pods.subscribe(partial(_pod_changed, times, target.name))
        informers.append(pods)
    for name, client in lab.clients.items():
        slices = Informer(client, ENDPOINT_SLICES, NAMESPACE, labels=f"{names.LABEL_SERVICE_NAME}!=kubernetes")
        slices.subscribe(partial(_slice_changed, times, name))
        informers.append(slices)
    return informers


def _pod_changed(times: EndpointTimes, cluster: str, old: Object | None, new: Object | None) -> None:
    pod = new or old
    assert pod is not None
    address = ready_address(new.decode()) if new is not None else ""
    times.delegate(cluster, pod.key, pod.labels[_APP_OF_DELEGATE], address, time.monotonic())


def _slice_changed(times: EndpointTimes, cluster: str, old: Object | None, new: Object | None) -> None:
    slice = new or old
    assert slice is not None
    addresses = ready_endpoints(new.decode()) if new is not None else set[str]()
    service = slice.labels[names.LABEL_SERVICE_NAME]
    times.slice(cluster, slice.key, service, addresses, time.monotonic())


def ready_address(pod: Mapping[str, Any]) -> str:
    """Return the address of a pod that is Ready, else an empty string. Pure."""
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return str(pod["status"].get("podIP", "")) if ready else ""


def ready_endpoints(slice: Mapping[str, Any]) -> set[str]:
    """Return the addresses of the ready endpoints of an EndpointSlice. Pure."""
    ready = (each for each in slice.get("endpoints") or () if each["conditions"].get("ready"))
    return {address for endpoint in ready for address in endpoint["addresses"]}
