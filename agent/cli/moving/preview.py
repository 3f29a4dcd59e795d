"""Preview of a move, read with the user's own rights. Writes nothing."""

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from agent.cli.explaining import facts as explaining
from agent.cli.explaining.choosing import Chains, speaking
from agent.cli.explaining.rankings import ranking_of
from agent.cli.fleet.source_queries import read_nodes
from agent.cli.moving.fates import HELD, PLACED, UNKNOWN, Fate, Verdict, rehearsed, verdict_of, with_targets
from agent.cli.moving.objects import said
from agent.cli.moving.rehearsal import Rehearsal
from agent.cli.moving.world import Home, Meant, World
from agent.clusters.stores.target_choices import POD, said_by_settings
from agent.kube.client import Client
from agent.kube.store import Key, Object
from agent.model.moveterms import move_of
from agent.model.namespaces import is_enabled
from agent.model.podstate import ENDED
from agent.model.target_health import first_term
from agent.model.targetchoice import TargetChoice, combine, level
from agent.moves.mover import owners
from agent.moves.mover.facts import Facts, facts_of, is_labelled, is_replacement, owner_of, viewed
from agent.moves.mover.gather import Read, agreed, unable, what_keeps
from agent.moves.mover.groups import NOT_ENABLED, bound_claim, group_of, member
from agent.moves.mover.owners import OwnerPods
from agent.moves.mover.view import Cause, Owner, Pod, Together
from agent.moves.mover.whole_groups import Member, together
from agent.ranking.rank import Ranking
from agent.settings import Settings

Raw = dict[str, Any]

_NEVER = "its failover-after says never: it waits for its target"


