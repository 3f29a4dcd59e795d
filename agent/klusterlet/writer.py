"""Writes the objects of one ManifestWork: by the strategy of each manifest, and their deletion.

Requests impersonate the service account of the work's executor, or that of works without one. The API server then
checks each write itself, so that nothing can change between a check and the write.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from agent.api.kinds import Kind
from agent.api.names.works import CONFIG_HASH, WORK_MANAGER
from agent.klusterlet import ledger, merge
from agent.klusterlet.ledger import Entry
from agent.klusterlet.manifests import CREATE_ONLY, READ_ONLY, SERVER_SIDE_APPLY, Config, Identity, digest
from agent.kube.client import Client
from agent.kube.discovery import Discovery
from agent.kube.errors import Conflict, Forbidden, NotFound, StatusError
from agent.kube.metadata import LAST_APPLIED
from agent.kube.reviews import is_allowed, service_account
from agent.kube.rollback import number
from agent.model.applied import title
from agent.model.diff import same

Raw = dict[str, Any]

_ATTEMPTS = 4
"""Tries of a write that conflicts with others."""
_DELETER = "a client that deletes it"
_FIELD_CONFLICT = "Apply failed with"
"""Part of the API server's message about fields of other managers."""
_CONFLICT_SECONDS = 300.0
_ESCALATION = "attempting to grant RBAC permissions"
"""Part of the API server's message (kubernetes: pkg/registry/rbac/validation)."""

_decode = msgspec.json.decode


class Refused(Exception):
    """A manifest that is not applied; the message is the reason."""

    def __init__(self, message: str, again: float = 0.0) -> None:
        """:param again: seconds until the next try; 0 for the usual backoff"""
        super().__init__(message)
        self.again = again


class Seen(NamedTuple):
    """Last applied state of an object, to notice changes by others."""

    uid: str
    version: int
    digest: bytes
    """Digest of the manifest with its options."""
    signature: bytes


class Written(NamedTuple):
    """Result of applying one manifest."""

    seen: Seen | None
    """State of the object; None if the strategy is ReadOnly and the object does not exist."""
    rival: str = ""
    """Writer whose change was reverted; empty if nothing was."""


def signature(metadata: Mapping[str, Any]) -> bytes:
    """Return a digest of metadata that changes with the object's contents.

    It also changes with the status of kinds that have no generation.
    """
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != LAST_APPLIED}
    parts = [
        metadata.get("uid"),
        metadata.get("generation") or metadata.get("resourceVersion"),
        metadata.get("labels") or {},
        annotations,
        metadata.get("ownerReferences") or [],
        bool(metadata.get("deletionTimestamp")),
    ]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).digest()


