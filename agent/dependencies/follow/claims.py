"""Volume claims: created in the one target that runs their pods; from then on pods stay with their data.

An annotation of the source's claim names the target with its volume. It is written before the target's claim is
created, so only one target can win. The annotation counts once the target's claim is bound or a pod in the target uses
it; until then a pod may still try another target. A bound claim is deleted only with its original: a recreated original
begins empty. If the deletion of the original was not observed, the claim stays for a while (`orphanedclaims`).
"""

import contextlib
from collections.abc import Callable, Collection

from agent.api import names
from agent.api.kinds import PERSISTENT_VOLUME_CLAIMS, TARGET_KINDS
from agent.clusters.copies.refusals import HELD, Blocked
from agent.clusters.deps import Deps
from agent.dependencies.follow.copier import FollowCopier, Outcome, Place
from agent.dependencies.follow.homevolumes import HomeVolumes
from agent.dependencies.follow.needs import Item, Needs
from agent.dependencies.follow.orphanedclaims import OrphanedClaims, unmarked
from agent.kube.errors import Forbidden, NotFound
from agent.kube.informer import Informer
from agent.kube.store import Key, Object
from agent.model import copies
from agent.model.claims import InvalidMapping, claim_of, growth, storage_classes
from agent.model.copies import Raw
from agent.model.podstate import claimed_node
from agent.model.references import references

HAS_VOLUME = ("Bound", "Lost")
"""Phases of claims that have, or had, a volume."""

_FORMER = (
    "a claim of that name that this cluster has forgotten has a volume there: to go on with its data, annotate this one"
    " with " + names.ANNOTATION_VOLUME_IN + "={node}; to begin empty, delete the one there, or wait for {hours:.1f} h"
)
_NAMES_A_CLAIM = b'"persistentVolumeClaim"'

CopiesOf = Callable[[str], Informer | None]


class Elsewhere(Forbidden):
    """Another target has the volume, so that the pod must run in that target."""

    def __init__(self, message: str) -> None:
        super().__init__(403, "VolumeElsewhere", message)


