"""The port to a cluster whose API server we reach ourselves: what is asked of it is a request there."""

from collections.abc import Iterable, Mapping

from agent.api.kinds import Kind
from agent.kube import discovery, streams
from agent.kube.channel import Channel
from agent.kube.client import Client
from agent.kube.errors import StatusError
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
        return await discovery.groups(self._client)

    async def git_version(self) -> str:
        """The version of Kubernetes."""
        return await discovery.git_version(self._client)

    async def try_list(self, kind: Kind, namespace: str | None) -> None:
        """Ask for one object. Raises NotFound where the kind is not served, Forbidden where we may not list it."""
        await discovery.try_list(self._client, kind, namespace)

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
