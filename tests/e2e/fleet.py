"""A fleet: source and targets with agents, helpers for tests, and a report if a condition never becomes true."""

import asyncio
import contextlib
import functools
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import aiohttp

from agent.api.kinds import (
    CHAPERONS,
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUMES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    SOURCES,
    TARGETS,
    Kind,
)
from agent.api.names import (
    LABEL_PARENT_UID,
    LABEL_STAND_IN,
    PROVIDER_KEY,
    SCHEDULER_CANDIDATE,
    SCHEDULER_PROXY,
    SHORT_PREFIX,
    WEIGHT,
    moves,
    virtual_node,
)
from agent.kube.client import Client
from agent.kube.errors import KubeError, NotFound
from hack.lab.sandbox import Sandbox, faults, kubeconfig
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.sandbox.objects import apply, connect
from tests.chart import helm
from tests.e2e import manifests
from tests.e2e.census import Census
from tests.e2e.installed import Installed
from tests.e2e.report import report
from tests.e2e.reuse import Key, Reuse
from tests.nodes import takes_pods
from tests.waiting import gone, until

Raw = dict[str, Any]
T = TypeVar("T")

PATIENCE_SECONDS = 60.0


class Fleet:
    """A sandbox with a client per cluster that has all rights. `source` is the first cluster's client; agents
    run in the namespace `home`."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.names = [cluster.name for cluster in sandbox.clusters]
        self.clients = {each.name: connect(each.kubeconfig, name=each.name) for each in sandbox.clusters}
        self.source = self.clients[self.names[0]]
        self.home = helm.NAMESPACE if isinstance(sandbox, Installed) else AGENT_NAMESPACE
        self.census = Census(self.clients)
        self._reuse = Reuse(self.clients)
        self._leaving: list[tuple[str, str]] = []
        self._seen_gone = 0
        """Number of these namespaces whose deletion has been confirmed."""

    async def close(self) -> None:
        """Close all connections."""
        for client in self.clients.values():
            await client.session.close()

    async def until(
        self, what: str, probe: Callable[[], Awaitable[T]], *, about: str = "", seconds: float = PATIENCE_SECONDS
    ) -> T:
        """Return the probe's result once it is true. On timeout, report on the namespace `about`."""
        try:
            return await until(probe, seconds, what=what, forgiven=KubeError)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await report(self, about)}") from error

    async def gone(self, kind: Kind, name: str, namespace: str | None = None, *, source: str = "") -> None:
        """Wait until an object no longer exists."""
        client = self.clients[source] if source else self.source
        read = functools.partial(client.get, kind, name, namespace)
        try:
            await gone(read, PATIENCE_SECONDS, what=f"{kind.name} {name} is gone", forgiven=KubeError)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{await report(self, namespace or name)}") from error

    @contextlib.asynccontextmanager
    async def namespace(
        self, targets: Sequence[str] = ("us", "eu"), *, source: str = "", name: str = "", enabled: bool = True
    ) -> AsyncIterator[str]:
        """Provide a namespace in every cluster, whose elected pods may run in `targets`.

        If the test leaves it unchanged, a later test reuses it. Otherwise it is deleted with its objects, and
        `all_gone` checks that nothing is left.
        """
        key = Key(source or self.names[0], tuple(targets), enabled)
        again = "" if name else await self._again(key)
        ours = again or name or f"e2e-{secrets.token_hex(3)}"
        try:
            if not again:
                await self._make(ours, key)
                if not name:
                    await self._reuse.remember(ours, key)
            yield ours
        finally:
            if not await self._reuse.give_back(ours):
                await self.leave(ours, key.source)
            await self._leave_rejected()

    async def _again(self, key: Key) -> str:
        """Return a namespace that another test has left unchanged; empty if there is none."""
        name = await self._reuse.take(key)
        await self._leave_rejected()
        if name:
            await until(lambda: not self.census.of(name), what=f"the census has seen the last of {name}")
            self.census.forget(name)
        return name

    async def _leave_rejected(self) -> None:
        while self._reuse.rejected:
            await self.leave(*self._reuse.rejected.pop())

    async def _make(self, name: str, key: Key) -> None:
        """Create a namespace in every cluster, with its Targets."""
        homes = (self._home(name, cluster, enabled=key.enabled and cluster == key.source) for cluster in self.clients)
        await asyncio.gather(*homes)
        await asyncio.gather(*(self.join(name, target, source=key.source) for target in key.targets))

    async def _home(self, name: str, cluster: str, *, enabled: bool) -> None:
        """Create a namespace in a cluster and wait until it accepts pods."""
        client = self.clients[cluster]
        with contextlib.suppress(KubeError):
            await client.create(NAMESPACES, manifests.namespace(name, enabled=enabled))
        probe = functools.partial(client.get, SERVICE_ACCOUNTS, "default", name)
        await self.until(f"{cluster} is ready for pods", probe)

    async def leave(self, namespace: str, source: str) -> None:
        """Delete a namespace of a source; `all_gone` waits for its end.

        Its pods and Targets are deleted right away, not by the namespace controller 5 s later. That controller
        then finds them deleted and needs one pass instead of two, and agents do not reconcile unused Targets.
        """
        client = self.clients[source]
        with contextlib.suppress(NotFound):
            await client.delete(NAMESPACES, namespace)
            for kind in (PODS, TARGETS):
                await client.session.request("DELETE", kind.path(namespace), resource=kind.plural)
        self._leaving.append((source, namespace))

    async def all_gone(self) -> None:
        """Wait until every namespace that tests have left is deleted, and no cluster has objects of it."""
        for name, source in self._reuse.empty():
            await self.leave(name, source)
        await self.nothing_left()

    async def nothing_left(self) -> None:
        """Wait like `all_gone`, but keep namespaces that other tests may reuse, which have to be empty."""
        overlooked = await self._reuse.overlooked()
        assert not overlooked, f"tests/e2e/reuse.py does not look for these kinds: {overlooked}"
        for source, name in self._leaving[self._seen_gone :]:
            await self.gone(NAMESPACES, name, source=source)
        self._seen_gone = len(self._leaving)
        names = {name for _, name in self._leaving} | self._reuse.free
        left: list[tuple[str, str]] = []

        async def nothing() -> bool:
            # List all namespaces at once: one by one, each would cost a dozen requests per attempt.
            left[:] = [each for each in await self._objects() if each[0] in names]
            return not left

        try:
            await until(nothing, PATIENCE_SECONDS, what="nothing is left of what is gone", forgiven=KubeError)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{left}\n{await report(self, left[0][0] if left else '')}") from error

    async def _objects(self) -> list[tuple[str, str]]:
        """List proxy pods and objects created by agents in all clusters, as (namespace, object with its
        cluster)."""
        found = []
        for cluster, client in self.clients.items():
            for each in (*await client.list(PODS), *await client.list(CHAPERONS)):
                metadata, scheduler = each["metadata"], each["spec"].get("schedulerName")
                if (
                    each["kind"] != PODS.name
                    or scheduler == SCHEDULER_PROXY
                    or LABEL_PARENT_UID in metadata.get("labels", "")
                ):
                    found.append((metadata["namespace"], f"{cluster}: {each['kind']} {metadata['name']}"))
            for volume in await client.list(PERSISTENT_VOLUMES, labels=LABEL_STAND_IN):
                claim = volume["spec"]["claimRef"]
                found.append((claim["namespace"], f"{cluster}: volume of {claim['name']}"))
        return found

    async def join(
        self,
        namespace: str,
        target: str,
        *,
        source: str = "",
        server: str = "",
        authority: bytes = b"",
        name: str = "",
        weight: int = 0,
    ) -> None:
        """Create a Target for a namespace and wait until it is ready. `server`, if given, replaces the target's
        own address."""
        source = source or self.names[0]
        name = name or target
        text = await self.kubeconfig(namespace, target, source, server=server, authority=authority)
        client = self.clients[source]
        await apply(client, SECRETS, manifests.secret(name, namespace, text))
        made = manifests.ours("Target", name, namespace, {"kubeconfigSecret": {"name": name}})
        made["metadata"]["annotations"] = {SHORT_PREFIX + WEIGHT: str(weight)}
        await apply(client, TARGETS, made)
        await self.ready(namespace, name, source=source)

    async def kubeconfig(
        self, namespace: str, target: str, source: str = "", *, server: str = "", authority: bytes = b""
    ) -> str:
        """Return a kubeconfig that allows the source to run pods of a namespace in a target."""
        source = source or self.names[0]
        client = self.clients[target]
        await apply(client, SOURCES, manifests.ours("Source", source, namespace, {"serviceAccountName": source}))
        await self.until("the Source's service account", lambda: client.get(SERVICE_ACCOUNTS, source, namespace))
        own = (self.sandbox.directory / target / "pki" / "ca.crt").read_bytes()
        cluster = self.sandbox[target]
        token = await token_of(client, source, namespace)
        return kubeconfig.render(target, server or cluster.server, authority or own, token=token)

    async def join_everywhere(self, home: str, target: str, name: str) -> None:
        """Create a ClusterTarget and its ClusterSource. Their Secret and service account are in the namespace
        `home`."""
        client, account = self.clients[target], {"name": name, "namespace": home}
        await apply(client, CLUSTER_SOURCES, manifests.ours("ClusterSource", name, None, {"serviceAccount": account}))
        token = await self.until("the ClusterSource's account", lambda: token_of(client, name, home), about=home)
        authority = (self.sandbox.directory / target / "pki" / "ca.crt").read_bytes()
        text = kubeconfig.render(target, self.sandbox[target].server, authority, token=token)
        await apply(self.source, SECRETS, manifests.secret(name, home, text))
        spec = {"kubeconfigSecret": {"name": name, "namespace": home}}
        await apply(self.source, CLUSTER_TARGETS, manifests.ours("ClusterTarget", name, None, spec))
        await self.ready(None, name, kind=CLUSTER_TARGETS)

    async def ready(self, namespace: str | None, name: str, *, kind: Kind = TARGETS, source: str = "") -> None:
        """Wait until a target is Ready and its virtual node accepts pods: it has capacity and no taint of new
        nodes."""
        client = self.clients[source] if source else self.source

        async def is_ready() -> bool:
            return (
                takes_pods(await client.get(NODES, virtual_node(namespace or "", name)))
                and condition(await client.get(kind, name, namespace), "Ready").get("status") == "True"
            )

        await self.until(f"Target {name} is ready", is_ready, about=namespace or "")

    async def pods(self, namespace: str, app: str = "", *, source: str = "") -> list[Raw]:
        """Return the proxy pods of a namespace that are not terminating."""
        client = self.clients[source] if source else self.source
        pods = await client.list(PODS, namespace, labels=f"app={app}" if app else "")
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    async def delegates(self, namespace: str) -> dict[str, tuple[str, Raw]]:
        """Return all delegates of a namespace with their clusters, by the UID of their proxy pod.

        Unbound candidates do not count. Raises AssertionError if a proxy pod has two delegates.
        """
        return _delegates(await self._pods_everywhere(namespace, labels=LABEL_PARENT_UID))

    async def _pods_everywhere(self, namespace: str, *, labels: str = "") -> list[tuple[str, Raw]]:
        """Return all pods of a namespace with their clusters."""
        listed = await asyncio.gather(*(each.list(PODS, namespace, labels=labels) for each in self.clients.values()))
        return [(name, pod) for name, pods in zip(self.clients, listed, strict=True) for pod in pods]

    async def running(
        self, namespace: str, app: str, count: int, *, source: str = "", seconds: float = PATIENCE_SECONDS
    ) -> list[Raw]:
        """Wait until an app has exactly `count` pods, all Running, and return them."""

        async def all_run() -> list[Raw]:
            pods = await self.pods(namespace, app, source=source)
            return pods if len(pods) == count and all(p["status"]["phase"] == "Running" for p in pods) else []

        return await self.until(f"{count} pods of {app} run", all_run, about=namespace, seconds=seconds)

    async def agree(self, namespace: str, *, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until each proxy pod has the status of its delegate, and every delegate has a proxy pod."""

        differ: list[str] = []

        async def compare() -> bool:
            pods = await self._pods_everywhere(namespace)
            proxies = {pod["metadata"]["uid"]: pod for pod in _proxies(pods)}
            delegates = _delegates(pods)
            pairs = [(told(proxies[uid]), told(pod)) for uid, (_, pod) in delegates.items() if uid in proxies]
            differ[:] = [f"{proxy}\n  is not\n{delegate}" for proxy, delegate in pairs if proxy != delegate]
            return proxies.keys() == delegates.keys() and not differ

        try:
            await self.until("proxy pods say what delegates say", compare, about=namespace, seconds=seconds)
        except AssertionError as error:
            raise AssertionError("\n".join([str(error), *differ])) from error

    async def proxies(self, namespace: str) -> list[Raw]:
        """Return all proxy pods of a namespace, in all clusters."""
        return _proxies(await self._pods_everywhere(namespace))

    async def is_empty(self, namespace: str) -> bool:
        """Check that no cluster has a proxy pod, a chaperon or a delegate in a namespace."""
        for client in self.clients.values():
            if await client.list(CHAPERONS, namespace):
                return False
        pods = await self._pods_everywhere(namespace)
        return not _proxies(pods) and not _delegates(pods)

    async def has_no_stand_ins(self, source: str, namespace: str) -> bool:
        """Check that the source has no placeholder volume for a claim of a namespace."""
        found = await self.clients[source].list(PERSISTENT_VOLUMES, labels=LABEL_STAND_IN)
        return not any(each["spec"]["claimRef"]["namespace"] == namespace for each in found)

    async def kubectl(self, cluster: str, *arguments: str) -> str:
        """Run kubectl inside a cluster's network, which also works while the cluster's link is cut."""
        each = self.sandbox[cluster]
        program = self.sandbox.plan.programs["kubectl"]
        return await faults.kubectl(each.runner.cluster, program, each.directory, *arguments)

    async def metrics(self, cluster: str) -> str:
        """Return the metrics of a cluster's agent (/metrics)."""
        if isinstance(self.sandbox, Installed):
            return await self.sandbox.metrics(cluster)
        each = self.sandbox[cluster]
        url = f"http://{each.address}:{each.ports['agent-health']}/metrics"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            return await response.text()


def _proxies(pods: Sequence[tuple[str, Raw]]) -> list[Raw]:
    return [pod for _, pod in pods if pod["spec"]["schedulerName"] == SCHEDULER_PROXY]


def _delegates(pods: Sequence[tuple[str, Raw]]) -> dict[str, tuple[str, Raw]]:
    """Return the delegates among pods, by the UID of their proxy pod. Raises AssertionError if a proxy pod has
    two."""
    found: dict[str, tuple[str, Raw]] = {}
    for name, pod in pods:
        parent = pod["metadata"].get("labels", {}).get(LABEL_PARENT_UID)
        if parent is None or (pod["spec"]["schedulerName"] == SCHEDULER_CANDIDATE and "nodeName" not in pod["spec"]):
            continue
        assert parent not in found, f"two delegates of one pod: {found.get(parent)} and {pod}"
        found[parent] = (name, pod)
    return found


async def token_of(client: Client, account: str, namespace: str) -> str:
    """Request a token for a service account."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
    path = SERVICE_ACCOUNTS.path(namespace, account, "token")
    answer = json.loads(await client.session.request("POST", path, body=json.dumps(request).encode()))
    return str(answer["status"]["token"])


def condition(obj: Raw, kind: str) -> Raw:
    """Return an object's condition of type `kind`; {} if it has none."""
    conditions: list[Raw] = obj.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == kind), {})


def told(pod: Raw) -> Raw:
    """Return the parts of a status that have to be equal in a proxy pod and its delegate."""
    status = pod["status"]
    fields = ("phase", "reason", "podIP", "podIPs", "hostIP", "startTime", "containerStatuses", "initContainerStatuses")
    # Only proxy pods have the condition that reports whether their target is still the right one.
    said = [each for each in status.get("conditions") or () if each["type"] != moves.CONDITION]
    conditions = {each["type"]: (each["status"], each.get("reason")) for each in said}
    return {"conditions": conditions, **{field: status[field] for field in fields if field in status}}


def on_virtual_node(pod: Raw) -> bool:
    """Check that a pod is bound to a virtual node."""
    return bool(
        pod["spec"].get("nodeName", "").startswith("admiralty-") and PROVIDER_KEY in pod["spec"]["nodeSelector"]
    )
