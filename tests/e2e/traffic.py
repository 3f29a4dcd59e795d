"""Continuous requests in every cluster, and the history of a Deployment during these requests."""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, PODS, SERVICES
from agent.api.names import LABEL_SERVICE_NAME
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import endpoints
from tests.e2e import requester
from tests.e2e.fleet import Fleet
from tests.e2e.manifests import DEPLOYMENTS, REPLICASETS
from tests.e2e.shared import CLUSTERS

Raw = dict[str, Any]
RATE = 50.0
"""Requests per second of all clients together."""
BALANCER = "balancer"
_MEET_SECONDS = 300.0
_REVISION = "deployment.kubernetes.io/revision"


class Traffic:
    """Clients in the networks of clusters, each with its own backends, and the results of their requests."""

    def __init__(self, rate: float) -> None:
        """Set the request rate.

        :param rate: requests per second of each client
        """
        self._rate = rate
        self._processes: dict[str, Process] = {}
        self._asked: Counter[str] = Counter()
        self._met: defaultdict[str, set[str]] = defaultdict(set)
        """Number of requests by client, and the backends that answered each client, from the output read so
        far."""
        self.results: dict[str, Raw] = {}

    async def begin(self, fleet: Fleet, name: str, cluster: str) -> None:
        """Start a client in the network of a cluster."""
        await self.begin_in(f"/var/run/netns/{fleet.sandbox[cluster].runner.cluster.namespace}", name)

    async def begin_in(self, network: str, name: str) -> None:
        """Start a client in a network namespace."""
        program = (sys.executable, str(Path(requester.__file__)), str(self._rate))
        self._processes[name] = await asyncio.create_subprocess_exec(
            "nsenter", f"--net={network}", "--", *program, stdin=PIPE, stdout=PIPE
        )

    def ask(self, name: str, backends: list[str]) -> None:
        """Set the backends that a client sends requests to from now on."""
        process = self._processes.get(name)
        assert process is not None
        assert process.stdin is not None
        process.stdin.write((" ".join(backends) + "\n").encode())

    async def end(self) -> None:
        """Close all clients' input, wait for their last answers and read their results."""
        for process in self._processes.values():
            if process.stdin is not None:
                process.stdin.close()
        for name, process in self._processes.items():
            output, _ = await process.communicate()
            self.results[name] = json.loads(output.splitlines()[-1])

    async def asked(self, name: str, count: int) -> None:
        """Wait until a client has sent `count` requests."""
        while self._asked[name] < count:
            await self._read(name)

    async def met(self, backends: set[str]) -> None:
        """Wait until each backend has answered every client. Raises AssertionError after five minutes."""
        for name in self._processes:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_MEET_SECONDS):
                    while not backends <= self._met[name]:
                        await self._read(name)
            missing = backends - self._met[name]
            assert not missing, f"{name} had no answer of {sorted(missing)}"

    async def _read(self, name: str) -> None:
        process = self._processes[name]
        assert process.stdout is not None
        word, _, value = (await process.stdout.readline()).decode().strip().partition(" ")
        if word == "asked":
            self._asked[name] = int(value)
        else:
            assert word == "met", f"the client of {name} has ended"
            self._met[name].add(value)

    def kill(self) -> None:
        """Kill clients that still run."""
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()

    def none_failed(self, seconds: float) -> None:
        """Check that every request was answered, and that there were enough requests for a meaningful result."""
        failed = {name: each["failed"] for name, each in self.results.items() if each["failed"]}
        assert not failed, f"requests failed: {json.dumps(failed, indent=1)}"
        self.enough_asked(seconds)

    def enough_asked(self, seconds: float) -> None:
        """Check that each client sent at least a quarter of the requests planned for `seconds`."""
        asked = {name: each["asked"] for name, each in self.results.items()}
        assert min(asked.values()) >= seconds * self._rate / 4, f"too few were asked: {asked}"

    def answered_by(self, name: str) -> set[str]:
        """Return the backends that have answered a client."""
        return set(self.results[name]["answers"])


def through_ingress(cluster: str) -> str:
    """Return the name of the client that asks the ingress controller of a cluster."""
    return f"ingress of {cluster}"


def by_headless_name(cluster: str) -> str:
    """Return the name of the client that asks the addresses of a headless Service in a cluster."""
    return f"headless name in {cluster}"


