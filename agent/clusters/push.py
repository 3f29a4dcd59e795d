"""Port to a cluster whose API server the agent reaches directly: each call is a request to it."""

from functools import partial
from typing import TypeVar

import msgspec

from agent.api.kinds import Kind
from agent.kube import streams
from agent.kube.client import Client
from agent.kube.discovery import Discovery
from agent.kube.errors import UNDECODABLE, StatusError, Unreadable
from agent.kube.reviews import we_lack
from agent.runtime.informers import Informers
from agent.runtime.supervisor import Supervisor

T = TypeVar("T")


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Push:
    """Port whose verbs are mostly those of the client, its informers and its session."""

    def __init__(self, client: Client, informers: Informers, supervisor: Supervisor) -> None:
        self._client = client
        self._session = client.session
        self.name = client.name
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
        self.lacking = partial(we_lack, client)
        self.connect = partial(streams.connect, client.session)
        self.ask = partial(streams.ask, client.session)

    @property
    def skew(self) -> float:
        """Seconds by which the cluster's clock was ahead of the local one at its last answer; negative if behind."""
        return self._session.skew

    @property
    def insecure(self) -> str:
        """The kubeconfig field that leaves the API server unverified, with the remedy; empty if it is verified."""
        return self._session.connection.insecure

    async def groups(self) -> frozenset[str]:
        """Return the API groups that are served."""
        answer = await self._session.request("GET", "/apis", resource="apis")
        return frozenset(group.name for group in _read(answer, _Groups).groups)

    async def git_version(self) -> str:
        """Return the server's version, for example `v1.36.3`."""
        return _read(await self._session.request("GET", "/version", resource="version"), _Version).git_version

    async def newest(self, kind: Kind) -> Kind | None:
        """Return a kind in the API server's preferred version, whichever version it names; None if it is not served."""
        return await Discovery(self._client).find_any(kind.group, kind.name)

    async def can_create(self, kind: Kind) -> bool:
        """Return whether objects of a kind can be created: False if it is not served or its CRD is being deleted."""
        return "create" in await Discovery(self._client).verbs(kind)

    async def try_list(self, kind: Kind, namespace: str | None) -> None:
        """Request a list of one object. Raises NotFound if the kind is not served, Forbidden if it may not be
        listed.
        """
        await self._session.request("GET", kind.path(namespace), params={"limit": "1"}, resource=kind.plural)

    def has_said(self, error: StatusError) -> bool:
        """Return whether an error is this cluster's own answer."""
        return error.server == self._session.connection.server


def _read(answer: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=form)
    except UNDECODABLE as error:
        raise Unreadable("what answers is no Kubernetes API server: check the server's address") from error