class Writer:
    """Writes for one ManifestWork, which has a record of its objects."""

    def __init__(self, agent: Client, client: Client, applied: Raw, executor: str, *, adopts: bool) -> None:
        """:param client: client of the account that applies the ManifestWork"""
        self._agent = agent
        self._client = client
        self._executor = executor
        self._adopts = adopts
        self._uid: str = applied["metadata"]["uid"]
        self._owner = merge.owner_reference(applied["metadata"]["name"], self._uid)

    async def apply(
        self, kind: Kind, body: Raw, config: Config, *, owns: bool, entry: Entry | None, seen: Seen | None
    ) -> Written:
        """Apply one manifest.

        :param entry: record of the object
        :param seen: its last applied state
        :raises Refused: if the manifest is not applied
        :raises InvalidIgnoredField: if ignored fields are invalid
        """
        what = title(kind.name, body["metadata"].get("namespace", ""), body["metadata"]["name"])
        if kind.namespaced and not body["metadata"].get("namespace"):
            raise Refused("an empty namespace may not be set during creation")
        attempt = partial(self._apply, kind, body, config, what, owns=owns, entry=entry, seen=seen)
        try:
            await self._check_deletion(kind, body, owns=owns and config.strategy != READ_ONLY)
            return await _repeated(attempt)
        except Forbidden as error:
            raise self._forbidden(kind, body, error) from error
        except NotFound as error:
            if error.about == body["metadata"]["name"] or "namespaces" in error.message:
                raise Refused(str(error)) from error
            raise Refused(not_served(kind.name)) from error
        except StatusError as error:
            # After a conflict with another field manager, only a change of the object or of the manifest helps.
            raise Refused(str(error), _CONFLICT_SECONDS if _is_field_conflict(error) else 0.0) from error

    def _forbidden(self, kind: Kind, body: Raw, error: StatusError) -> Refused:
        if not self._executor:
            return Refused(f"{error}: grant the account this right, as by the chart's works.rights", 60.0)
        metadata = body["metadata"]
        named = f"{kind.group} {kind.plural}, {metadata.get('namespace', '')} {metadata['name']}"
        why = ", error: permission escalation" if _ESCALATION in error.message else ""
        return Refused(f"not allowed to apply the resource {named}{why}, will try again in 1m0s", 60.0)

    async def _check_deletion(self, kind: Kind, body: Raw, *, owns: bool) -> None:
        """Refuse an object that the executor may not delete: deleting the ManifestWork deletes it by these rights."""
        if not self._executor or not owns:
            return
        metadata = body["metadata"]
        attributes = {
            **{"verb": "delete", "group": kind.group, "version": kind.version, "resource": kind.plural},
            **{"namespace": metadata.get("namespace", ""), "name": metadata["name"]},
        }
        if not await is_allowed(self._agent, service_account(self._executor), attributes):
            raise Forbidden(403, "Forbidden", "may not delete")

    async def _apply(
        self, kind: Kind, body: Raw, config: Config, what: str, *, owns: bool, entry: Entry | None, seen: Seen | None
    ) -> Written:
        existing = await self._read(kind, body)
        wanted = digest(body, config.strategy, config.apply, owns)
        if config.strategy == READ_ONLY:
            return Written(_seen(existing, wanted) if existing is not None else None)
        if existing is not None:
            self._check(existing, what, entry)
            if seen is not None and (seen.digest, seen.signature) == (wanted, signature(existing["metadata"])):
                return Written(_seen(existing, wanted))
        if config.strategy == SERVER_SIDE_APPLY:
            result = await self._apply_by_server(kind, body, existing, config.apply, owns=owns)
        elif existing is None:
            result = await self._create(kind, body, owns=owns)
        elif config.strategy == CREATE_ONLY:
            result = await self._own(kind, existing, owns=owns)
        else:
            result = await self._update(kind, body, existing, owns=owns)
        rival = ""
        if seen is not None and seen.digest == wanted:
            if existing is None:
                rival = _DELETER
            elif _version(result) != _version(existing):
                rival = merge.last_writer(existing)
        return Written(_seen(result, wanted), rival)

    async def _read(self, kind: Kind, body: Raw) -> Raw | None:
        metadata = body["metadata"]
        try:
            return await self._client.get(kind, metadata["name"], metadata.get("namespace"))
        except NotFound as error:
            if error.about != metadata["name"]:
                raise
            return None

    def _check(self, existing: Raw, what: str, entry: Entry | None) -> None:
        metadata = existing["metadata"]
        if metadata.get("deletionTimestamp"):
            held = ", ".join(metadata.get("finalizers") or ()) or "its dependents"
            raise Refused(f"{what} is being deleted, which waits for {held}; it is created again afterwards")
        ours = merge.is_owned(existing, self._uid) or merge.is_made_by_works(existing)
        if not self._adopts and not ours and (entry is None or entry.uid != metadata["uid"]):
            raise Refused(
                f"{what} exists and is not of this ManifestWork: delete it, or remove the annotation multicluster/adopt"
            )

    def _references(self, obj: Raw, *, owns: bool) -> list[Raw]:
        found = obj["metadata"].get("ownerReferences") or []
        return merge.with_owner(found, self._owner) if owns else merge.without_owner(found, self._uid)

    async def _create(self, kind: Kind, body: Raw, *, owns: bool) -> Raw:
        references = self._references(body, owns=owns)
        metadata = {**body["metadata"], **({"ownerReferences": references} if references else {})}
        for field in ("labels", "annotations"):
            kept = {key: value for key, value in (metadata.get(field) or {}).items() if not key.endswith("-")}
            if field in metadata:
                metadata[field] = kept
        # If the object was created since the read, AlreadyExists is a conflict, and the next attempt updates it.
        raw = await self._client.create_raw(kind, {**body, "metadata": metadata}, manager=WORK_MANAGER)
        return _decode(raw, type=dict[str, Any])

    async def _own(self, kind: Kind, existing: Raw, *, owns: bool) -> Raw:
        """Bring the owner references in line, and nothing else."""
        metadata = existing["metadata"]
        references = self._references(existing, owns=owns)
        if same(references, metadata.get("ownerReferences") or []):
            return existing
        patch = {"metadata": {"ownerReferences": references, "resourceVersion": metadata["resourceVersion"]}}
        raw = await self._client.patch_raw(kind, metadata["name"], patch, metadata.get("namespace"))
        return _decode(raw, type=dict[str, Any])

    async def _update(self, kind: Kind, body: Raw, existing: Raw, *, owns: bool) -> Raw:
        if merge.must_be_replaced(existing, body):
            metadata = existing["metadata"]
            await self._client.delete(kind, metadata["name"], metadata.get("namespace"), uid=metadata["uid"])
            return await self._create(kind, body, owns=owns)
        wanted = merge.merged(existing, body)
        references = self._references(wanted, owns=owns)
        wanted["metadata"].pop("ownerReferences", None)
        if references:
            wanted["metadata"]["ownerReferences"] = references
        before = {**existing, "metadata": {k: v for k, v in existing["metadata"].items() if k != "managedFields"}}
        if same(before, wanted):
            return existing
        return _decode(await self._client.update_raw(kind, wanted, manager=WORK_MANAGER), type=dict[str, Any])

    async def _apply_by_server(
        self, kind: Kind, body: Raw, existing: Raw | None, options: Mapping[str, Any], *, owns: bool
    ) -> Raw:
        ignored = options.get("ignoreFields") or ()
        if ignored:
            left = merge.without_ignored(body, ignored)
            hashed = merge.with_hash(left, left)
            annotation = hashed["metadata"]["annotations"][CONFIG_HASH]
            if existing is not None and (existing["metadata"].get("annotations") or {}).get(CONFIG_HASH) == annotation:
                return await self._own(kind, existing, owns=owns)
            body = hashed if existing is not None else merge.with_hash(body, left)
        metadata = body["metadata"]
        raw = await self._client.patch_raw(
            kind,
            metadata["name"],
            body,
            metadata.get("namespace"),
            style="apply",
            manager=str(options.get("fieldManager") or WORK_MANAGER),
            force=bool(options.get("force")),
        )
        return await self._own(kind, _decode(raw, type=dict[str, Any]), owns=owns)


