"""Apply manifests for an owner with the rights of a service account, and delete objects that are no longer in them.

All requests, reads included, impersonate the account: the agent may only impersonate, and the API server
refuses everything beyond the account's rights. Existing objects are compared by their metadata
(`model.applied`), one list for each kind and namespace. Unchanged objects cost neither a write nor a dry run,
which costs an API server as much and may call webhooks.

Objects without the owner's UID in a label are never touched. The owner records kinds and places before the
first apply, so that nothing is left behind if the agent is killed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from agent.api.names.p2code import ANNOTATION_APPLIED_KINDS, FIELD_MANAGER, LABEL_OWNER, LABEL_PSM_UID, cut
from agent.clusters.copies.outcomes import Refusal, Remaining, refusal, refused, words
from agent.clusters.copies.refusals import PASSING
from agent.kube.client import METADATA_LIST, METADATA_ONE
from agent.kube.discovery import Discovery
from agent.kube.errors import Conflict, NotFound, StatusError
from agent.kube.informer import Informer
from agent.kube.store import Object
from agent.model import applied
from agent.model.applied import Place
from agent.runtime.task_group import side_by_side

Raw = dict[str, Any]

_FRESH = "1"
"""Version of no existing object: an apply with it creates the object, or does nothing if that exists."""


class _Wanted(NamedTuple):
    place: Place
    name: str
    body: Raw


class _Unknown(NamedTuple):
    """Error of listing a place, so that its objects are not known."""

    message: str
    passing: bool


Objects = dict[str, Raw]
"""Metadata of the owner's objects in one place, by name."""
Found = dict[Place, Objects | _Unknown]


