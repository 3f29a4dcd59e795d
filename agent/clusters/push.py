"""The port to a cluster whose API server we reach ourselves: what is asked of it is a request there."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from agent.api.kinds import Kind
from agent.kube import streams
from agent.kube.channel import Channel
from agent.kube.client import Client
from agent.kube.errors import UNDECODABLE, StatusError, Unreadable
from agent.kube.reviews import may_we
from agent.kube.streams import Answer, Query
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor


class Push:
    """A `Port`: the verbs are those of the client."""

    def __init__(self, client: Client, informers: Informers, supervisor: Supervisor) -> None:
        self._client = client
        self.get = client.get
        self.get_raw = client.get_raw
        self.list = client.list
        self.list_raw = client.list_raw
        self.create = client.create
        self.create_raw = client.create_raw
        self.update_raw = client.update_raw
        self.patch_raw = client.patch_raw
        self.delete = client.delete
        self.informer = informers.get
        self.drop = informers.drop
        self.spawn = supervisor.spawn

    @property
    def name(self) -> str:
        """The cluster's name, for logs and messages."""
        return self._client.name

    @property
    def skew(self) -> float:
        """By how many seconds its clock was ahead of ours at its last answer."""
        return self._client.session.skew

    async def groups(self) -> frozenset[str]:
        """The API groups that are served."""
        return await _groups(self._client)

    async def git_version(self) -> str:
        """The version of Kubernetes."""
        return await _git_version(self._client)

    async def try_list(self, kind: Kind, namespace: str | None) -> None:
        """Ask for one object. Raises NotFound where the kind is not served, Forbidden where we may not list it."""
        await _try_list(self._client, kind, namespace)

    async def may(self, attributes: Mapping[str, str]) -> bool:
        """Whether we may do there what the resource attributes say."""
        return await may_we(self._client, attributes)

    def has_said(self, error: StatusError) -> bool:
        """Whether an error is this cluster's own answer."""
        return error.server == self._client.session.connection.server

    async def connect(self) -> Channel:
        """A connection to its API server."""
        return await streams.connect(self._client.session)

    async def ask(
        self,
        channel: Channel,
        method: str,
        path: str,
        query: Query,
        headers: Iterable[tuple[str, str]],
        *,
        resource: str,
        timeout: float | None,
    ) -> Answer:
        """Put a request for a stream, and read the head of the answer."""
        return await streams.ask(
            self._client.session, channel, method, path, query, headers, resource=resource, timeout=timeout
        )


T = TypeVar("T")


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def _groups(client: Client) -> frozenset[str]:
    """The API groups that are served."""
    answer = await client.session.request("GET", "/apis", resource="apis")
    return frozenset(group.name for group in _read(answer, _Groups).groups)


async def _git_version(client: Client) -> str:
    """The server's version, as `v1.36.3`."""
    return _read(await client.session.request("GET", "/version", resource="version"), _Version).git_version


async def _try_list(client: Client, kind: Kind, namespace: str | None) -> None:
    """Ask for one object. Raises NotFound where the kind is not served, Forbidden where we may not list it."""
    path = kind.path(namespace)
    await client.session.request("GET", path, params={"limit": "1"}, resource=kind.plural)


def _read(answer: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=form)
    except UNDECODABLE as error:
        raise Unreadable("what answers is no Kubernetes API server: check the server's address") from error
