"""Gathers the input of the mover's decisions from informers' stores, and reads the owner from the API server."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agent.api import names
from agent.api.kinds import DEPLOYMENTS, JOBS, NODES, PERSISTENT_VOLUME_CLAIMS, REPLICA_SETS, STATEFUL_SETS
from agent.api.names import moves
from agent.clusters.deps import Deps
from agent.clusters.health.record import silent_in
from agent.clusters.stores.placement_decisions import reference_of
from agent.clusters.target import Target
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.kube.store import Key, Object
from agent.model import replacement
from agent.model.moveterms import move_of
from agent.model.owner_labels import controller_of
from agent.model.targetchoice import TargetChoice
from agent.moves.mover import owners
from agent.moves.mover.announcements import Announcements
from agent.moves.mover.capacity import room
from agent.moves.mover.causes import Causes, Levels
from agent.moves.mover.facts import Facts, OwnerKey, facts_of, is_labelled, is_replacement, viewed
from agent.moves.mover.groups import Groups, bound_claim, group_of, wanted_by
from agent.moves.mover.limits import is_waiting
from agent.moves.mover.owners import OwnerPods
from agent.moves.mover.view import Owner, Pod
from agent.moves.mover.writer import Refusal

Raw = dict[str, Any]

_KINDS = {owners.REPLICA_SET: REPLICA_SETS, owners.STATEFUL_SET: STATEFUL_SETS, owners.JOB: JOBS}

_NEVER = f"{names.SHORT_PREFIX}{moves.MOVE} says {moves.NEVER}"


class Read(NamedTuple):
    """An owner and its controller, read from the API server. None: a kind that is not read, or no controller."""

    obj: Raw | None
    parent: Raw | None

    @property
    def annotations(self) -> tuple[Mapping[str, str], ...]:
        """Annotations of the owner, then of its controller. For a Deployment's ReplicaSet only the Deployment's.

        ReplicaSets keep stale copies of their Deployment's annotations.
        """
        known = [each for each in self if each and "metadata" in each]
        levels = known[1:] if len(known) > 1 and known[1].get("kind") == owners.DEPLOYMENT else known
        return tuple(each["metadata"].get("annotations") or {} for each in levels)

    @property
    def spec(self) -> Raw:
        """Spec of the owner; empty if it was not read."""
        return (self.obj or {}).get("spec") or {}


async def read_owner(client: Client, key: OwnerKey) -> Read | None:
    """Read an owner of pods and its controller from the API server. Return None if one of them has been deleted."""
    kind, namespace, name, uid = key
    if kind not in _KINDS:
        return Read(None, None)
    try:
        obj = await client.get(_KINDS[kind], name, namespace)
    except NotFound:
        return None
    if obj["metadata"]["uid"] != uid or "deletionTimestamp" in obj["metadata"]:
        return None
    above = controller_of(obj)
    if above is None or kind != owners.REPLICA_SET:
        return Read(obj, None)
    if above["kind"] != owners.DEPLOYMENT or not above["apiVersion"].startswith("apps/"):
        return Read(obj, {"kind": above["kind"]})
    try:
        return Read(obj, await client.get(DEPLOYMENTS, above["name"], namespace))
    except NotFound:
        return None


class Gather:
    """Builds views of owners and pods. Callers wait until its informers `nodes` and `claims` have synced."""

    def __init__(
        self, deps: Deps, causes: Causes, announcements: Announcements, refusals: Mapping[str, Refusal]
    ) -> None:
        self._deps = deps
        self._causes = causes
        self._announcements = announcements
        self._refusals = refusals
        self.nodes = deps.local.informer(NODES, labels=f"{names.PROVIDER_KEY}={names.PROVIDER_VALUE}")
        self.claims = deps.local.informer(PERSISTENT_VOLUME_CLAIMS)
        self._groups = Groups(deps, causes, self.nodes, self.claims)
        self._have: dict[str, int] = {}
        """Number of pods by UID of the owner. Only owners that may not recreate evicted pods are counted."""
        self._had: dict[str, int] = {}
        """Number of pods before the last eviction, by UID of such an owner."""

    def levels(self, pod: Object, owner: tuple[Mapping[str, str], ...] | None = None) -> Levels:
        """Return a pod's choice of targets, and the annotations of all levels that apply to it.

        :param owner: annotations of its owners as just read; None to use the owners' informers
        """

        def said() -> tuple[Mapping[str, str], ...]:
            above = self._known(pod) if owner is None else owner
            return pod.annotations, *above, self._deps.namespaces.annotations(pod.namespace)

        return Levels(self._deps.choices.of(pod), said)

    def _known(self, pod: Object) -> tuple[Mapping[str, str], ...]:
        known = self._deps.owners
        return tuple(each.annotations for each in known.of(pod).owners) if known is not None else ()

    async def count(self) -> None:
        """Count what pods request in targets whose limits are new, before `view`."""
        await self._groups.held.count()

    def view(self, key: OwnerKey, read: Read, pods: Sequence[Object]) -> tuple[Owner, list[Pod]]:
        """Build the views of an owner and of its pods that `decide` needs."""
        facts = [facts_of(pod) for pod in pods]
        views = [self._pod(key, read, pod, found) for pod, found in zip(pods, facts, strict=True)]
        asked = self._asked(key, read, pods, facts)
        owner = owners.owner(key[0], read.obj, read.parent, asked)
        if owner.doubted:
            self._have[key[3]] = sum(view.owned and view.lives for view in views)
            owner = replace(owner, had=self._had.get(key[3], 0))
        if owner.way == "evict":
            views = [self._served(pod, view) for pod, view in zip(pods, views, strict=True)]
            views = self._with_room(pods, views, are_alike=read.obj is not None)
        refusal = self._refusals.get(key[3])
        if refusal is not None and refusal.stands and refusal.passes:
            owner = replace(owner, refused=refusal.message)
        return owner, self._with_groups(pods, views)

    def evicted(self, key: OwnerKey) -> None:
        """Keep the number of pods that an owner had before this eviction."""
        if key[3] in self._have:
            self._had[key[3]] = self._have[key[3]]

    def forget(self, key: OwnerKey) -> None:
        """Forget an owner whose pods no longer move."""
        for known in (self._have, self._had):
            known.pop(key[3], None)

    def _with_groups(self, pods: Sequence[Object], views: Sequence[Pod]) -> list[Pod]:
        """Return the views; those of misplaced pods with the decision about their group."""
        of = [group_of(pod) if view.cause and view.lives else "" for pod, view in zip(pods, views, strict=True)]
        said = {group: self._groups.together(pods[0].namespace, group) for group in {*of} - {""}}
        return [replace(view, together=said.get(group)) for view, group in zip(views, of, strict=True)]

    def _pod(self, key: OwnerKey, read: Read, pod: Object, facts: Facts) -> Pod:
        home = self._causes.home(pod.node_name)
        least = float(read.spec.get("minReadySeconds") or 0)
        view = viewed(
            pod,
            facts,
            owner_uid=key[3],
            cause=self._causes.of(pod, self.levels(pod, read.annotations)),
            answers=home.answers or not pod.node_name,
            silent=self._is_silent(home.target),
            waits=is_waiting(pod, self._deps.server_now),
            certified=self._causes.is_dead(pod.node_name),
            fence=self._deps.fence_left(pod) if not home.answers else None,
            available=(key[0] == owners.JOB and bool(pod.node_name))
            or facts.is_available(self._deps.clock.now(), least),
            selected=is_labelled(read.spec.get("selector") or {}, pod.labels),
            **what_keeps(pod, facts, self.claims.store.get),
        )
        if view.replaces and not view.owned:
            moved = replacement.moved(facts.annotations)
            template = replacement.digest(read.spec.get("template") or {})
            outdated = moved is None or moved.template != template
            return replace(self._announced(pod, view), outdated=outdated)
        return view

    def _is_silent(self, target: Target | None) -> bool:
        grace = self._deps.settings.endpoints_grace
        return target is not None and silent_in(target.record, self._deps.clock.now(), grace) == 0.0

    def _announced(self, pod: Object, view: Pod) -> Pod:
        """Return the view with `announced` and `lacking`. A pod that is not available has not been announced."""
        if not view.available:
            self._announcements.forget([pod])
            return replace(view, announced=False)
        done, lacking = self._announcements.of(pod)
        return replace(view, announced=done, lacking=self._announcements.words(lacking))

    def _asked(self, key: OwnerKey, read: Read, pods: Sequence[Object], facts: Sequence[Facts]) -> OwnerPods:
        looked_at = zip(pods, facts, strict=True)
        own = agreed([each.annotations for pod, each in looked_at if not (pod.deleting or is_replacement(pod))])
        return OwnerPods(
            move_of((own, *read.annotations, self._deps.namespaces.annotations(key[1]))),
            claims=any(each.claims for each in facts),
            ends=any(each.ends for each in facts),
            unable=self._unable(key, read),
        )

    def _unable(self, key: OwnerKey, read: Read) -> str:
        """Return why no replacement can be created for an owner's pods; empty if one can."""
        refusal = self._refusals.get(key[3])
        if why := unable(key, read, enabled=self._deps.namespaces.is_enabled(key[1])):
            return why
        return refusal.message if refusal is not None and refusal.stands and not refusal.passes else ""

    def _with_room(self, pods: Sequence[Object], views: Sequence[Pod], *, are_alike: bool) -> list[Pod]:
        """Return the views; those of misplaced pods with the reason why no other target has capacity for them.

        :param are_alike: whether all pods have one template, so that one result holds for all of them
        """
        known: dict[object, str] = {}
        found = []
        for pod, view in zip(pods, views, strict=True):
            if view.owned and view.lives and view.cause:
                choice = self._deps.choices.of(pod)
                follows = reference_of(pod, self._deps.namespaces.get(pod.namespace))
                about = (pod.node_name, choice, follows, "" if are_alike else pod.uid)
                if about not in known:
                    known[about] = room(wanted_by(pod), self._groups.packings(self._others(pod, choice)))
                found.append(replace(view, room=known[about]))
            else:
                found.append(view)
        return found

    def _served(self, pod: Object, view: Pod) -> Pod:
        """Return the view; if the pod is available and well placed, with whether its address is announced.

        Only evictions depend on that.
        """
        if not (view.owned and view.lives and view.available) or view.cause:
            return view
        return self._announced(pod, view)

    def _others(self, pod: Object, choice: TargetChoice | None) -> list[Target]:
        """Return the other ready targets that admit a pod."""
        return [
            target
            for target in self._deps.targets.serving(pod.namespace)
            if target.ready and target.node_name != pod.node_name and self._causes.admits(pod, target, choice)
        ]


