"""Discovery: under which path an API server serves a kind that is known by its apiVersion and its name alone."""

import re
from typing import TypeVar

import msgspec

from agent.api.kinds import Kind
from agent.kube.client import Client
from agent.kube.errors import UNDECODABLE, NotFound, Unreadable

T = TypeVar("T")

_API_VERSION = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-z][a-z0-9]*")
"""Valid API versions. They come from users' manifests and become part of a path that the agent requests."""


class _Resource(msgspec.Struct):
    name: str = ""
    kind: str = ""
    namespaced: bool = False
    verbs: list[str] | None = None


class _Resources(msgspec.Struct):
    resources: list[_Resource] | None = None


class _Version(msgspec.Struct):
    version: str = ""


class _Group(msgspec.Struct):
    versions: list[_Version] | None = None


class Discovery:
    """Finds the path of a kind. Each version of a group is read once, and again for a kind that was not in it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._served: dict[str, dict[str, Kind]] = {}

    async def find(self, api_version: str, name: str) -> Kind | None:
        """Return the kind of this apiVersion and name; None if it is not served."""
        if not _API_VERSION.fullmatch(api_version):
            return None
        if name not in self._served.get(api_version, {}):
            self._served[api_version] = await self._ask(api_version)
        return self._served[api_version].get(name)

    async def find_any(self, group: str, name: str) -> Kind | None:
        """Return the kind in any version, by the API server's preference; None if it is not served."""
        for served in tuple(self._served.values()):
            if (kind := served.get(name)) is not None and kind.group == group:
                return kind
        for api_version in await self._api_versions(group):
            if (kind := await self.find(api_version, name)) is not None:
                return kind
        return None

    async def verbs(self, kind: Kind) -> list[str]:
        """Return the verbs that the API server supports for a kind; empty if it is not served.

        apiextensions-apiserver: while a CustomResourceDefinition is being deleted, `create` is not among them.
        """
        found = await self._resources(kind.api_version)
        return next((each.verbs or [] for each in found if each.name == kind.plural), [])

    async def find_plural(self, group: str, plural: str) -> Kind | None:
        """Return the kind of a resource in any version, by the API server's preference; None if it is not served."""
        for api_version in await self._api_versions(group):
            if api_version not in self._served:
                self._served[api_version] = await self._ask(api_version)
            for kind in self._served[api_version].values():
                if kind.plural == plural:
                    return kind
        return None

    def forget(self, kind: Kind) -> None:
        """Drop the cached version of a kind that is no longer served."""
        self._served.pop(kind.api_version, None)

    async def _api_versions(self, group: str) -> list[str]:
        if not group:
            return ["v1"]
        if not _API_VERSION.fullmatch(f"{group}/v1"):
            return []
        try:
            found = _read(await self._get(f"/apis/{group}"), _Group)
        except NotFound:
            return []
        return [f"{group}/{each.version}" for each in found.versions or ()]

    async def _ask(self, api_version: str) -> dict[str, Kind]:
        group, _, version = api_version.rpartition("/")
        return {
            each.kind: Kind(group, version, each.name, each.kind, each.namespaced)
            for each in await self._resources(api_version)
            if "/" not in each.name
        }

    async def _resources(self, api_version: str) -> list[_Resource]:
        try:
            path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
            return _read(await self._get(path), _Resources).resources or []
        except NotFound:
            return []

    async def _get(self, path: str) -> bytes:
        return await self._client.session.request("GET", path, resource="apis")


def _read(answer: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(answer, type=form)
    except UNDECODABLE as error:
        raise Unreadable("what is served cannot be read: no Kubernetes API server answers like this") from error
