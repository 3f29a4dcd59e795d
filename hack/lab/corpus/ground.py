"""Clusters for comparing manifests: a plain one, and a source whose targets accept pods of all namespaces."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from agent.api import names
from agent.api.kinds import (
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
    Kind,
)
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, KubeError, NotFound
from hack.lab.benchmarks.lab import until
from hack.lab.corpus.contents import Contents
from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.kubectl import Kubectl
from hack.lab.corpus.provisioner import provisioning
from hack.lab.sandbox import Sandbox, kubeconfig
from hack.lab.sandbox.manifests import AGENT_NAMESPACE
from hack.lab.sandbox.objects import apply, token

Raw = dict[str, Any]

NAME = "corpus"
"""Name of all objects that join these clusters."""
_ELECTING = {
    "labels": {names.LABEL_ENABLED: names.ENABLED_VALUE},
    "annotations": {names.LABEL_ELECT_BY_DEFAULT: "true"},
}
_NOT_ELECTING = {
    "labels": dict.fromkeys(_ELECTING["labels"]),
    "annotations": dict.fromkeys(_ELECTING["annotations"]),
}
_PROBE = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "probe"},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}


@dataclass(frozen=True)
class Place:
    """A cluster to which manifests are applied: the plain one or the source."""

    contents: Contents
    kubectl: Kubectl

    @property
    def client(self) -> Client:
        """Client of the cluster."""
        return self.contents.client


@dataclass(frozen=True)
class Ground:
    """The clusters: the plain one is not connected with the source and its targets."""

    plain: Place
    source: Place
    targets: Sequence[Contents]

    @property
    def clients(self) -> list[Client]:
        """Clients of all clusters."""
        return [self.plain.client, self.source.client, *(each.client for each in self.targets)]

    @contextlib.asynccontextmanager
    async def namespaces(self, wanted: Iterable[str]) -> AsyncIterator[Mapping[Client, frozenset[str]]]:
        """Create namespaces in all clusters; those in the source elect pods by default.

        Yields the namespaces that existed before, by client; these are not deleted in the end.
        """
        wanted = list(wanted)
        before = {client: await _existing(client, wanted) for client in self.clients}
        try:
            for client in self.clients:
                electing = _ELECTING if client is self.source.client else {}
                await asyncio.gather(*(_namespace(client, each, electing) for each in wanted))
            await asyncio.gather(*(self._elects(each) for each in wanted))
            yield before
        finally:
            for namespace in before[self.source.client]:
                await self.source.client.patch(NAMESPACES, namespace, {"metadata": _NOT_ELECTING})
            for client in self.clients:
                for namespace in set(wanted) - before[client]:
                    with contextlib.suppress(NotFound):
                        await client.delete(NAMESPACES, namespace)

    async def _elects(self, namespace: str) -> None:
        """Wait until the API server calls the webhook for all pods of a namespace."""

        async def called() -> bool:
            body = msgspec.json.encode(_PROBE)
            made = await self.source.client.session.request(
                "POST", PODS.path(namespace), params={"dryRun": "All"}, body=body
            )
            return b'"schedulerName":"admiralty-proxy"' in made

        await until(f"namespace {namespace} elects its pods", called)


async def _existing(client: Client, wanted: Iterable[str]) -> frozenset[str]:
    there = {each["metadata"]["name"] for each in await client.list(NAMESPACES)}
    return frozenset(there & set(wanted))


async def _namespace(client: Client, name: str, metadata: Raw) -> None:
    """Create a namespace, and wait until its default service account exists."""
    try:
        await client.create(NAMESPACES, {"metadata": {"name": name, **metadata}})
    except AlreadyExists:
        await client.patch(NAMESPACES, name, {"metadata": metadata})

    async def ready() -> bool:
        return bool(await client.get(SERVICE_ACCOUNTS, "default", name))

    await until(f"namespace {name} has its service account", ready)


@contextlib.asynccontextmanager
async def ground_of(
    sandbox: Sandbox,
    clients: dict[str, Client],
    *,
    source: str,
    targets: Sequence[str],
    plain: str,
    home: str = AGENT_NAMESPACE,
) -> AsyncIterator[Ground]:
    """Join clusters of a sandbox and provision volumes while the context lasts. `home`: namespace of the agents."""
    program = sandbox.plan.programs["kubectl"]
    async with contextlib.AsyncExitStack() as stack:
        places = []
        for name in (plain, source):
            kubectl = stack.enter_context(Kubectl(program, sandbox[name].kubeconfig))
            places.append(Place(Contents(clients[name]), kubectl))
        for name in (plain, source, *targets):
            await stack.enter_async_context(provisioning(clients[name]))
        for name in targets:
            authority = (sandbox.directory / name / "pki" / "ca.crt").read_bytes()
            await stack.enter_async_context(
                _joined(clients[source], clients[name], sandbox[name].server, authority, home)
            )
        yield Ground(places[0], places[1], [Contents(clients[name]) for name in targets])


@contextlib.asynccontextmanager
async def _joined(source: Client, target: Client, server: str, authority: bytes, home: str) -> AsyncIterator[None]:
    """Join a target by a ClusterTarget whose Source allows everything that Sources allow by default."""
    account = {"name": NAME, "namespace": home}
    name = f"{NAME}-{target.name}"
    await apply(target, SERVICE_ACCOUNTS, _head(SERVICE_ACCOUNTS, NAME, home))
    await apply(target, CLUSTER_SOURCES, {**_head(CLUSTER_SOURCES, NAME), "spec": {"serviceAccount": account}})
    text = kubeconfig.render(target.name, server, authority, token=await token(target, home, NAME))
    await apply(source, SECRETS, {**_head(SECRETS, name, home), "stringData": {"config": text}})
    spec = {"kubeconfigSecret": {"name": name, "namespace": home}}
    await apply(source, CLUSTER_TARGETS, {**_head(CLUSTER_TARGETS, name), "spec": spec})
    try:
        await until(f"{target.name} takes pods", lambda: _takes_pods(source, name))
        yield
    finally:
        for client, kind, each in (
            (source, CLUSTER_TARGETS, name),
            (source, SECRETS, name),
            (target, CLUSTER_SOURCES, NAME),
            (target, SERVICE_ACCOUNTS, NAME),
        ):
            await _removed(client, kind, each, home if kind.namespaced else None)


async def _takes_pods(source: Client, target: str) -> bool:
    node = await source.get(NODES, names.virtual_node("", target))
    new = any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints") or ())
    conditions = (await source.get(CLUSTER_TARGETS, target)).get("status", {}).get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and not new and bool(node["status"].get("allocatable"))


async def _removed(client: Client, kind: Kind, name: str, namespace: str | None) -> None:
    with contextlib.suppress(KubeError):
        await client.delete(kind, name, namespace)

    async def gone() -> bool:
        try:
            await client.get(kind, name, namespace)
        except NotFound:
            return True
        return False

    await until(f"{kind.name} {name} is gone from {client.name}", gone)


def _head(kind: Kind, name: str, namespace: str = "") -> Raw:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}


def parts_of(clusters: Sequence[str]) -> tuple[str, Sequence[str], str]:
    """Return a sandbox's source, targets and plain cluster. Raises CorpusError for less than three clusters."""
    if len(clusters) < 3:
        raise CorpusError(
            f"the sandbox has the clusters {', '.join(clusters)}: three are needed, a source, its targets and last a"
            " plain one, such as `flotilla sandbox up --clusters cd,us,eu,plain`"
        )
    return clusters[0], clusters[1:-1], clusters[-1]