class Preview:
    """Predicts the fate of pods."""

    def __init__(
        self, client: Client, world: World, meant: Meant, settings: Settings, notes: list[str], now: datetime
    ) -> None:
        self._client = client
        self._world = world
        self._meant = meant
        self._settings = replace(settings, moves=True)
        self._now = now
        self._chains = Chains(client, notes)
        self._facts: dict[str, explaining.Facts] = {}
        """Facts about the other targets, by UID of the pods' owner: its pods have one template."""
        self._rankings: dict[str, Ranking] = {}
        """Rankings by UID of the pods' owner."""
        self._groups: dict[Key, Together] = {}
        """Decisions of the groups, by namespace and name."""
        self._families: dict[str, list[Object]] = {}
        """Pods by the UID of their controller, without replacements."""
        for pod in world.proxies:
            if not (pod.deleting or is_replacement(pod)):
                self._families.setdefault(owner_of(pod)[3], []).append(pod)
        self._said_alike: dict[str, Mapping[str, str]] = {}
        """Annotations about moving that all pods of an owner share, by UID of the owner."""

    async def fates(self, *, ranked: bool = True) -> list[Fate]:
        """Return the fates of all pods that the move concerns, by name. Raises Failed, KubeError.

        :param ranked: whether to find their eligible targets, too
        """
        found = []
        for pod in sorted(self._world.proxies, key=lambda each: each.key):
            if not await self.concerns(pod) or pod.deleting or pod.phase in ENDED or is_replacement(pod):
                continue
            found.append(await self._fate(pod, ranked=ranked))
        return found

    async def rehearse(self) -> list[Fate]:
        """Return the results for all pods at once: each takes capacity that the next one then lacks.

        A pod that already has a replacement counts as that. Raises Failed, KubeError.
        """
        fates = await self.fates(ranked=False)
        going = {fate.uid for fate in fates if fate.moves} - self._world.replaced
        pods = [pod for pod in self._world.proxies if pod.uid in going]
        leaving = [await self._facts_of(pod, await self.choice(pod)) for pod in pods]
        nodes = await read_nodes(self._client)
        return rehearsed(fates, Rehearsal(leaving, nodes, self._settings, self._now).run())

    async def concerns(self, pod: Object) -> bool:
        """Return True if the requested move concerns a pod. Raises KubeError."""
        return self._meant.may_concern(pod) and self._meant.concerns(pod, await self._chains.of(pod))

    async def choice(self, pod: Object) -> TargetChoice | None:
        """Return the choice of targets for a pod after the move, None for any target. Raises KubeError."""
        return self._choice(pod, await self._chains.of(pod))

    async def owner(self, pod: Object) -> Object | None:
        """Return a pod's controller, None if it is not read. Raises KubeError."""
        return next(iter(await self._chains.of(pod)), None)

    async def _fate(self, pod: Object, *, ranked: bool) -> Fate:
        chain = await self._chains.of(pod)
        choice = self._choice(pod, chain)
        key, known = owner_of(pod), facts_of(pod)
        read = _read(chain)
        home = self._world.homes.get(pod.node_name)
        if key[0] in owners.READ and read.obj is None:
            verdict = Verdict(moves=False, reason=UNKNOWN, how=f"{key[0]} {key[2]} cannot be read", final=True)
        else:
            view = self._view(pod, known, read, choice)
            view = replace(view, together=await self._together(pod) if view.cause else None)
            replaced = pod.uid in self._world.replaced
            verdict = verdict_of(self._owner(pod, known, read), view, replaced=replaced)
        if verdict.reason == PLACED and pod.node_name == self._meant.lost:
            verdict = Verdict(moves=False, reason=HELD, how=_NEVER, final=True)
        elif verdict.reason == PLACED and choice is not None:
            verdict = replace(verdict, how=f"{verdict.how}: {choice.source}")
        ranking = await self._ranking(pod, choice) if verdict.moves and ranked else None
        verdict, to = with_targets(verdict, ranking)
        title = home.title if home is not None else pod.node_name
        moves = (verdict.moves, verdict.reason, verdict.how, verdict.final)
        return Fate(pod.namespace, pod.name, pod.uid, title, to, *moves)

    def _choice(self, pod: Object, chain: tuple[Object, ...]) -> TargetChoice | None:
        namespace = self._world.namespaces.get(pod.namespace)
        levels = [level(POD, self._said(pod))]
        levels += [level(f"{owner.kind.name} {owner.name}", self._said(owner)) for owner in speaking(chain)]
        if namespace is not None:
            levels.append(level(f"namespace {namespace.name}", self._said(namespace)))
        by_settings = said_by_settings(self._settings)
        levels += [by_settings] if by_settings is not None else []
        own = frozenset(home.title for home in self._world.homes.values() if home.namespace == pod.namespace)
        return combine(levels, own)

    def _said(self, obj: Object) -> Mapping[str, str]:
        where = self._meant.where
        return said(obj.annotations, self._meant.targets) if where and where.uid == obj.uid else obj.annotations

    def _levels(self, pod: Object, read: Read) -> tuple[Mapping[str, str], ...]:
        namespace = self._world.namespaces.get(pod.namespace)
        return pod.annotations, *read.annotations, namespace.annotations if namespace is not None else {}

    def _owner(self, pod: Object, known: Facts, read: Read) -> Owner:
        namespace = self._world.namespaces.get(pod.namespace)
        enabled = namespace is None or is_enabled(namespace.labels)
        key = owner_of(pod)
        asked = OwnerPods(
            move_of((self._agreed(key[3]), *self._levels(pod, read)[1:])),
            claims=bool(known.claims),
            ends=known.ends,
            unable=unable(key, read, enabled=enabled),
        )
        return owners.owner(key[0], read.obj, read.parent, asked)

    def _agreed(self, owner: str) -> Mapping[str, str]:
        """Return the annotations about moving that all pods of an owner share."""
        if owner not in self._said_alike:
            self._said_alike[owner] = agreed(pod.annotations for pod in self._families.get(owner, ()))
        return self._said_alike[owner]

    def _view(self, pod: Object, known: Facts, read: Read, choice: TargetChoice | None) -> Pod:
        home = self._world.homes.get(pod.node_name)
        return viewed(
            pod,
            known,
            owner_uid=owner_of(pod)[3],
            cause=(self._cause(pod, home, read, choice), ""),
            answers=home is None or home.answers,
            certified=home is not None and home.certified,
            fence=home.fence(pod, self._settings.fence_wait, self._now) if home is not None else None,
            available=known.is_available(self._now, float(read.spec.get("minReadySeconds") or 0)),
            selected=is_labelled(read.spec.get("selector") or {}, pod.labels),
            **what_keeps(pod, known, self._world.claims.get),
        )

    async def _together(self, pod: Object) -> Together | None:
        """Decide for the group of a pod, without the check of capacity for all members; None without a group."""
        group = group_of(pod)
        if not group:
            return None
        namespace = self._world.namespaces.get(pod.namespace)
        if namespace is not None and not is_enabled(namespace.labels):
            return NOT_ENABLED
        key = (pod.namespace, group)
        if key not in self._groups:
            pods = (each for each in self._world.proxies if (each.namespace, group_of(each)) == key)
            members = [await self._member(each) for each in pods if not is_replacement(each)]
            self._groups[key] = together(group, members, lambda: "")
        return self._groups[key]

    async def _member(self, pod: Object) -> Member:
        chain = await self._chains.of(pod)
        known, read = facts_of(pod), _read(chain)
        view = self._view(pod, known, read, self._choice(pod, chain))
        return member(
            pod,
            known,
            self._levels(pod, read),
            cause=view.cause,
            answers=view.answers or not pod.node_name,
            certified=view.certified,
            fence=view.fence,
            claim=bound_claim(pod, known, self._world.claims.get),
        )

    def _cause(self, pod: Object, home: Home | None, read: Read, choice: TargetChoice | None) -> Cause:
        if home is None:
            return ""
        silent = math.inf if home.standing.lost else 0.0
        if home.standing.has_lost(silent, first_term(self._levels(pod, read))):
            return "Lost"
        if home.standing.retiring or pod.node_name == self._meant.retiring:
            return "Retire"
        return "Targets" if choice is not None and choice.misplaced(home) else ""

    async def _facts_of(self, pod: Object, choice: TargetChoice | None) -> explaining.Facts:
        """Return the facts about a pod; targets are read once for all pods of an owner."""
        owner = owner_of(pod)[3]
        if owner not in self._facts:
            found = await explaining.read(self._client, pod, self._settings, self._now, self._world.proxies)
            others = tuple(seen for seen in found.targets if seen.info.node_name != pod.node_name)
            self._facts[owner] = replace(found, targets=others)
        return replace(self._facts[owner], pod=pod, choice=choice)

    async def _ranking(self, pod: Object, choice: TargetChoice | None) -> Ranking:
        owner = owner_of(pod)[3]
        if owner not in self._rankings:
            facts = await self._facts_of(pod, choice)
            _, self._rankings[owner] = ranking_of(facts, self._settings, self._now)
        return self._rankings[owner]


def _read(chain: tuple[Object, ...]) -> Read:
    """Return the controllers of a pod in the mover's format."""
    if not chain or chain[0].kind.name not in owners.READ:
        return Read(None, None)
    first = chain[0]
    if first.kind.name != owners.REPLICA_SET or first.controller is None:
        return Read(_manifest(first), None)
    if len(chain) > 1:
        return Read(_manifest(first), _manifest(chain[1]))
    # Controllers other than Deployments need not be read.
    return Read(None, None) if first.controller.kind == owners.DEPLOYMENT else Read(_manifest(first), _kind_of(first))


def _kind_of(made: Object) -> Raw:
    return {"kind": made.controller.kind} if made.controller is not None else {}


def _manifest(obj: Object) -> Raw:
    return {"apiVersion": obj.kind.api_version, "kind": obj.kind.name, **obj.decode()}
