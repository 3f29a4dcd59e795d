"""The verbs of an API server on raw objects."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from agent.api.kinds import Kind
from agent.kube.errors import UNDECODABLE, TooLarge, Unreadable
from agent.kube.incoming import PAGE_LIMIT
from agent.kube.rollback import History
from agent.kube.session import Session

T = TypeVar("T")
Raw = dict[str, Any]
Objects = list[Raw]
RawItems = list[msgspec.Raw]
PatchBody = Raw | list[Raw]
Style = Literal["merge", "json", "strategic", "apply"]

_CONTENT_TYPES: dict[str, str] = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_PAGE = 500
_SMALLER = 10
"""Factor by which the next page shrinks after one that was too large, and grows after one that was not."""
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
METADATA_ONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""Value of Accept if metadata is enough: every API server since 1.15 supports it for any kind."""
FIELD_MANAGER = "flotilla"

encode = msgspec.json.Encoder().encode


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ItemList(msgspec.Struct):
    """A list whose items stay bytes."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Page(NamedTuple):
    """Some items of a list. A page with a flaw (the reason) has only the metadata of its items."""

    version: str
    items: RawItems
    flaw: str = ""


class _Answer(msgspec.Struct):
    kind: str = ""


_answer_decoder = msgspec.json.Decoder(_Answer)
_list_decoder = msgspec.json.Decoder(ItemList)
_decoder = msgspec.json.Decoder(Raw)


class Client:
    """Verbs of one API server. Objects are plain dicts, so that unknown fields survive.

    Every method raises Unreachable or a StatusError. Methods ending in `_raw` return the response's bytes, for callers
    that do not need the content.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.history = History()

    @property
    def name(self) -> str:
        """The cluster's name, for logs and metrics."""
        return self.session.name

    def as_user(self, user: str) -> "Client":
        """These verbs as another user, whom our credentials have to be allowed to impersonate."""
        return Client(self.session.as_user(user))

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Raw:
        """Read one object."""
        return _decode(await self.get_raw(kind, name, namespace))

    async def get_raw(self, kind: Kind, name: str, namespace: str | None = None, *, accept: str = "") -> bytes:
        """Read one object, in the form that `accept` asks for."""
        return await self.session.request("GET", kind.path(namespace, name), resource=kind.plural, accept=accept)

    async def list(self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "") -> Objects:
        """Read all objects that match, in pages. Items carry apiVersion and kind as in a manifest."""
        _, items = await self.list_raw(kind, namespace, labels=labels, fields=fields)
        head = {"apiVersion": kind.api_version, "kind": kind.name}
        return [head | _decode(bytes(item)) for item in items]

    async def list_raw(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "", accept: str = ""
    ) -> tuple[str, RawItems]:
        """The list's resource version and its items as bytes. Raises TooLarge for an item that cannot be read."""
        items: RawItems = []
        version = ""
        async for page in self.pages(kind, namespace, labels=labels, fields=fields, accept=accept):
            if page.flaw:
                raise TooLarge(f"{kind} {page.flaw}")
            version = page.version
            items += page.items
        return version, items

    async def pages(
        self, kind: Kind, namespace: str | None = None, *, labels: str = "", fields: str = "", accept: str = ""
    ) -> AsyncIterator[Page]:
        """Yield a list page by page, with smaller pages if one is too large to be read."""
        params = selectors(labels, fields)
        size, flaw = _PAGE, ""
        while True:
            try:
                page = await self._page(
                    kind, namespace, params | {"limit": str(size)}, METADATA_LIST if flaw else accept
                )
            except TooLarge as error:
                if flaw:
                    raise
                flaw = "" if size > 1 else str(error)
                size = max(1, size // _SMALLER)
                continue
            yield Page(page.metadata.resource_version, page.items or [], flaw)
            if not page.metadata.continue_:
                return
            params["continue"] = page.metadata.continue_
            size, flaw = min(_PAGE, size * _SMALLER), ""

    async def _page(self, kind: Kind, namespace: str | None, params: Mapping[str, str], accept: str) -> ItemList:
        path = kind.path(namespace)
        answer = await self.session.request(
            "GET", path, params=params, resource=kind.plural, accept=accept, longest=PAGE_LIMIT, piecemeal=True
        )
        return _read(_list_decoder, answer)

    async def version(self, kind: Kind, namespace: str | None = None, fields: str = "") -> str:
        """Return the current version of a collection. A read without a version is consistent: no earlier answer is
        newer.
        """
        params = selectors("", fields) | {"limit": "1", "resourceVersion": ""}
        return (await self._page(kind, namespace, params, METADATA_LIST)).metadata.resource_version

    async def create(self, kind: Kind, obj: Raw, namespace: str | None = None, *, sub: str | None = None) -> Raw:
        """Create an object in `namespace`, by default its own."""
        return _decode(await self.create_raw(kind, obj, namespace, sub=sub))

    async def create_raw(
        self,
        kind: Kind,
        obj: Raw,
        namespace: str | None = None,
        *,
        sub: str | None = None,
        dry_run: bool = False,
        manager: str = "",
    ) -> bytes:
        """Create an object, or a subresource of it (a pod's binding, a service account's token).

        `dry_run`: find out whether it would be; nothing is written. `manager`: field manager; empty for `flotilla`.
        """
        metadata = obj.get("metadata", {})
        path = kind.path(namespace or metadata.get("namespace"), metadata["name"] if sub else None, sub)
        params = ({"dryRun": "All"} if dry_run else {}) | ({"fieldManager": manager} if manager else {})
        return await self.session.request("POST", path, params=params, body=encode(obj), resource=_resource(kind, sub))

    async def update(self, kind: Kind, obj: Raw, *, sub: str | None = None) -> Raw:
        """Replace an object; its resourceVersion guards against overwriting."""
        return _decode(await self.update_raw(kind, obj, sub=sub))

    async def update_raw(self, kind: Kind, obj: Raw, *, sub: str | None = None, manager: str = "") -> bytes:
        """Replace an object: cheaper for an API server than a patch of a custom resource."""
        metadata = obj["metadata"]
        path = kind.path(metadata.get("namespace"), metadata["name"], sub)
        params = {"fieldManager": manager} if manager else {}
        return await self.session.request("PUT", path, params=params, body=encode(obj), resource=_resource(kind, sub))

    async def patch(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str | None = None,
        *,
        sub: str | None = None,
        style: Style = "merge",
    ) -> Raw:
        """Change parts of an object. Style `apply` creates a missing object and takes over conflicting fields."""
        return _decode(await self.patch_raw(kind, name, body, namespace, sub=sub, style=style))

    async def patch_raw(
        self,
        kind: Kind,
        name: str,
        body: PatchBody,
        namespace: str | None = None,
        *,
        sub: str | None = None,
        style: Style = "merge",
        manager: str = FIELD_MANAGER,
        force: bool = True,
        dry_run: bool = False,
    ) -> bytes:
        """Change parts of an object. With style `apply`, `manager` owns the fields.

        `force`: take fields over from other managers; else they are a Conflict. `dry_run`: find out what would become
        of it; nothing is written.
        """
        params = {"fieldManager": manager} | ({"force": "true"} if force else {}) if style == "apply" else {}
        if dry_run:
            params["dryRun"] = "All"
        return await self.session.request(
            "PATCH",
            kind.path(namespace, name, sub),
            params=params,
            body=encode(body),
            content_type=_CONTENT_TYPES[style],
            resource=_resource(kind, sub),
        )

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        version: str | None = None,
        grace: int | None = None,
        propagation: Literal["Foreground", "Background", "Orphan"] | None = None,
    ) -> bytes:
        """Delete one object, only with this UID and version when given (else Conflict); `grace` in seconds.

        Returns the object; empty if the answer is only a Status, as for a deleted custom resource.
        """
        options: Raw = {"kind": "DeleteOptions", "apiVersion": "v1"}
        preconditions = {"uid": uid, "resourceVersion": version}
        if given := {name: value for name, value in preconditions.items() if value is not None}:
            options["preconditions"] = given
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation is not None:
            options["propagationPolicy"] = propagation
        path = kind.path(namespace, name)
        answer = await self.session.request("DELETE", path, body=encode(options), resource=kind.plural)
        return b"" if _read(_answer_decoder, answer).kind == "Status" else answer


def selectors(labels: str, fields: str) -> dict[str, str]:
    """Query parameters for label and field selectors."""
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in chosen.items() if value}


def _resource(kind: Kind, sub: str | None) -> str:
    return f"{kind.plural}/{sub}" if sub else kind.plural


def _decode(body: bytes) -> Raw:
    return _read(_decoder, body)


def _read(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """Decode an answer.

    :raises TooLarge: if it is nested too deep
    :raises Unreadable: if it is not from an API server, such as a login page or a proxy's greeting
    """
    try:
        return decoder.decode(body)
    except RecursionError as error:
        raise TooLarge("is nested too deep") from error
    except UNDECODABLE as error:
        raise Unreadable("what answers is no Kubernetes API server: check the server's address") from error
