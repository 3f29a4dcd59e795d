"""What an API server is, and what it serves. Everything raises KubeError."""

from typing import TypeVar

import msgspec

from agent.api.kinds import Kind
from agent.kube.client import Client
from agent.kube.errors import UNDECODABLE, Unreadable

T = TypeVar("T")


class _Group(msgspec.Struct):
    name: str


class _Groups(msgspec.Struct):
    groups: list[_Group]


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def groups(client: Client) -> frozenset[str]:
    """The API groups that are served."""
    answer = await client.session.request("GET", "/apis", resource="apis")
    return frozenset(group.name for group in _read(answer, _Groups).groups)


async def git_version(client: Client) -> str:
    """The server's version, as `v1.36.3`."""
    return _read(await client.session.request("GET", "/version", resource="version"), _Version).git_version


async def try_list(client: Client, kind: Kind, namespace: str | None) -> None:
    """Ask for one object. Raises NotFound where the kind is not served, Forbidden where we may not list it."""
    path = kind.path(namespace)
    await client.session.request("GET", path, params={"limit": "1"}, resource=kind.plural)


def _read(answer: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=form)
    except UNDECODABLE as error:
        raise Unreadable("what answers is no Kubernetes API server: check the server's address") from error