async def _repeated(attempt: Callable[[], Awaitable[Written]]) -> Written:
    """Attempt a write again after a conflict, unless it is about fields of another manager."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return await attempt()
        except Conflict as error:
            if _is_field_conflict(error):
                raise
    return await attempt()


def _is_field_conflict(error: StatusError) -> bool:
    return isinstance(error, Conflict) and _FIELD_CONFLICT in error.message


def _seen(obj: Raw, wanted: bytes) -> Seen:
    metadata = obj["metadata"]
    return Seen(metadata["uid"], _version(obj), wanted, signature(metadata))


def _version(obj: Raw) -> int:
    return number(str(obj["metadata"].get("resourceVersion") or ""))


def not_served(kind: str) -> str:
    """Return the message for a kind that the cluster does not serve."""
    return f'the server doesn\'t have a resource type "{kind}"'


class Remains(NamedTuple):
    """An object whose deletion has begun and is not complete."""

    identity: Identity
    held: str
    """Finalizers that hold it, or the API server's refusal; empty if there are none."""

    @property
    def words(self) -> str:
        """Name of the object, and what holds it."""
        name = ledger.title(self.identity)
        return f"{name} ({self.held})" if self.held else name


def _finalizers(metadata: Raw) -> str:
    found = ", ".join(metadata.get("finalizers") or ())
    return f"finalizers {found}" if found else ""


async def delete(
    client: Client, discovery: Discovery, identity: Identity, entry: Entry, owner: str, *, keeps: bool = False
) -> Remains | None:
    """Delete a recorded object unless others need it; return what remains, None if nothing does.

    :param owner: UID of the AppliedManifestWork
    :param keeps: only remove its owner reference
    """
    try:
        return await _delete(client, discovery, identity, entry, owner, keeps=keeps)
    except Conflict:
        raise
    except StatusError as error:
        if isinstance(error, Forbidden) and not entry.uid:
            # Never applied as far as known. If it exists all the same, garbage collection deletes it with its owner.
            return None
        return Remains(identity, f"cannot be deleted: {error}")


async def _delete(
    client: Client, discovery: Discovery, identity: Identity, entry: Entry, owner: str, *, keeps: bool
) -> Remains | None:
    kind = ledger.kind_of(identity, entry)
    try:
        obj = await client.get(kind, identity.name, identity.namespace)
    except NotFound as error:
        newer = None if error.about == identity.name else await discovery.find_plural(identity.group, kind.plural)
        if newer is None or newer.version == kind.version:
            return None
        return await _delete(client, discovery, identity, Entry(newer.version, entry.uid), owner, keeps=keeps)
    metadata = obj["metadata"]
    if (entry.uid and entry.uid != metadata["uid"]) or not merge.is_owned(obj, owner):
        return None
    if metadata.get("deletionTimestamp") and not keeps:
        return Remains(identity, _finalizers(metadata))
    try:
        if keeps or merge.has_other_works(obj, owner):
            references = merge.without_owner(metadata["ownerReferences"], owner)
            patch = {"metadata": {"ownerReferences": references, "resourceVersion": metadata["resourceVersion"]}}
            await client.patch_raw(kind, identity.name, patch, identity.namespace)
            return None
        options: Raw = {"uid": metadata["uid"], "propagation": "Background"}
        is_left = await client.delete(kind, identity.name, identity.namespace, **options)
    except NotFound:
        return None
    return Remains(identity, _finalizers(metadata)) if is_left else None
