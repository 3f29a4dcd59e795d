"""Answers of targets, read with their kubeconfig Secrets as far as the user may read those."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import msgspec

from agent.api import names
from agent.api.kinds import CLUSTER_SUMMARIES, PODS
from agent.cli.fleet.source_queries import connection_of
from agent.cli.options import opened
from agent.kube.client import Client
from agent.kube.errors import KubeError, NotFound
from agent.kube.store import Key, Object
from agent.targets.target.gather import Problem

SECONDS = 5.0
"""Timeout of one request to a target."""


class Answer(msgspec.Struct, frozen=True):
    """Versions that a cluster reports; empty if it does not answer."""

    kubernetes: str = ""
    agent: str = ""
    """Version of the agent that wrote its ClusterSummary."""
    seconds: float | None = None
    """Latency of the answer."""
    unread: str = ""
    """Reason why the cluster did not answer."""


class Delegate(msgspec.Struct, frozen=True):
    """Pod that runs in a target for a proxy pod."""

    name: str
    node: str
    phase: str


class Connections:
    """Clients of targets, each opened once."""

    def __init__(self, source: Client, stack: contextlib.AsyncExitStack) -> None:
        self._source = source
        self._stack = stack
        self._open: dict[Key, Client] = {}

    async def to(self, target: Object) -> Client:
        """Return a client of a target; the source's for a self-target. Raises Problem, KubeError."""
        if target.key not in self._open:
            connection = await connection_of(self._source, target)
            self._open[target.key] = (
                await self._stack.enter_async_context(opened(connection, target.name, SECONDS))
                if connection is not None
                else self._source
            )
        return self._open[target.key]


@contextlib.asynccontextmanager
async def connections(source: Client) -> AsyncIterator[Connections]:
    """Context manager of connections to targets; closes them at the end."""
    async with contextlib.AsyncExitStack() as stack:
        yield Connections(source, stack)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def ask_all(to: Connections, targets: Iterable[Object]) -> dict[Key, Answer]:
    """Ask all targets concurrently."""
    chosen = list(targets)
    answers = await asyncio.gather(*(_ask(to, target) for target in chosen))
    return {target.key: answer for target, answer in zip(chosen, answers, strict=True)}


async def _ask(to: Connections, target: Object) -> Answer:
    try:
        return await ask(await to.to(target))
    except (Problem, KubeError) as error:
        return Answer(unread=str(error))


async def ask(client: Client) -> Answer:
    """Return versions and latency of a cluster. Raises KubeError if it does not return its version."""
    kubernetes = await kubernetes_version(client)
    begun = time.monotonic()
    agent = ""
    with contextlib.suppress(KubeError):
        agent = agent_version(await read_summary(client))
    return Answer(kubernetes, agent, time.monotonic() - begun)


async def kubernetes_version(client: Client) -> str:
    """Return the version in the format of `kubectl version`: v1.36.3. Raises KubeError."""
    body = await client.session.request("GET", "/version", resource="version")
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(body, type=_Version).git_version
    return ""


async def read_summary(client: Client) -> Object | None:
    """Read a cluster's ClusterSummary, None if its agent has not written one. Raises KubeError."""
    try:
        return Object(CLUSTER_SUMMARIES, await client.get_raw(CLUSTER_SUMMARIES, names.SUMMARY_NAME))
    except NotFound:
        return None


def agent_version(summary: Object | None) -> str:
    """Return the version of the agent that wrote a summary, empty for Admiralty's agents."""
    return summary.annotations.get(names.ANNOTATION_AGENT_VERSION, "") if summary is not None else ""


@dataclass
class Delegates:
    """Delegates by the UID of their proxy pods; `unread` lists targets that could not be read."""

    found: dict[str, Delegate] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


async def read_delegates(to: Connections, targets: Iterable[Object], namespace: str | None) -> Delegates:
    """Read the delegates of a namespace (None: all) in these targets."""
    result = Delegates()

    async def read(target: Object) -> None:
        where = target.namespace or namespace
        try:
            client = await to.to(target)
            _, items = await client.list_raw(PODS, where, labels=names.LABEL_PARENT_UID)
        except (Problem, KubeError) as error:
            result.unread.append(f"target {target.name} was not asked: {error}")
            return
        for pod in (Object(PODS, bytes(item)) for item in items):
            if not pod.node_name and pod.scheduler_name == names.SCHEDULER_CANDIDATE:
                continue
            parent = pod.labels[names.LABEL_PARENT_UID]
            result.found[parent] = Delegate(pod.name, pod.node_name, pod.phase)

    await asyncio.gather(*(read(target) for target in targets))
    result.unread.sort()
    return result