class Applier:
    """Applies and deletes objects for one owner. Methods raise Unreachable, and Conflict if the owner has changed."""

    def __init__(
        self,
        owners: Informer,
        owner: Object,
        account: str,
        discovery: Discovery,
        is_leaving: Callable[[str], bool] = lambda namespace: False,
    ) -> None:
        """:param account: name of a service account of the owner's namespace
        :param is_leaving: returns whether a namespace is being or has been deleted"""
        self._owners = owners
        self._is_leaving = is_leaving
        self._owner = owner
        self._account = account
        self._client = owners.client.as_user(f"system:serviceaccount:{owner.namespace}:{account}")
        self._discovery = discovery
        self._labels = {LABEL_OWNER: cut(owner.name), LABEL_PSM_UID: owner.uid}
        noted = owner.annotations.get(ANNOTATION_APPLIED_KINDS, "")
        self._noted = frozenset(each for each in noted.split(",") if each)

    async def apply(
        self, manifests: Sequence[Mapping[str, Any]], keep: Callable[[Place, str], bool] = lambda place, name: False
    ) -> list[Refusal]:
        """Apply all manifests in the order of their kinds. Unless any is refused, prune the owner's other objects.

        :param keep: returns whether an object of the owner, given its place and name, stays although it is in no
          manifest
        """
        wanted, refusals = await self._wanted(manifests)
        places = {each.place for each in wanted}
        await self._note(self._noted.union(map(str, places)))
        found = await self._find(places.union(await self._places()))
        scaled = applied.autoscaled(manifests)
        for _, some in groupby(wanted, key=lambda each: each.place.rank):
            answers = await side_by_side([self._bring(each, found[each.place], scaled) for each in some])
            refusals += [each for each in answers if each is not None]
        kept = {(place, name) for place, objects in found.items() for name in _names(objects) if keep(place, name)}
        refusals = refusals or await self._prune(found, {(each.place, each.name) for each in wanted} | kept)
        if not refusals:
            await self._note(map(str, places.union(place for place, _ in kept)))
        return refusals

    async def delete(
        self, of: Callable[[Place], bool] = lambda place: True, *, at_once: bool = False
    ) -> list[Remaining]:
        """Delete all objects of the owner in these places, creators of pods first; return the remaining ones.

        Call it again until that is empty: objects that pods may need stay until the pods have ended, and namespaces
        come last. In a terminating namespace roles may be deleted first: objects that the account then cannot see are
        deleted anyway.

        :param at_once: whether to delete all without waiting
        """
        left: list[Remaining] = []
        stages: defaultdict[int, list[tuple[Place, Raw]]] = defaultdict(list)
        for place, objects in (await self._find(filter(of, await self._places()))).items():
            if isinstance(objects, _Unknown):
                if not self._is_leaving(place.namespace):
                    left.append(Remaining(place.kind.name, place.namespace, "", objects.message))
            elif objects:
                stages[0 if at_once else place.stage] += [(place, each) for each in objects.values()]
        first = min(stages, default=0)
        left += await self._delete_all(stages.pop(first, []))
        later = [each for stage in sorted(stages) for each in stages[stage]]
        return left + [Remaining(place.kind.name, place.namespace, each["name"]) for place, each in later]

    async def there(self, of: Callable[[Place], bool]) -> set[tuple[str, str]]:
        """Return namespace and name of the owner's objects in these places, if the account may read them."""
        found = await self._find(filter(of, await self._places()))
        return {(place.namespace, name) for place, objects in found.items() for name in _names(objects)}

    async def _wanted(self, manifests: Iterable[Mapping[str, Any]]) -> tuple[list[_Wanted], list[Refusal]]:
        """Return the objects to apply, in order, and the refused ones."""
        wanted, refusals = [], []
        for manifest in manifests:
            if flaw := applied.flaw(manifest):
                refusals.append(refused(manifest, flaw))
                continue
            kind = await self._discovery.find(manifest["apiVersion"], manifest["kind"])
            if kind is None:
                absent = f"the API server serves no {manifest['kind']} of {manifest['apiVersion']}"
                refusals.append(refused(manifest, absent))
                continue
            metadata = manifest["metadata"]
            namespace = (metadata.get("namespace") or self._owner.namespace) if kind.namespaced else ""
            wanted.append(_Wanted(Place(kind, namespace), metadata["name"], applied.sent(manifest, self._labels)))
        wanted.sort(key=lambda each: each.place.rank)
        return wanted, refusals

    async def _places(self) -> list[Place]:
        """Return the places that may have objects of the owner; kinds that are no longer served have none."""
        found = []
        for note in self._noted:
            group, name, namespace = applied.parsed(note)
            if (kind := await self._discovery.find_any(group, name)) is not None:
                found.append(Place(kind, namespace))
        return found

    async def _note(self, places: Iterable[str]) -> None:
        """Record on the owner the kinds and namespaces that may have objects of it."""
        now = frozenset(places)
        if now == self._noted:
            return
        owner = self._owner
        note = {ANNOTATION_APPLIED_KINDS: ",".join(sorted(now))}
        body = {"metadata": {"annotations": note, "resourceVersion": owner.version}}
        raw = await self._owners.client.patch_raw(owner.kind, owner.name, body, owner.namespace)
        self._owner, self._noted = self._owners.absorb(raw), now

    async def _find(self, places: Iterable[Place]) -> Found:
        asked = list(places)
        return dict(zip(asked, await side_by_side([self._list(each) for each in asked]), strict=True))

    async def _list(self, place: Place) -> Objects | _Unknown:
        labels = f"{LABEL_PSM_UID}={self._owner.uid}"
        try:
            _, items = await self._client.list_raw(
                place.kind, place.namespace or None, labels=labels, accept=METADATA_LIST
            )
        except NotFound:
            self._discovery.forget(place.kind)
            return {}
        except StatusError as error:
            return _Unknown(self._words(error), isinstance(error, PASSING))
        return {each["name"]: each for each in map(_metadata, items)}

    async def _bring(
        self, wanted: _Wanted, found: Objects | _Unknown, scaled: frozenset[tuple[str, str, str]]
    ) -> Refusal | None:
        place, name, body = wanted
        if isinstance(found, _Unknown):
            return refusal(place, name, found.message, passing=found.passing)
        try:
            there = found.get(name) or await self._look(place, name)
            if there is None:
                await self._send(wanted, body, {"resourceVersion": _FRESH})
                return None
            if (there.get("labels") or {}).get(LABEL_PSM_UID) != self._owner.uid:
                return refusal(place, name, self._foreign(there))
            if there.get("deletionTimestamp"):
                return refusal(place, name, "it is being deleted, and made anew once it is gone", passing=True)
            if (place.kind.name, place.namespace, name) in scaled:
                body = applied.left_to_scaler(there, body)
            if not applied.is_unchanged(there, body):
                await self._send(wanted, body, {"uid": there["uid"]})
        except StatusError as error:
            return refusal(place, name, self._words(error), passing=isinstance(error, PASSING))
        return None

    async def _look(self, place: Place, name: str) -> Raw | None:
        """Read the metadata of an object that is not among the owner's, None if it does not exist."""
        try:
            raw = await self._client.get_raw(place.kind, name, place.namespace or None, accept=METADATA_ONE)
        except NotFound:
            return None
        return _metadata(raw)

    async def _send(self, wanted: _Wanted, body: Raw, precondition: Mapping[str, str]) -> None:
        place, name, _ = wanted
        sent = body | {"metadata": body["metadata"] | precondition}
        namespace = place.namespace or None
        await self._client.patch_raw(place.kind, name, sent, namespace, style="apply", manager=FIELD_MANAGER)

    def _words(self, error: StatusError) -> str:
        return words(error, self._owner.namespace, self._account)

    def _foreign(self, there: Mapping[str, Any]) -> str:
        other = (there.get("labels") or {}).get(LABEL_OWNER)
        whose = f"belongs to {self._owner.kind.name} {other}" if other else "is not of this manifest"
        return f"an object of that name is there already that {whose}; delete or rename it, or use another name here"

    async def _prune(self, found: Found, kept: set[tuple[Place, str]]) -> list[Refusal]:
        refusals, old = [], []
        for place, objects in found.items():
            if isinstance(objects, _Unknown):
                refusals.append(refusal(place, "", objects.message, passing=objects.passing))
                continue
            gone = (each for name, each in objects.items() if (place, name) not in kept)
            old += [(place, each) for each in gone if not each.get("deletionTimestamp")]
        left = [each for each in await self._delete_all(old) if each.message]
        return refusals + [Refusal(*each[:3], f"{applied.title(*each[:3])}: {each.message}") for each in left]

    async def _delete_all(self, objects: Iterable[tuple[Place, Raw]]) -> list[Remaining]:
        """Delete in reverse order of applying; return the remaining objects."""
        ordered = sorted(objects, key=lambda each: -each[0].rank)
        answers = await side_by_side([self._delete(*each) for each in ordered])
        return [each for each in answers if each is not None]

    async def _delete(self, place: Place, metadata: Raw) -> Remaining | None:
        """Delete one object, with foreground propagation so that its dependents are deleted first; return it if it is
        left."""
        kind, namespace, name = place.kind, place.namespace, metadata["name"]
        if metadata.get("deletionTimestamp"):
            held = [each for each in metadata.get("finalizers") or () if each != "foregroundDeletion"]
            message = f"it is being deleted, and held by finalizers: {', '.join(held)}" if held else ""
            return Remaining(kind.name, namespace, name, message)
        try:
            raw = await self._client.delete(
                kind, name, namespace or None, uid=metadata["uid"], propagation="Foreground"
            )
        except NotFound:
            return None
        except Conflict:
            return Remaining(kind.name, namespace, name)
        except StatusError as error:
            return Remaining(kind.name, namespace, name, self._words(error))
        return Remaining(kind.name, namespace, name) if raw else None


def _names(objects: Objects | _Unknown) -> Iterable[str]:
    return () if isinstance(objects, _Unknown) else objects


def _metadata(raw: bytes | msgspec.Raw) -> Raw:
    metadata: Raw = msgspec.json.decode(raw, type=Raw)["metadata"]
    return metadata
