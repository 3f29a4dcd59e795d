"""Times at which delegates become Ready, and at which proxy pods and EndpointSlices have exactly their addresses."""

import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from agent.api import names
from agent.api.kinds import CHAPERONS, ENDPOINT_SLICES, PODS
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from hack.lab.benchmarks.lab import Lab
from hack.lab.benchmarks.manifests import APP
from hack.lab.sandbox.manifests import NAMESPACE

_APP_OF_DELEGATE = names.PREFIX + APP
"""Label in the wire contract, present on delegates of every version."""
REPORTS, PROXIES = "PodChaperons", "proxy pods"
"""Steps of the status of delegates: the target's agent writes it to PodChaperons, the source's agent to proxy pods."""
STEPS = (REPORTS, PROXIES)


class EndpointTimes:
    """Records ready delegates and endpoints by Service. The caller passes the times. Pure.

    :param clusters: names of the clusters that have to receive all endpoints
    """

    def __init__(self, clusters: Collection[str]) -> None:
        self._clusters = tuple(clusters)
        self._ready: dict[str, dict[tuple[str, Key], str]] = {}
        """Addresses of ready delegates by Service, and by cluster and key of the pod."""
        self._known: dict[str, dict[str, dict[Key, set[str]]]] = {name: {} for name in (*STEPS, *clusters)}
        """Ready addresses by place (cluster, or one of `STEPS`), Service, and key of the object."""
        self._wrong: set[tuple[str, str]] = set()
        """Places and Services with a missing or an additional address."""
        self._ready_at: dict[str, float] = {}
        self._right_at: dict[tuple[str, str], float] = {}
        """Times since which a place has exactly the right addresses of a Service."""

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
        return max(at for (place, _), at in self._right_at.items() if place in self._clusters)

    @property
    def lags(self) -> list[float]:
        """Seconds, by Service, from its last delegate Ready until all clusters had exactly its endpoints."""
        return [max(lags) for lags in zip(*map(self.lags_of, self._clusters), strict=True)]

    def lags_of(self, place: str) -> list[float]:
        """Return the seconds, by Service, from its last delegate Ready until a cluster or step was right.

        The two events come from different watches: if the slices arrive first, the value is 0.
        """
        return [max(0.0, self._right_at[place, name] - ready) for name, ready in self._ready_at.items()]

    def wrong(self) -> list[str]:
        """Return the clusters without exactly the ready delegates, with the numbers of missing and other endpoints."""
        found = []
        for cluster in self._clusters:
            pairs = [
                (self._wanted(name), self._found(cluster, name)) for place, name in self._wrong if place == cluster
            ]
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
        for place in self._known:
            self._judge(place, service, now)

    def step(self, step: str, pod: Key, service: str, address: str, now: float) -> None:
        """Record a PodChaperon or a proxy pod: its address if it is Ready, else an empty string."""
        self.slice(step, pod, service, {address} if address else set(), now)

    def slice(self, cluster: str, slice: Key, service: str, addresses: set[str], now: float) -> None:
        """Record the addresses of the ready endpoints of an EndpointSlice; empty if it is deleted."""
        self._known[cluster].setdefault(service, {})[slice] = addresses
        self._judge(cluster, service, now)

    def _judge(self, place: str, service: str, now: float) -> None:
        key = (place, service)
        if self._found(place, service) != self._wanted(service):
            self._wrong.add(key)
        elif key in self._wrong:
            self._wrong.discard(key)
            self._right_at[key] = now

    def _wanted(self, service: str) -> set[str]:
        return set(self._ready.get(service, {}).values())

    def _found(self, place: str, service: str) -> set[str]:
        return set[str]().union(*self._known[place].get(service, {}).values())


def watches(lab: Lab, times: EndpointTimes) -> list[Informer]:
    """Return informers that record pods, PodChaperons and EndpointSlices of all clusters while they run."""
    proxies = Informer(lab.source, PODS, NAMESPACE, labels=APP)
    proxies.subscribe(partial(_step_changed, times, PROXIES, APP))
    informers = [proxies]
    for target in lab.targets:
        pods = Informer(target, PODS, NAMESPACE, labels=_APP_OF_DELEGATE)
        pods.subscribe(partial(_pod_changed, times, target.name))
        reports = Informer(target, CHAPERONS, NAMESPACE, labels=_APP_OF_DELEGATE)
        reports.subscribe(partial(_step_changed, times, REPORTS, _APP_OF_DELEGATE))
        informers += [pods, reports]
    for name, client in lab.clients.items():
        slices = Informer(client, ENDPOINT_SLICES, NAMESPACE, labels=f"{names.LABEL_SERVICE_NAME}!=kubernetes")
        slices.subscribe(partial(_slice_changed, times, name))
        informers.append(slices)
    return informers


def _step_changed(times: EndpointTimes, step: str, label: str, old: Object | None, new: Object | None) -> None:
    pod = new or old
    assert pod is not None
    address = ready_address(new.decode()) if new is not None else ""
    times.step(step, pod.key, pod.labels[label], address, time.monotonic())


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
    status = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return str(status.get("podIP", "")) if ready else ""


def ready_endpoints(slice: Mapping[str, Any]) -> set[str]:
    """Return the addresses of the ready endpoints of an EndpointSlice. Pure."""
    ready = (each for each in slice.get("endpoints") or () if each["conditions"].get("ready"))
    return {address for endpoint in ready for address in endpoint["addresses"]}