@contextlib.asynccontextmanager
async def traffic(
    fleet: Fleet, namespace: str, service: str, ingresses: Mapping[str, str] | None = None, headless: str = ""
) -> AsyncIterator[Traffic]:
    """Send requests from clients until the end of the block, then wait for all answers.

    One client in each cluster uses the Service's cluster IP. One in the source uses the endpoints in its
    EndpointSlices.

    :param ingresses: addresses of ingress controllers by cluster; one more client in that cluster uses each

    :param headless: name of a headless Service, which one more client in each cluster uses. There is no cluster
    DNS: the client uses the addresses that CoreDNS would publish, which are the ready ones in the local
    EndpointSlices, and caches none of them.
    """
    names = {by_headless_name(cluster): cluster for cluster in CLUSTERS} if headless else {}
    found = Traffic(RATE / (len(CLUSTERS) + 1 + len(ingresses or ()) + len(names)))
    try:
        async with contextlib.AsyncExitStack() as stack:
            for cluster in CLUSTERS:
                await found.begin(fleet, cluster, cluster)
                there = await fleet.clients[cluster].get(SERVICES, service, namespace)
                found.ask(cluster, [f"{there['spec']['clusterIP']}:80"])
            for cluster, address in (ingresses or {}).items():
                await found.begin(fleet, through_ingress(cluster), cluster)
                found.ask(through_ingress(cluster), [address])
            await stack.enter_async_context(_by_slices(found, fleet, BALANCER, CLUSTERS[0], namespace, service))
            for name, cluster in names.items():
                await stack.enter_async_context(_by_slices(found, fleet, name, cluster, namespace, headless))
            yield found
            await found.end()
    finally:
        found.kill()


@contextlib.asynccontextmanager
async def _by_slices(
    found: Traffic, fleet: Fleet, name: str, cluster: str, namespace: str, service: str
) -> AsyncIterator[None]:
    """Run a client that uses the ready endpoints in a cluster's EndpointSlices of a Service."""
    slices = Informer(fleet.clients[cluster], ENDPOINT_SLICES, namespace, labels=f"{LABEL_SERVICE_NAME}={service}")
    await found.begin(fleet, name, cluster)
    slices.subscribe(lambda old, new: found.ask(name, _backends(slices)))
    async with _running(slices):
        yield


def _backends(slices: Informer) -> list[str]:
    """Return the ready endpoints of all slices, as ingress controllers and DNS servers use them."""
    found = [slice.decode() for slice in slices.store]
    return sorted(
        {
            f"{address}:{port['port']}"
            for slice in found
            for addresses in endpoints.ready(slice).values()
            for address in addresses
            for port in slice.get("ports") or ()
        }
    )


class History:
    """Every state of a Deployment, its ReplicaSets and pods that a watch has reported."""

    def __init__(self) -> None:
        self.available: list[int] = []
        self.pods: list[int] = []
        """Number of pods that were not terminating, after each event."""
        self.revisions: set[str] = set()
        self.replica_sets: set[str] = set()
        self._living: set[str] = set()

    def deployment(self, old: Object | None, new: Object | None) -> None:
        """Record a state of the Deployment."""
        if new is not None:
            found = new.decode()
            self.available.append(found.get("status", {}).get("availableReplicas", 0))
            self.revisions.add(found["metadata"]["annotations"][_REVISION])

    def replica_set(self, old: Object | None, new: Object | None) -> None:
        """Record a ReplicaSet."""
        if new is not None:
            self.replica_sets.add(new.uid)

    def pod(self, old: Object | None, new: Object | None) -> None:
        """Record a pod that has been created, changed or deleted."""
        for pod in (old, new):
            if pod is not None:
                self._living.discard(pod.uid)
        if new is not None and not new.deleting:
            self._living.add(new.uid)
        self.pods.append(len(self._living))


@contextlib.asynccontextmanager
async def history(fleet: Fleet, namespace: str, app: str) -> AsyncIterator[History]:
    """Record the history of an app's Deployment, and of ReplicaSets and pods with the app's label."""
    found = History()
    name, labels = f"metadata.name={app}", f"app={app}"
    watched: list[tuple[Informer, Callable[[Object | None, Object | None], None]]] = [
        (Informer(fleet.source, DEPLOYMENTS, namespace, fields=name), found.deployment),
        (Informer(fleet.source, REPLICASETS, namespace, labels=labels), found.replica_set),
        (Informer(fleet.source, PODS, namespace, labels=labels), found.pod),
    ]
    async with contextlib.AsyncExitStack() as stack:
        for informer, note in watched:
            await stack.enter_async_context(_running(informer))
            informer.subscribe(note)
        # The informer delivers initial pods one by one: keep only the final count.
        found.pods = found.pods[-1:]
        yield found


@contextlib.asynccontextmanager
async def _running(informer: Informer) -> AsyncIterator[None]:
    running = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        yield
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