class ClaimCopier(FollowCopier):
    """Copies volume claims. Existing claims are never changed, except that they grow."""

    def __init__(self, deps: Deps, needs: Needs, originals: Informer, copies_of: CopiesOf) -> None:
        super().__init__(deps)
        self._needs = needs
        self._originals = originals
        self._copies_of = copies_of
        self._objects = deps.local.either(TARGET_KINDS)
        self._orphaned = OrphanedClaims(deps, originals)
        self._home = HomeVolumes(deps.local.client)

    def places(self, pod: Object) -> dict[str, str]:
        """Return the claims of a pod with the virtual node of the target that has their volume."""
        if _NAMES_A_CLAIM not in pod.raw:
            return {}
        found = {}
        for name in references(pod.raw).get(PERSISTENT_VOLUME_CLAIMS, ()):
            claim = self._originals.store.get((pod.namespace, name))
            node = claim.annotations.get(names.ANNOTATION_VOLUME_IN, "") if claim is not None else ""
            # A pod that itself tries one target after the other does not fix the volume's place.
            but = {pod.key} if claimed_node(pod) == node else ()
            if node and self._settled(Item(node, PERSISTENT_VOLUME_CLAIMS, pod.namespace, name), but):
                found[name] = node
        return found

    async def create(self, place: Place, *, look_first: bool = False) -> Outcome:
        """Create the claim if the target has none. Pods use a foreign claim of that name unchanged."""
        item, port = place.item, place.target.port
        original = await self._original(place)
        if original is None:
            return Outcome.MISSING
        with place.reporting_refusals():
            try:
                raw = await port.get_raw(item.kind, item.name, item.namespace)
            except NotFound:
                raw = b""
        found = Object(item.kind, raw).decode() if raw else None
        if found is not None and not self._is_our_copy(found, original):
            self.needs_none(place, original)
            return Outcome.THERE
        if found is not None and _is_of_another(copies.parent_uid(found), original):
            found = await self._former(place, found, original)
        original = await self._reserve(place, original)
        with place.reporting_refusals():
            if found is None:
                raw = await port.create_raw(item.kind, self._claim(place, original))
            elif patch := growth(original, found) | unmarked(found):
                raw = await port.patch_raw(item.kind, item.name, patch, item.namespace)
        self.agree(place, original, raw)
        return Outcome.THERE

    async def compare(self, place: Place, now: float) -> Outcome | float:
        """Raise the target claim's storage request to that of the original."""
        return await self.create(place)

    async def kept(self, place: Place, copy: Object) -> float:
        """Return the seconds for which a claim is kept whose original has been deleted or replaced."""
        original = place.originals.store.get(place.item.key)
        found = copy.decode()
        if copy.phase not in HAS_VOLUME:
            return await super().kept(place, copy)
        if original is not None and not self._is_forgotten(place, found, original.decode()):
            return 0.0
        if self._orphaned.was_deleted(found):
            return 0.0
        return await super().kept(place, copy) or await self._orphaned.left(place, found)

    def _is_forgotten(self, place: Place, found: Raw, original: Raw) -> bool:
        """Return whether a claim belongs to an earlier original that this cluster has forgotten rather than deleted."""
        if not _is_of_another(copies.parent_uid(found), original) or _volume_in(original) == place.item.node:
            return False
        return (found.get("status") or {}).get("phase") in HAS_VOLUME and self._orphaned.was_forgotten(place, found)

    async def remove(self, place: Place, uid: str) -> None:
        """Delete an unneeded claim unless it is bound, and remove the mark from the original."""
        copy = place.copies.store.get(place.item.key)
        original = await self._original(place)
        if original is None:
            await super().remove(place, uid)
            return
        if copy is None or (copy.phase in HAS_VOLUME and self._keeps(place, copy, original)):
            await self._unmark(place, copy)
            return
        item, port = place.item, place.target.port
        gone = place.copies.vanished.noticed((item.namespace, item.name), uid)
        with place.reporting_refusals(), contextlib.suppress(NotFound), gone:
            # A claim that was bound meanwhile has a newer version: the Conflict requeues it.
            await port.delete(item.kind, item.name, item.namespace, uid=uid, version=copy.version)
        self.forget(item)
        if _volume_in(original) == item.node:
            await self._mark(place, original, None)

    async def _former(self, place: Place, found: Raw, original: Raw) -> Raw | None:
        """Return the existing claim if the new original may use it.

        Its original was deleted and recreated without having been observed. Its data are deleted with it,
        unless the new original, for example a restored one, is annotated with this target.
        """
        if "deletionTimestamp" in found["metadata"]:
            raise place.not_copied(HELD)
        if _volume_in(original) == place.item.node:
            return found
        if self._is_forgotten(place, found, original) and (left := await self._orphaned.left(place, found)) > 0:
            why = _FORMER.format(node=place.item.node, hours=left / 3600)
            raise place.not_copied(why)
        with place.reporting_refusals():
            item, judged = place.item, found["metadata"]
            await place.target.port.delete(
                item.kind, item.name, item.namespace, uid=judged["uid"], version=judged["resourceVersion"]
            )
        return None

    async def _unmark(self, place: Place, copy: Object | None) -> None:
        if copy is not None and (patch := unmarked(copy.decode())):
            with place.reporting_refusals():
                port = place.target.port
                raw = await port.patch_raw(copy.kind, copy.name, patch, copy.namespace)
            place.copies.absorb(raw)

    def _keeps(self, place: Place, copy: Object, original: Raw) -> bool:
        """Return whether a volume in the target belongs to this original, not to an earlier one of that name."""
        parent = copy.labels.get(names.LABEL_PARENT_UID, "")
        return _volume_in(original) == place.item.node or not _is_of_another(parent, original)

    def _is_our_copy(self, found: Raw, original: Raw) -> bool:
        return not copies.is_same_or_upstream(found, original) and copies.belongs_to(
            found, original["metadata"]["uid"], self._deps.cluster_uid
        )

    async def _reserve(self, place: Place, original: Raw) -> Raw:
        """Annotate the original with this target as the place of its volume; only one target can succeed."""
        node = _volume_in(original)
        if node == place.item.node:
            return original
        if node and self._settled(place.item._replace(node=node), ()):
            raise Elsewhere(f"the volume of {place.title} is in {node}, not in {place.item.node}")
        if not node and (why := await self._home.keep(original)):
            raise Blocked(
                f"{place.title} {why}, whose data target {place.target.title} does not have: let its pods run here"
                f' ({names.SHORT_PREFIX}{names.ELECT}: "false"), or annotate it with'
                f" {names.ANNOTATION_VOLUME_IN}={place.item.node} if it may begin there empty"
            )
        return await self._mark(place, original, place.item.node)

    async def _mark(self, place: Place, original: Raw, node: str | None) -> Raw:
        metadata = original["metadata"]
        body = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {names.ANNOTATION_VOLUME_IN: node},
            }
        }
        raw = b""
        with contextlib.suppress(NotFound):
            raw = await self._source.patch_raw(place.item.kind, place.item.name, body, place.item.namespace)
        return place.originals.absorb(raw).decode() if raw else original

    def _settled(self, item: Item, but: Collection[Key]) -> bool:
        """Return whether a target has or may have data of a claim: the target is unreachable, or a pod in it
        uses the claim.
        """
        target, informer = self._deps.targets.by_node(item.node), self._copies_of(item.node)
        if target is None or informer is None or not target.ready:
            return True
        copy = informer.store.get(item.key)
        return (copy is not None and copy.phase in HAS_VOLUME) or bool(set(self._needs.pods(item)) - set(but))

    def _claim(self, place: Place, original: Raw) -> Raw:
        target = self._objects.get(place.target.key)
        annotation = names.annotation(target.annotations, names.STORAGE_CLASSES) if target is not None else None
        try:
            classes = storage_classes(annotation)
        except InvalidMapping as error:
            field = f"annotation {names.SHORT_PREFIX}{names.STORAGE_CLASSES} of target {place.target.title}"
            raise Blocked(f"{place.title} is not created in target {place.target.title}: {field}: {error}") from error
        name, uid = self._deps.settings.cluster_name, self._deps.cluster_uid
        return claim_of(original, classes, cluster_name=name, cluster_uid=uid)


def _is_of_another(parent_uid: str, original: Raw) -> bool:
    """Return whether a copy belongs to an earlier object of that name. Without the label: False, because data
    are at stake.
    """
    return bool(parent_uid) and parent_uid != original["metadata"]["uid"]


def _volume_in(original: Raw) -> str:
    return str((original["metadata"].get("annotations") or {}).get(names.ANNOTATION_VOLUME_IN) or "")