def what_keeps(pod: Object, facts: Facts, claim: Callable[[Key], Object | None]) -> Raw:
    """Return why a pod stays whatever its owner is, as fields of its view; empty if it may move.

    :param claim: returns a volume claim, None if it does not exist
    """
    if name := bound_claim(pod, facts, claim):
        return {"data": True, "stays": f"the volume of its claim {name} is there"}
    is_never = names.annotation(facts.annotations, moves.MOVE) == moves.NEVER
    return {"stays": _NEVER} if is_never else {}


def agreed(annotations: Iterable[Mapping[str, str]]) -> Mapping[str, str]:
    """Return the annotation `multicluster/move` if it is equal on all pods of an owner; otherwise empty."""
    keys = (names.PREFIX + moves.MOVE, names.SHORT_PREFIX + moves.MOVE)
    said = [{key: each.get(key) for key in keys} for each in annotations]
    alike = said[0] if said and all(each == said[0] for each in said) else {}
    return {key: value for key, value in alike.items() if value is not None}


def unable(key: OwnerKey, read: Read, *, enabled: bool) -> str:
    """Return why the owner itself allows no replacement for its pods; empty if it does.

    :param enabled: whether its namespace is enabled, so that the webhook elects its pods
    """
    if key[0] == owners.REPLICA_SET and not left_out(read, frozenset()):
        return "its selector has no label that a replacement could lack"
    return "" if enabled else "its namespace is not enabled any more"


def left_out(read: Read, selected: frozenset[str]) -> str:
    """Return the label that a replacement in a ReplicaSet lacks until it is adopted; empty if none is suitable."""
    template = (read.spec.get("template") or {}).get("metadata") or {}
    return replacement.label_to_leave_out(read.spec.get("selector") or {}, template.get("labels") or {}, selected)
